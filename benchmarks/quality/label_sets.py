"""Measure how often the sets of ``labels_at`` hold the right label, and how many labels they have.

    OMP_NUM_THREADS=1 python -m benchmarks.quality.label_sets --tasks 20news bbc_news

A task is a folder with train.jsonl and test.jsonl (text, or text_a and text_b; label). Each draw takes 5, 20 and 50
examples of each class, or all of a smaller class; up to 200 other documents have no labels. 50 is left out where most
classes have fewer. Answers are those of ``pipe(texts, labels_at=...)`` with the included encoder in int8, to the
beginnings of up to 300 test texts. --compare measures other scores and guarantees instead, from the same held-out
answers: it was run on other tasks, to choose. Finished records in label_sets.jsonl are kept.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tqdm.auto import tqdm

from benchmarks.quality.few_labels.embedder import Embedder
from benchmarks.quality.few_labels.options import RELIABILITY
from benchmarks.quality.few_labels.protocol import FewLabels, Text, draw, load_few_labels
from benchmarks.quality.few_labels.records import add_record, read_records
from docsplit_hf import KNNClassifierPipeline
from docsplit_hf.encoding.checkpoints.checkpoint import DEFAULT_FOLDER
from docsplit_hf.fitting.ensemble.guarantees import Guarantees
from docsplit_hf.fitting.label_sets import label_sets
from docsplit_hf.fitting.rejection import guaranteed_limit, min_held_out_texts

LEVELS = (0.9, 0.95)
POOL = 3_000  # most training texts to draw from
TEST_TEXTS = 300
DOCUMENTS = 200
CHARACTERS = 600  # of a text that are read
KEY = ("task", "per_label", "draw")
RAPS_PENALTY = 0.05  # of each label beyond the first RAPS_FREE
RAPS_FREE = 2


class Fitted(NamedTuple):
    """A fitted pipeline and the texts to classify."""

    pipe: KNNClassifierPipeline
    texts: list[Text]
    labels: list[str]  # the right ones
    examples: int


class Outcome(NamedTuple):
    """Counts over the sets of test texts."""

    kept: int  # sets with the right label
    labels: int  # in all sets
    single: int  # sets of one label
    per_class: bool  # whether the level is for each class


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--tasks", nargs="+", required=True, help="Folders with train.jsonl and test.jsonl.")
    add("--per_label", type=int, nargs="+", default=[5, 20, 50], help="Examples of a class. Default: %(default)s.")
    add("--draws", type=int, default=2, help="Draws of the examples. Default: %(default)s.")
    add("--compare", action="store_true", help="Measure other scores and guarantees, in label_sets_compared.jsonl.")
    add("--embeddings", default="output/embeddings", help="Where they are kept. Default: %(default)s.")
    add("--output", type=Path, default=RELIABILITY, help="Folder for the records. Default: %(default)s.")
    options = parser.parse_args()
    records = options.output / ("label_sets_compared.jsonl" if options.compare else "label_sets.jsonl")
    known = {tuple(record[name] for name in KEY) for record in read_records(records)}
    for folder in options.tasks:
        for key, classes, fitted in fits(folder, options.per_label, options.draws, known, options.embeddings):
            levels = {}
            for level in LEVELS:
                found = compared(fitted, level) if options.compare else {"chosen": chosen_rule(fitted, level)}
                levels[str(level)] = {name: outcome._asdict() for name, outcome in found.items()}
            counts = {"classes": classes, "examples": fitted.examples, "texts": len(fitted.texts)}
            add_record(records, dict(zip(KEY, key, strict=True)) | counts | {"levels": levels})


def fits(
    folder: str, per_labels: list[int], draws: int, known: set[tuple[Any, ...]], embeddings: str
) -> Iterator[tuple[tuple[str, int, int], int, Fitted]]:
    """Fit a pipeline for each number of examples and each draw that has no record."""
    task = shortened(load_few_labels(folder, POOL, TEST_TEXTS))
    sizes = np.bincount(task.pool_labels, minlength=len(task.names))
    wanted = [count for count in per_labels if count <= np.median(sizes)]
    drawn = {(count, seed): draw_rows(task, count, seed) for count in wanted for seed in range(draws)}
    drawn = {key: rows for key, rows in drawn.items() if (task.name, *key) not in known}
    if not drawn:
        return
    used = np.unique(np.concatenate([rows for parts in drawn.values() for rows in parts]))
    read = replace(task, pool=[task.pool[row] for row in used], pool_labels=task.pool_labels[used])
    embedder = Embedder(str(DEFAULT_FOLDER), read, embeddings, precision="int8")
    for (count, seed), (rows, documents) in tqdm(drawn.items(), desc=task.name):
        with embedder.remembered():
            pipe = embedder.pipeline()
            names = [task.names[label] for label in task.pool_labels[rows]]
            pipe.add_examples([task.pool[row] for row in rows], names)
            pipe.add_documents([task.pool[row] for row in documents])
            pipe.fit(show_progress=False)
            right = [task.names[label] for label in task.test_labels]
            yield (task.name, count, seed), len(task.names), Fitted(pipe, task.test, right, len(rows))


def chosen_rule(fitted: Fitted, level: float) -> Outcome:
    """Count the sets as answers show them."""
    sets = []
    for answer in fitted.pipe(fitted.texts, labels_at=level):
        sets.append([label["label"] for label in answer["labels"]])
    return Outcome(
        kept=sum(right in names for names, right in zip(sets, fitted.labels, strict=True)),
        labels=sum(len(names) for names in sets),
        single=sum(len(names) == 1 for names in sets),
        per_class=answer["labels_per_class"],
    )


# Other rules


def lac(probabilities: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One minus the probability of the label (Sadinle et al. 2019)."""
    return 1 - probabilities


def aps(probabilities: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Sum of the probabilities of the label and all more probable ones (Romano et al. 2020)."""
    return _cumulative(probabilities, 0.0, 0.0)


def randomized_aps(probabilities: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """APS with a random part of the label's own probability."""
    return _cumulative(probabilities, rng.random((len(probabilities), 1)), 0.0)


def raps(probabilities: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Randomized APS with a penalty for less probable labels (Angelopoulos et al. 2021)."""
    return _cumulative(probabilities, rng.random((len(probabilities), 1)), RAPS_PENALTY)


def _cumulative(probabilities: np.ndarray, own_part_removed: np.ndarray | float, penalty: float) -> np.ndarray:
    order = np.argsort(-probabilities, axis=1, kind="stable")
    ordered = np.take_along_axis(probabilities, order, axis=1)
    ranks = np.arange(1, probabilities.shape[1] + 1)
    found = np.cumsum(ordered, axis=1) - own_part_removed * ordered + penalty * np.maximum(ranks - RAPS_FREE, 0)
    scores = np.empty_like(found)
    np.put_along_axis(scores, order, found, axis=1)
    return scores / (1 + penalty * len(ranks))  # from 0 to 1


SCORES: dict[str, Callable[[np.ndarray, np.random.Generator], np.ndarray]] = {
    "LAC": lac,
    "APS": aps,
    "APS, randomized": randomized_aps,
    "RAPS": raps,
}


def mean_limit(values: np.ndarray, outside: float, importance: np.ndarray) -> float:
    """The usual quantile, ``ceil((m + 1) (1 - outside)) / m``, which holds in the mean of the draws; with weights."""
    order = np.argsort(-values, kind="stable")
    mass = np.cumsum(importance[:, order], axis=1)
    at_least = ((mass + 1) / (importance.sum(1, keepdims=True) + 1)).mean(0)
    count = int(np.count_nonzero(at_least <= outside + 1e-9))
    if 1 / (len(values) + 1) > outside + 1e-9:
        return 1.0
    return float(values[order[min(count, len(values) - 1)]])


class Guarantee(NamedTuple):
    """A rule for the limit, and the held-out texts that it needs."""

    limit: Callable[[np.ndarray, float, np.ndarray], float]
    least: Callable[[float], int]


GUARANTEES = {
    "in the mean": Guarantee(mean_limit, lambda outside: int(np.ceil(1 / outside - 1 - 1e-9))),
    "nine of ten draws": Guarantee(guaranteed_limit, min_held_out_texts),
}


def compared(fitted: Fitted, level: float) -> dict[str, Outcome]:
    """Count the sets by each score and guarantee, with one limit and with limits per class."""
    answers = fitted.pipe(fitted.texts, top_k=None)
    experts = fitted.pipe._experts.fitted
    names = experts.ensemble.labels
    by_name = [{label["label"]: label["score"] for label in answer} for answer in answers]
    probabilities = np.array([[scores[name] for name in names] for scores in by_name])
    right = np.array([names.index(label) for label in fitted.labels])
    found = {}
    for score_name, score in SCORES.items():
        rng = np.random.default_rng(0)
        held_out_scores = score(experts.held_out.probabilities.astype(np.float64), rng)
        scores = score(probabilities, rng)
        for guarantee_name, guarantee in GUARANTEES.items():
            for per_class in (False, True):
                limits, used = _limits(experts.guarantees, held_out_scores, guarantee, level, per_class)
                sets = label_sets(1 - scores, limits)
                sets[np.arange(len(sets)), probabilities.argmax(1)] = True
                sizes = sets.sum(1)
                rule = f"{score_name}; {guarantee_name}; {'per class' if per_class else 'one limit'}"
                found[rule] = Outcome(
                    kept=int(sets[np.arange(len(sets)), right].sum()),
                    labels=int(sizes.sum()),
                    single=int((sizes == 1).sum()),
                    per_class=used,
                )
    return found


def _limits(
    guarantees: Guarantees, scores: np.ndarray, guarantee: Guarantee, level: float, per_class: bool
) -> tuple[np.ndarray, bool]:
    """Limit of each label, and whether the limits are per class."""
    labels = guarantees.held_out.labels
    outside = 1 - level
    values = scores[labels]
    if not per_class or labels.sum(0).min() < guarantee.least(outside):
        return np.full(labels.shape[1], guarantee.limit(values, outside, guarantees.importance_weights())), False
    by_class = [scores[rows, column] for column, rows in enumerate(labels.T)]
    return np.array([guarantee.limit(found, outside, np.ones((1, len(found)))) for found in by_class]), True


def draw_rows(task: FewLabels, per_label: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the examples and of the documents."""
    rows = draw(task.pool_labels, per_label, seed)
    others = np.setdiff1d(np.arange(len(task.pool)), rows)
    return rows, np.random.default_rng(seed).permutation(others)[:DOCUMENTS]


def shortened(task: FewLabels) -> FewLabels:
    """Cut texts to the beginnings that are read."""
    return replace(task, pool=[_beginning(text) for text in task.pool], test=[_beginning(text) for text in task.test])


def _beginning(text: Text) -> Text:
    if isinstance(text, str):
        return text[:CHARACTERS]
    return {name: part[:CHARACTERS] for name, part in text.items()}


if __name__ == "__main__":
    main()
