"""Learn the prior sharpness of the ensemble from cells of ``collect.py``, and compare it with the weights in them.

    OMP_NUM_THREADS=1 python -m benchmarks.quality.learned_prior.train --cells output/cells --kinds SETS/INDEX.jsonl
    OMP_NUM_THREADS=1 python -m benchmarks.quality.learned_prior.train ... --write    # into the package

The coefficients minimize the log loss of the test texts of all cells, each data set and label count with the same
weight, and topics with as much as all others; cells without held-out texts have coefficients of their own. They are
judged on data sets that were left out, together with related ones. "fitted": the weights of the fits in the cells.
"""

from __future__ import annotations

import argparse
import gzip
import json
import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax
from sklearn.metrics import f1_score

from docsplit_hf.fitting.ensemble.prior_sharpness import (
    COEFFICIENTS,
    Evidence,
    LearnedSharpness,
    features,
    prior_sharpness,
    robust_spreads,
)
from docsplit_hf.fitting.experts.log_linear_pool import most_probable_weights, pool, spread_of_scores
from docsplit_hf.storage.earlier_names import EARLIER_EXPERTS
from docsplit_hf.training.markdown import table

RESULTS = Path(__file__).parents[3] / "docs" / "results" / "few_labels"
RIDGE = 1e-3  # penalty of the squares of the coefficients of standardized features
TEST_TEXTS = 120  # of each cell, for training
BINS = 15  # of the calibration error
FOLDS = 6  # of families of data sets
ARMS = ("documents", "alone")
# Data sets that begin alike have the same source.
FAMILIES = (
    "20news",
    "arxiv",
    "hwu64",
    "trec",
    "germeval2018",
    "go_emotions",
    "glue",
    "clue",
    "tweets_",
    "tweet_",
    "edited_",
    "detoxified",
    "amazon_",
    "reddit_",
)
SYSTEMS = ("fitted", "learned", "probe", "words")
PARTS = ("probe", "words", "without_documents")
ALL_SYSTEMS = (*SYSTEMS, "without_documents")
KINDS = ("topics", "no topics", "versions")
LABELS = ("1", "5", "20", "all")
COLUMNS = (
    "kind",
    "labels",
    "proportions",
    "system",
    "sets",
    "macro F1",
    "calibration error",
    "log loss",
    "worst",
    "below",
)


class Arm(NamedTuple):
    """A fit of a cell, with or without documents."""

    name: str  # of the data set
    labels: str  # per class
    draw: int
    experts: list[str]
    prior: np.ndarray  # (E,): prior weights; they sum to 1
    raw_prior: np.ndarray  # (E,): before they were normalized
    test: np.ndarray  # (E, N, C): logits
    test_targets: np.ndarray  # int64 (N,)
    held_out: np.ndarray  # (E, m, C)
    targets: np.ndarray  # (m, C), 0 or 1
    shift: np.ndarray  # (C,): as chosen by the fit
    fold_shift: np.ndarray  # (m, C): of the held-out texts, which a fit without documents keeps
    raw_spreads: np.ndarray  # (E,)
    spread_texts: int  # on which they were measured
    chosen_weights: np.ndarray  # (E,): of the logits, as fitted
    sample: np.ndarray  # (E, S, C)
    neighbor_label_proportions: np.ndarray  # (m, C)
    examples: int
    has_documents: bool
    name_reliability: float
    edge_agreement: float
    version_fraction: float  # of all texts
    agreeing: int  # groups of versions with one label
    is_chosen: bool  # by the gate for documents
    documents_lack_a_label: bool  # for which the fit left them out
    probe: np.ndarray  # (N, C): probabilities
    words: np.ndarray  # (N, C)
    typical_spreads: dict[str, float]  # by expert
    without_documents: np.ndarray  # (N, C): probabilities of the ensemble without documents, as fitted

    def evidence(self) -> Evidence:
        """What is known before a test label."""
        scale = self.spreads()[:, None, None]
        return Evidence(
            prior=self.prior,
            sample=self.sample / scale,
            held_out=self.held_out / scale,
            targets=self.targets,
            neighbor_label_proportions=self.neighbor_label_proportions,
            examples=self.examples,
            has_documents=self.has_documents,
            name_reliability=self.name_reliability,
            edge_agreement=self.edge_agreement,
        )

    def spreads(self) -> np.ndarray:
        """Spreads of the experts as a fit uses them."""
        return robust_spreads(self.raw_spreads, self.spread_texts, self.experts, self.typical_spreads)


def read_cells(folder: Path) -> Iterator[Arm]:
    """All fits of the cells."""
    for file in sorted(folder.glob("*.npz")):
        if ".part" in file.name:
            continue
        with np.load(file) as archive:
            cell = {name: archive[name] for name in archive.files}
        for arm in ARMS:
            if f"{arm}.test" in cell:
                yield _arm(cell, arm)


def _arm(cell: dict[str, np.ndarray], arm: str) -> Arm:
    own = {name.removeprefix(f"{arm}."): array for name, array in cell.items() if name.startswith(f"{arm}.")}
    labels = len(cell["names"])
    held_out = own["held_out"].astype(np.float64)
    sample = own["sample"].astype(np.float64)
    has_documents = arm == "documents"
    texts = len(own["targets"])
    spreads = own["spreads"].astype(np.float64)
    return Arm(
        name=str(cell["set"]),
        labels=str(cell["labels"]),
        draw=int(cell["draw"]),
        experts=[EARLIER_EXPERTS.get(name, name) for name in own["experts"].tolist()],
        prior=own["prior"].astype(np.float64),
        raw_prior=own["raw_prior"].astype(np.float64),
        test=own["test"].astype(np.float64),
        test_targets=cell["test_targets"],
        held_out=held_out,
        targets=np.eye(labels)[own["targets"]],
        shift=own["shift"].astype(np.float64),
        fold_shift=own["fold_shift"].astype(np.float64),
        raw_spreads=spread_of_scores(held_out if texts else sample, False),
        spread_texts=texts or (sample.shape[1] if has_documents else 0),
        chosen_weights=own["weights"] / np.where(np.isfinite(spreads), spreads, np.inf),
        sample=sample,
        neighbor_label_proportions=own["neighbor_proportions"].astype(np.float64),
        examples=int(own["counts"].sum()),
        has_documents=has_documents,
        name_reliability=float(own["reliability"]),
        edge_agreement=float(own["edge_agreement"]),
        version_fraction=float(own["version_fraction"]),
        agreeing=int(own["agreeing"]),
        is_chosen=str(cell["chosen"]) == arm,
        documents_lack_a_label=bool(cell["lacking"]),
        probe=cell["probe"],
        words=cell["words"],
        typical_spreads={},
        without_documents=cell["alone.probabilities"],
    )


def typical_spreads(arms: list[Arm]) -> dict[str, float]:
    """Median of the spreads of the logits of test texts, by expert."""
    found = defaultdict(list)
    for arm in arms:
        for name, spread in zip(arm.experts, spread_of_scores(arm.test, False), strict=True):
            if np.isfinite(spread):
                found[name].append(spread)
    return {name: float(f"{np.median(own):.5g}") for name, own in found.items()}


class Row(NamedTuple):
    """An arm for training."""

    features: dict[str, float]
    has_held_out_texts: bool
    pooled: np.ndarray  # (N, C): logits with a sharpness of 1
    targets: np.ndarray  # int64 (N,)
    weight: float


def rows_of(arms: list[Arm], kinds: dict[str, str]) -> list[Row]:
    """Rows for training; each set and label count has the same weight, and topics as much as all others."""
    counts = defaultdict(int)
    for arm in arms:
        counts[arm.name, arm.labels, arm.has_documents] += 1
    weights = np.array([1 / counts[arm.name, arm.labels, arm.has_documents] for arm in arms])
    are_topics = np.array([kinds[arm.name] == "topics" for arm in arms])
    for group in (are_topics, ~are_topics):
        weights[group] /= 2 * max(weights[group].sum(), 1e-12)
    rows = []
    for arm, weight in zip(arms, weights, strict=True):
        pooled = np.tensordot(arm.prior / arm.spreads(), arm.test[:, :TEST_TEXTS], 1)
        values = features(arm.evidence())
        has_held_out_texts = len(arm.targets) > 0
        rows.append(Row(values, has_held_out_texts, pooled, arm.test_targets[:TEST_TEXTS], float(weight)))
    return rows


def learn(rows: list[Row], typical: dict[str, float]) -> LearnedSharpness:
    """Coefficients for arms with held-out texts, and for those without."""
    return LearnedSharpness(
        with_held_out_texts=fit_coefficients([row for row in rows if row.has_held_out_texts]),
        without_held_out_texts=fit_coefficients([row for row in rows if not row.has_held_out_texts]),
        typical_spreads=typical,
    )


def fit_coefficients(rows: list[Row]) -> dict[str, float]:
    """Coefficients of the log sharpness by feature, with the least log loss of the test texts."""
    names = [name for name in rows[0].features if any(row.features[name] for row in rows)]
    values = np.array([[row.features[name] for name in names] for row in rows])
    scale = values.std(0)
    scale[scale < 1e-6] = 1.0
    total = sum(row.weight for row in rows)

    def loss(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        value = RIDGE * parameters @ parameters
        gradient = 2 * RIDGE * parameters
        for row, standardized in zip(rows, values / scale, strict=True):
            sharpness = np.exp(np.clip(standardized @ parameters, -6, 4))
            logs = log_softmax(sharpness * row.pooled, axis=1)
            texts = np.arange(len(row.targets))
            weight = row.weight / total / len(texts)
            value -= weight * logs[texts, row.targets].sum()
            error = np.exp(logs)
            error[texts, row.targets] -= 1
            gradient = gradient + weight * sharpness * (error * row.pooled).sum() * standardized
        return value, gradient

    found = minimize(loss, np.zeros(len(scale)), jac=True, method="L-BFGS-B", options={"maxiter": 60})
    return {name: float(f"{value:.5g}") for name, value in zip(names, found.x / scale, strict=True)}


def family(name: str) -> str:
    """Name of the family of a data set."""
    return next((start for start in FAMILIES if name.startswith(start)), name)


def left_out_sharpness(arms: list[Arm], rows: list[Row]) -> np.ndarray:
    """Sharpness of each arm by coefficients that were learned without its family, ``(A,)``."""
    folds = np.array([zlib.crc32(family(arm.name).encode()) % FOLDS for arm in arms])
    sharpness = np.zeros(len(arms))
    for fold in range(FOLDS):
        learned = learn([row for row, own in zip(rows, folds, strict=True) if own != fold], arms[0].typical_spreads)
        for i in np.flatnonzero(folds == fold):
            sharpness[i] = prior_sharpness(arms[i].evidence(), learned)
    return sharpness


def probabilities(arm: Arm, sharpness: float, shift: np.ndarray) -> np.ndarray:
    """Probabilities of the test texts, with the weights that a fit would choose."""
    weights = sharpness * arm.prior
    spreads = arm.spreads()
    if len(arm.targets):
        importance = np.exp((shift * arm.targets).sum(1, keepdims=True))
        weights = most_probable_weights(
            arm.held_out / spreads[:, None, None],
            arm.targets,
            arm.prior,
            False,
            np.tile(shift, (len(arm.targets), 1)),
            importance / importance.mean(),
            sharpness,
        )
    return pool(arm.test, weights / spreads, False, shift)


Record = dict[str, str | float]


def measure(arms: list[Arm], sharpness: np.ndarray, kinds: dict[str, str]) -> list[Record]:
    """Records of all systems, for equal proportions of the labels and for those that were estimated."""
    records = []
    for arm, own in zip(arms, sharpness, strict=True):
        if not arm.is_chosen:
            continue
        for shifted, shift in (("uniform", np.zeros_like(arm.shift)), ("estimated", arm.shift)):
            answers = {
                "fitted": pool(arm.test, arm.chosen_weights, False, shift),
                "learned": probabilities(arm, own, shift),
                "probe": arm.probe,
                "words": arm.words,
                "without_documents": arm.without_documents,
            }
            for system, given in answers.items():
                found = metrics(given, arm.test_targets)
                key = {
                    "task": arm.name,
                    "kind": kinds[arm.name],
                    "per_label": arm.labels,
                    "proportions": shifted,
                    "system": system,
                }
                records.append(key | found)
    return records


def metrics(given: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Macro F1, calibration error of 15 bins and log loss."""
    confidence = given.max(1)
    is_right = given.argmax(1) == labels
    bins = np.minimum((BINS * confidence).astype(int), BINS - 1)
    gaps = np.bincount(bins, confidence - is_right, BINS)
    likelihood = given[np.arange(len(labels)), labels].clip(1e-12)
    return {
        "macro_f1": float(f1_score(labels, given.argmax(1), average="macro", zero_division=0)),
        "expected_calibration_error": float(np.abs(gaps).sum() / len(labels)),
        "log_loss": float(-np.log(likelihood).mean()),
    }


def summary(records: Sequence[Record], proportions: Sequence[str] = ("uniform", "estimated")) -> list[tuple[str, ...]]:
    """Rows by kind and label count: means over data sets, the worst one, and how many are 1 point below a part."""
    means = defaultdict(list)
    for record in records:
        means[record["kind"], record["per_label"], record["proportions"], record["task"], record["system"]].append(
            record
        )
    rows = []
    for kind in KINDS:
        for labels in LABELS:
            for shifted in proportions:
                tasks = {key[3] for key in means if key[:3] == (kind, labels, shifted)}
                for system in SYSTEMS if tasks else ():
                    found = [{name: means[kind, labels, shifted, task, name] for name in ALL_SYSTEMS} for task in tasks]
                    rows.append((kind, labels, shifted, system, *_cells(found, system)))
    return rows


def _cells(tasks: list[dict[str, list[Record]]], system: str) -> list[str]:
    """Cells of a system, by the records of each task."""

    def mean(records: list[Record], metric: str) -> float:
        return 100 * float(np.mean([record[metric] for record in records]))

    gaps = [mean(found[system], "macro_f1") - max(mean(found[part], "macro_f1") for part in PARTS) for found in tasks]
    f1, error, loss = (
        np.mean([mean(found[system], metric) for found in tasks])
        for metric in ("macro_f1", "expected_calibration_error", "log_loss")
    )
    below = sum(gap < -1 for gap in gaps)
    return [str(len(tasks)), f"{f1:.1f}", f"{error:.1f}", f"{loss / 100:.3f}", f"{min(gaps):+.1f}", str(below)]


def kinds_of(file: Path) -> dict[str, str]:
    """Kind of each data set: topics, no topics or versions."""
    kinds = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        kind = "no topics" if "no topics" in row["kind"] else "topics"
        kinds[row["name"]] = "versions" if "versions" in row["kind"] else kind
    return kinds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--cells", type=Path, required=True, help="Folder of the cells of collect.py.")
    add("--kinds", type=Path, required=True, help="A file of jsonl with the name and the kind of each data set.")
    add("--output", type=Path, default=RESULTS, help="Folder for records and table. Default: %(default)s.")
    add("--write", action="store_true", help=f"Replace the coefficients in {COEFFICIENTS.name} of the package.")
    options = parser.parse_args()
    kinds = kinds_of(options.kinds)
    arms = list(read_cells(options.cells))
    typical = typical_spreads(arms)
    arms = [arm._replace(typical_spreads=typical) for arm in arms]
    rows = rows_of(arms, kinds)
    learned = json.dumps(learn(rows, typical)._asdict(), indent=2)
    print(learned, flush=True)
    if options.write:
        COEFFICIENTS.write_text(learned + "\n", encoding="utf-8")
    records = measure(arms, left_out_sharpness(arms, rows), kinds)
    options.output.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(record) + "\n" for record in records]
    with gzip.open(options.output / "learned_prior.jsonl.gz", "wt", encoding="utf-8") as file:
        file.writelines(lines)
    print(table(COLUMNS, summary(records)))


if __name__ == "__main__":
    main()
