"""Learn the prior weight of the expert on style from cells of ``collect.py``, and compare it with none.

    OMP_NUM_THREADS=1 python -m benchmarks.quality.learned_prior.style --cells output/cells --kinds SETS/sets.jsonl

The logarithm of the weight is linear in what is known before any answer (``Style.prior``). The coefficients are printed
for LEARNED_PRIOR in style_expert.py; they minimize the log loss of the test texts, each data set and label count with
the same weight, and topics with as much as all others. Records are of data sets that were left out of learning,
together with related ones: the ensemble without the expert, with the learned weight and with that of LEARNED_PRIOR
(which was learned with some of the sets), and the parts. "beyond" counts the cells whose difference from the best part
is below -1 point with its whole 95 % interval, by a paired bootstrap. Sets of versions of one text are collected with
``--first``, so that the pool has all versions of its texts. With one example of each label the expert has no weight, so
nothing is learned from these cells.
"""

from __future__ import annotations

import argparse
import json
import zlib
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax

from benchmarks.quality.learned_prior.parts import MARGIN, highest_difference
from benchmarks.quality.learned_prior.train import FOLDS, LABELS, RESULTS, TEST_TEXTS, Arm, family, metrics, read_cells
from docsplit_hf.fitting.ensemble.prior_sharpness import learned_sharpness, prior_sharpness
from docsplit_hf.fitting.ensemble.report import versions_mislead
from docsplit_hf.fitting.experts.log_linear_pool import (
    most_probable_weights,
    pool,
)
from docsplit_hf.fitting.experts.style_expert import LEARNED_PRIOR, prior_weight
from docsplit_hf.fitting.experts.vector_experts import MIN_LOG_LIKELIHOOD_GAIN
from docsplit_hf.training.markdown import table

CONSTANT = 0.13  # times 1 - 1 / examples of each label: the weight before it was learned
RIDGE = 1e-3  # penalty of the squares of the coefficients of standardized features
PARTS = ("probe", "words", "style")
SYSTEMS = ("without", "learned", "as shipped", *PARTS)


class Cell(NamedTuple):
    """The fits of a data set, with and without documents."""

    task: str
    kind: str
    per_label: str
    draw: int
    arms: list[Arm]  # with documents, if there are any, and without

    @property
    def fold(self) -> int:
        """Number of the fold of its family."""
        return zlib.crc32(family(self.task).encode()) % FOLDS


class Row(NamedTuple):
    """A fit for learning: logits of test texts by style and by the other experts, for a sharpness of 1."""

    features: np.ndarray  # (F,)
    growth: float  # 1 - 1 / examples of each label
    others: float  # sum of the prior weights of the other experts
    sharpness: float
    of_others: np.ndarray  # (N, C)
    of_style: np.ndarray  # (N, C)
    targets: np.ndarray  # int64 (N,)
    weight: float


def read(folders: list[Path], kinds: dict[str, str]) -> list[Cell]:
    """Read the cells."""
    typical = learned_sharpness().typical_spreads
    cells = defaultdict(list)
    for folder in folders:
        for arm in read_cells(folder):
            key = (arm.name, kinds[arm.name], arm.labels, arm.draw)
            cells[key].append(arm._replace(typical_spreads=typical))
    return [Cell(*key, arms) for key, arms in cells.items()]


def with_style(arm: Arm, weight: float) -> Arm:
    """The arm with another prior weight of style."""
    raw = np.array(arm.raw_prior)
    raw[arm.experts.index("style")] = max(weight, 1e-9)
    return arm._replace(prior=raw / raw.sum())


def answers(cell: Cell, weights: list[float]) -> np.ndarray:
    """Probabilities of the test texts with a prior weight of style in each arm."""
    found = []
    likelihoods = []
    for arm, weight in zip(cell.arms, weights, strict=True):
        weighted = with_style(arm, weight)
        of_logits = chosen_weights(weighted)
        found.append(pool(arm.test, of_logits, False, arm.shift))
        held_out = pool(arm.held_out, of_logits, False) if len(arm.targets) else arm.targets
        likelihoods.append(float((np.log(held_out.clip(1e-12)) * arm.targets).sum()))
    first = cell.arms[0]
    gain = likelihoods[-1] - likelihoods[0]
    if versions_mislead(first.version_fraction, first.agreeing):
        leaves_out = gain >= -MIN_LOG_LIKELIHOOD_GAIN
    else:
        leaves_out = gain > MIN_LOG_LIKELIHOOD_GAIN or (first.documents_lack_a_label and gain > 0)
    return found[-1 if leaves_out else 0]


def chosen_weights(arm: Arm) -> np.ndarray:
    """Weights of the logits that a fit would choose, as in ``choose_weights``, ``(E,)``."""
    spreads = arm.spreads()
    sharpness = prior_sharpness(arm.evidence(), learned_sharpness())
    if not len(arm.targets):
        return sharpness * arm.prior / spreads
    shift = np.tile(arm.shift, (len(arm.targets), 1)) if arm.has_documents else arm.fold_shift
    importance = np.exp((shift * arm.targets).sum(1, keepdims=True))
    importance /= importance.mean()
    scaled = arm.held_out / spreads[:, None, None]
    weights = most_probable_weights(scaled, arm.targets, arm.prior, False, shift, importance, sharpness)
    return weights / spreads


def features_of(arm: Arm) -> dict[str, float]:
    """The features of the weight, as the expert computes them."""
    misleading = 0.0 if arm.agreeing else arm.version_fraction
    return {"one": 1.0, "name_reliability": arm.name_reliability, "misleading_versions": misleading}


def growth(arm: Arm) -> float:
    """What grows with the examples of each label, from 0 with one."""
    return 1 - 1 / examples_per_label(arm)


def examples_per_label(arm: Arm) -> float:
    """Mean number of examples of a label."""
    return arm.examples / arm.test.shape[2]


def rows_of(cells: list[Cell]) -> list[Row]:
    """Rows for learning."""
    counts: dict[tuple[str, str, str, bool], int] = defaultdict(int)
    arms = [(cell, arm) for cell in cells if cell.per_label != "1" for arm in cell.arms]
    for cell, arm in arms:
        counts[cell.task, cell.kind, cell.per_label, arm.has_documents] += 1
    weights = np.array([1 / counts[c.task, c.kind, c.per_label, arm.has_documents] for c, arm in arms])
    are_topics = np.array([cell.kind == "topics" for cell, _ in arms])
    for group in (are_topics, ~are_topics):
        weights[group] /= 2 * max(weights[group].sum(), 1e-12)
    rows = []
    for (_, arm), weight in zip(arms, weights, strict=True):
        style = arm.experts.index("style")
        raw = np.array(arm.raw_prior)
        raw[style] = 0
        scaled = arm.test[:, :TEST_TEXTS] / arm.spreads()[:, None, None]
        rows.append(
            Row(
                features=np.array(list(features_of(arm).values())),
                growth=growth(arm),
                others=float(raw.sum()),
                sharpness=prior_sharpness(with_style(arm, CONSTANT * growth(arm)).evidence(), learned_sharpness()),
                of_others=np.tensordot(raw / raw.sum(), scaled, 1),
                of_style=scaled[style],
                targets=arm.test_targets[:TEST_TEXTS],
                weight=float(weight),
            )
        )
    return rows


def learn(rows: list[Row]) -> dict[str, float]:
    """Coefficients of the log weight of style with the least log loss of the test texts."""
    values = np.array([row.features for row in rows])
    scale = values.std(0)
    scale[scale < 1e-6] = 1.0
    total = sum(row.weight for row in rows)
    start = np.zeros(len(scale))
    start[0] = np.log(CONSTANT)

    def loss(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        from_start = parameters - start
        value = RIDGE * from_start @ from_start
        gradient = 2 * RIDGE * from_start
        for row, standardized in zip(rows, values / scale, strict=True):
            weight = row.growth * np.exp(np.clip(standardized @ parameters, -12, 2))
            share = weight / (weight + row.others)
            logits = row.sharpness * ((1 - share) * row.of_others + share * row.of_style)
            logs = log_softmax(logits, axis=1)
            texts = np.arange(len(row.targets))
            part = row.weight / total / len(texts)
            value -= part * logs[texts, row.targets].sum()
            error = np.exp(logs)
            error[texts, row.targets] -= 1
            by_share = row.sharpness * (error * (row.of_style - row.of_others)).sum()
            gradient = gradient + part * by_share * share * (1 - share) * standardized
        return value, gradient

    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 40})
    return {name: float(f"{value:.3g}") for name, value in zip(LEARNED_PRIOR, found.x / scale, strict=True)}


def measure(cells: list[Cell], learned: list[dict[str, float]]) -> list[dict[str, object]]:
    """Records of all systems; ``learned`` by the fold that was left out."""
    records = []
    for cell in cells:
        arm = cell.arms[0]
        of_style = arm.test[arm.experts.index("style")]
        weights = {
            "without": [0.0] * len(cell.arms),
            "learned": [
                prior_weight(features_of(one), examples_per_label(one), learned[cell.fold]) for one in cell.arms
            ],
            "as shipped": [prior_weight(features_of(one), examples_per_label(one)) for one in cell.arms],
        }
        found = {"probe": arm.probe, "words": arm.words, "style": np.exp(log_softmax(of_style, axis=1))}
        for system, own in weights.items():
            found[system] = answers(cell, own)
        measured = {system: metrics(found[system], arm.test_targets) for system in SYSTEMS}
        best = max(PARTS, key=lambda part: measured[part]["macro_f1"])
        for system in SYSTEMS:
            record: dict[str, object] = {"task": cell.task, "kind": cell.kind, "per_label": cell.per_label}
            record |= {"draw": cell.draw, "version_fraction": round(arm.version_fraction, 3), "system": system}
            record |= {name: round(value, 5) for name, value in measured[system].items()}
            if system in weights:
                record["weight"] = float(f"{weights[system][0]:.3g}")
                highest = highest_difference(arm.test_targets, found[system].argmax(1), found[best].argmax(1))
                record["highest_difference"] = round(highest, 2)
            records.append(record)
    return records


def summary(records: list[dict[str, object]], systems: Sequence[str] = SYSTEMS) -> list[tuple[str, ...]]:
    """Rows by kind, label count and system: means, the mean over the best part, and the cells 1 point below it."""
    by_cell: dict[tuple, dict[str, dict]] = defaultdict(dict)
    for record in records:
        key = (record["kind"], record["per_label"], record["task"], record["draw"])
        by_cell[key][str(record["system"])] = record
    groups = defaultdict(list)
    for (kind, per_label, *_), found in by_cell.items():
        groups[kind, per_label].append(found)
        groups["all", per_label].append(found)
    lines = []
    for (kind, per_label), cells in sorted(groups.items(), key=lambda item: (item[0][0], LABELS.index(item[0][1]))):
        for system in systems:
            gaps_of_two = []
            gaps = []
            for found in cells:
                own = found[system]["macro_f1"]
                gaps_of_two.append(own - max(found[part]["macro_f1"] for part in ("probe", "words")))
                gaps.append(own - max(found[part]["macro_f1"] for part in PARTS))
            means = [
                np.mean([found[system][name] for found in cells])
                for name in ("macro_f1", "expected_calibration_error", "log_loss")
            ]
            lines.append(
                (kind, per_label, system, str(len(cells)))
                + (f"{100 * means[0]:.1f}", f"{100 * means[1]:.1f}", f"{means[2]:.3f}")
                + (f"{100 * np.mean(gaps_of_two):+.1f}", f"{100 * np.mean(gaps):+.1f}")
                + (str(sum(gap < -0.01 for gap in gaps)),)
                + (str(sum(found[system].get("highest_difference", 0) < -MARGIN for found in cells)),)
            )
    return lines


def kinds_of(file: Path) -> dict[str, str]:
    """Kind of each data set: versions, another language than English, no topics or topics."""
    kinds = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        kind = "no topics" if "no topics" in row["kind"] else "topics"
        if row["language"] != "en":
            kind = "other languages"
        kinds[row["name"]] = "versions" if "versions" in row["kind"] else kind
    return kinds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--cells", type=Path, nargs="+", required=True, help="Folders of cells of collect.py.")
    add("--kinds", type=Path, required=True, help="A file of jsonl with name, kind and language of each data set.")
    add("--output", type=Path, default=RESULTS, help="Folder for style_prior.jsonl. Default: %(default)s.")
    options = parser.parse_args()
    cells = read(options.cells, kinds_of(options.kinds))
    print(json.dumps(learn(rows_of(cells)), indent=2), flush=True)
    learned = [learn(rows_of([cell for cell in cells if cell.fold != fold])) for fold in range(FOLDS)]
    records = measure(cells, learned)
    lines = [json.dumps(record) + "\n" for record in records]
    (options.output / "style_prior.jsonl").write_text("".join(lines), encoding="utf-8")
    metric_names = ("macro F1", "error", "log loss", "over 2", "over 3", "below", "beyond")
    columns = ("kind", "labels", "system", "cells", *metric_names)
    print(table(columns, summary(records)))


if __name__ == "__main__":
    main()
