"""Compare two versions of the package on cells of ``collect.py``, on data sets of versions of one text.

    OMP_NUM_THREADS=1 python -m benchmarks.quality.learned_prior.compared_versions --before CELLS --now CELLS

The cells of --before are collected by an older version of the package, by the same command: of 400 texts, --first, six
draws of 5 labels, three of 20 and two of 1. Systems are ``fit()`` of both versions, and the parts as in ``style.py``.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy.special import softmax

from benchmarks.quality.learned_prior.parts import highest_difference
from benchmarks.quality.learned_prior.style import PARTS, summary
from benchmarks.quality.learned_prior.train import RESULTS, metrics
from docsplit_hf.training.markdown import table

ENSEMBLES = ("before", "now")
SYSTEMS = (*ENSEMBLES, *PARTS)
COLUMNS = (
    "labels",
    "system",
    "cells",
    "macro F1",
    "calibration error",
    "log loss",
    "over 2",
    "over 3",
    "below",
    "beyond",
)
SET_COLUMNS = ("data set", "before, 5", "now, 5", "best part, 5", "before, 20", "now, 20", "best part, 20")


def compare(before: Path, now: Path) -> list[dict[str, object]]:
    """Records of all systems on a cell."""
    with np.load(before) as older, np.load(now) as cell:
        labels = cell["test_targets"]
        style = cell["documents.experts"].tolist().index("style")
        answers = {
            "before": older["ours"],
            "now": cell["ours"],
            "probe": cell["probe"],
            "words": cell["words"],
            "style": softmax(older["documents.test"][style], axis=1),
        }
        key = {
            "task": str(cell["set"]),
            "kind": "versions",
            "per_label": str(cell["labels"]),
            "draw": int(cell["draw"]),
        }
    measured = {system: metrics(given, labels) for system, given in answers.items()}
    best = max(PARTS, key=lambda part: measured[part]["macro_f1"])
    records = []
    for system in SYSTEMS:
        record: dict[str, object] = key | {"system": system}
        record |= {name: round(value, 5) for name, value in measured[system].items()}
        if system in ENSEMBLES:
            highest = highest_difference(labels, answers[system].argmax(1), answers[best].argmax(1))
            record["highest_difference"] = round(highest, 2)
        records.append(record)
    return records


def means(records: list[dict[str, object]]) -> list[tuple[str, ...]]:
    """Rows by label count and system: means over data sets, and the cells below the best part."""
    return [row[1:] for row in summary(records, SYSTEMS) if row[0] == "versions"]


def by_set(records: Sequence[dict[str, object]]) -> list[tuple[str, ...]]:
    """Macro F1 of each data set before and now, and that of its best part, with 5 and 20 labels."""
    rows = []
    for task in sorted({str(record["task"]) for record in records}):
        row = [task.replace("_", r"\_")]
        for per_label in ("5", "20"):
            own = [record for record in records if (record["task"], record["per_label"]) == (task, per_label)]
            of_system = {
                system: np.mean([record["macro_f1"] for record in own if record["system"] == system])
                for system in SYSTEMS
            }
            shown = (of_system["before"], of_system["now"], max(of_system[part] for part in PARTS))
            row += [f"{100 * value:.1f}" for value in shown]
        rows.append(tuple(row))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--before", type=Path, required=True, help="Folder of cells of an older version of the package.")
    add("--now", type=Path, required=True, help="Folder of cells of this version.")
    add("--output", type=Path, default=RESULTS, help="Folder for compared_versions.jsonl. Default: %(default)s.")
    options = parser.parse_args()
    records = []
    for file in sorted(options.now.glob("*.npz")):
        records += compare(options.before / file.name, file)
    lines = [json.dumps(record) + "\n" for record in records]
    (options.output / "compared_versions.jsonl").write_text("".join(lines), encoding="utf-8")
    print(table(COLUMNS, means(records)))
    print(table(SET_COLUMNS, by_set(records)))


if __name__ == "__main__":
    main()
