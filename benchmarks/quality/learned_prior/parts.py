"""Compare the fitted ensemble with its parts on the cells of ``collect.py``: how often, and by how much, it is below.

    python -m benchmarks.quality.learned_prior.parts --cells output/cells --kinds SETS/INDEX.jsonl

The parts are the probe, word counts, and the ensemble without documents. The best of them is chosen by the test texts,
so chance favors it: of three equal systems the best one is often a point above the others. Therefore a paired bootstrap
of the test texts gives the 95 % interval of the difference, and a cell counts as below "beyond chance" if the whole
interval is more than 1 point below. Records are lines of parts.jsonl in --output.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

import numpy as np
from sklearn.metrics import accuracy_score, f1_score

from benchmarks.quality.learned_prior.train import KINDS, LABELS, kinds_of
from docsplit_hf.training.markdown import table

RESULTS = Path(__file__).parents[3] / "docs" / "results" / "few_labels"
ENSEMBLE = "ours"
PARTS = {"probe": "probe", "words": "words", "without_documents": "alone.probabilities"}  # arrays by name
MARGIN = 1.0  # points of macro F1
RESAMPLES = 500
COLUMNS = (
    "kind",
    "labels",
    "cells",
    "ours",
    "probe",
    "words",
    "without documents",
    "below",
    "beyond chance",
    "worst",
    "accuracy there",
)


class Record(TypedDict):
    """Metrics of a cell, in percent; differences in points."""

    task: str
    kind: str
    per_label: str
    draw: int
    macro_f1: dict[str, float]  # by system
    accuracy: dict[str, float]
    best_part: str  # by macro F1
    difference: float  # of the ensemble's macro F1 and that of the best part
    highest_difference: float  # the end of its 95 % interval


def compare(file: Path, kinds: dict[str, str]) -> Record:
    """Compare the ensemble of a cell with its best part."""
    with np.load(file) as cell:
        labels = cell["test_targets"]
        answers = {name: cell[array].argmax(1) for name, array in {ENSEMBLE: ENSEMBLE, **PARTS}.items()}
        task = str(cell["set"])
        per_label = str(cell["labels"])
        draw = int(cell["draw"])
    scores = {name: macro_f1(labels, given) for name, given in answers.items()}
    best = max(PARTS, key=scores.__getitem__)
    return {
        "task": task,
        "kind": kinds[task],
        "per_label": per_label,
        "draw": draw,
        "macro_f1": scores,
        "accuracy": {name: 100 * accuracy_score(labels, given) for name, given in answers.items()},
        "best_part": best,
        "difference": scores[ENSEMBLE] - scores[best],
        "highest_difference": highest_difference(labels, answers[ENSEMBLE], answers[best]),
    }


def macro_f1(labels: np.ndarray, answers: np.ndarray) -> float:
    """Macro F1 over the labels of the test texts, in percent."""
    present = np.unique(labels)
    return 100 * float(f1_score(labels, answers, labels=present, average="macro", zero_division=0))


def highest_difference(labels: np.ndarray, answers: np.ndarray, others: np.ndarray) -> float:
    """Upper end of the 95 % interval of the difference of two macro F1, by a paired bootstrap of the texts."""
    texts = len(labels)
    counts = np.random.default_rng(0).multinomial(texts, np.full(texts, 1 / texts), RESAMPLES)
    differences = macro_f1_of_resamples(labels, answers, counts) - macro_f1_of_resamples(labels, others, counts)
    return float(np.quantile(differences, 0.975))


def macro_f1_of_resamples(labels: np.ndarray, answers: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Macro F1 of R resamples in percent, ``(R,)``; ``counts`` ``(R, N)``: how often each text is in each of them."""
    present = np.unique(labels)
    is_label = labels[:, None] == present
    is_answer = answers[:, None] == present
    label_counts = counts @ is_label
    right_counts = counts @ (is_label & is_answer)
    f1 = 2 * right_counts / np.maximum(label_counts + counts @ is_answer, 1)
    has_texts = label_counts > 0
    return 100 * (f1 * has_texts).sum(1) / has_texts.sum(1)


def summary(records: Sequence[Record]) -> list[tuple[str, ...]]:
    """Rows by kind and label count: means over cells, and the cells in which the ensemble is below its best part."""
    rows = []
    for kind in KINDS:
        for labels in LABELS:
            cells = [record for record in records if (record["kind"], record["per_label"]) == (kind, labels)]
            if cells:
                rows.append((kind, labels, str(len(cells)), *_cells(cells)))
    return rows


def _cells(records: Sequence[Record]) -> list[str]:
    means = [np.mean([record["macro_f1"][name] for record in records]) for name in (ENSEMBLE, *PARTS)]
    below = sum(record["difference"] < -MARGIN for record in records)
    beyond_chance = sum(record["highest_difference"] < -MARGIN for record in records)
    worst = min(records, key=lambda record: record["difference"])
    accuracy = worst["accuracy"][ENSEMBLE] - worst["accuracy"][worst["best_part"]]
    return [
        *(f"{mean:.1f}" for mean in means),
        str(below),
        str(beyond_chance),
        f"{worst['difference']:+.1f}",
        f"{accuracy:+.1f}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--cells", type=Path, required=True, help="Folder of the cells of collect.py.")
    add("--kinds", type=Path, required=True, help="A file of jsonl with the name and the kind of each data set.")
    add("--output", type=Path, default=RESULTS, help="Folder for the records. Default: %(default)s.")
    options = parser.parse_args()
    kinds = kinds_of(options.kinds)
    files = [file for file in sorted(options.cells.glob("*.npz")) if ".part" not in file.name]
    records = [compare(file, kinds) for file in files]
    options.output.mkdir(parents=True, exist_ok=True)
    with (options.output / "parts.jsonl").open("w", encoding="utf-8") as lines:
        lines.writelines(json.dumps(record) + "\n" for record in records)
    print(table(COLUMNS, summary(records)))


if __name__ == "__main__":
    main()
