"""passage_citation: whether one long document cites another, by all their passages and by their words.

Not in the papers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler, normalize

from docsplit_hf.arrays.passages import Passages
from docsplit_hf.evaluation.systems import System, TfidfSystem

from ..evaluation.experiment import Evaluation, Experiment, Plan, PlannedMeasurement
from ..papers_options import NO_SEED, PaperSettings
from ..systems import PassageSystem, mean_of_passages, rows_of_passages
from ..tasks.citation_pairs import PairTask
from .citation import best_threshold, pair_features

BEST_PAIRS = 3
SHARPNESS = 20.0  # of the soft maximum; cosines between the passages of two papers differ by about 0.1


def best_pairs(cosines: np.ndarray) -> float:
    """The mean cosine of the three most similar pairs of passages; ``cosines``: of all pairs, ``(p, q)``."""
    return float(np.sort(cosines, axis=None)[-BEST_PAIRS:].mean())


def soft_maximum(cosines: np.ndarray) -> float:
    """``log(mean(exp(20 c))) / 20`` over all pairs of passages: close to the largest cosine, but smooth."""
    largest = cosines.max()
    return float(largest + np.log(np.exp(SHARPNESS * (cosines - largest)).mean()) / SHARPNESS)


def similarities(passages: Passages, pairs: np.ndarray) -> dict[str, np.ndarray]:
    """Similarities of document pairs by each measure, float64 ``(M,)``; ``pairs``: document numbers ``(M, 2)``."""
    found: dict[str, np.ndarray] = {}
    for suffix, given in (("", passages), ("_centered", centered(passages))):
        averages = mean_of_passages(given)
        vectors = rows_of_passages(given)
        cosines = [vectors[first] @ vectors[second].T for first, second in pairs.tolist()]
        found[f"average{suffix}"] = np.einsum("md,md->m", averages[pairs[:, 0]], averages[pairs[:, 1]])
        found[f"best_pairs{suffix}"] = np.array([best_pairs(matrix) for matrix in cosines])
        found[f"soft_maximum{suffix}"] = np.array([soft_maximum(matrix) for matrix in cosines])
    return found


def centered(passages: Passages) -> Passages:
    """The passages less their mean embedding, scaled to norm 1."""
    differences = passages.embeddings - passages.embeddings.mean(0)
    return passages._replace(embeddings=normalize(differences).astype(np.float32))


def _refuses(system: System) -> str | None:
    return None if isinstance(system, PassageSystem) else "that reads passages (--long_documents passages)"


def _plan(task: PairTask, settings: PaperSettings) -> Plan:
    return [PlannedMeasurement("passage_citation", {"max_length": settings.max_length}, NO_SEED, _measure)], []


def _measure(evaluation: Evaluation, settings: Mapping[str, Any], seed: int) -> dict[str, float]:
    task = evaluation.task
    row = {key: number for number, key in enumerate(task.documents_by_id)}
    pairs = np.array([[row[first], row[second]] for first, second, _ in (*task.train, *task.test)])
    (passages,) = evaluation.system.passages(list(task.documents_by_id.values()))
    scores = similarities(passages, pairs)
    words = pair_features(Evaluation(TfidfSystem(), task))
    scores["words"] = np.concatenate([np.asarray(part.first.multiply(part.second).sum(1)).ravel() for part in words])
    labels = np.concatenate([part.labels for part in words])
    train = slice(len(task.train))
    test = slice(len(task.train), None)
    metrics = {}
    for name, values in scores.items():
        threshold = best_threshold(values[train], labels[train])
        metrics[f"{name}_accuracy"] = float(np.mean((values[test] > threshold) == labels[test]))
    both = np.column_stack([scores["words"], scores["soft_maximum_centered"]])
    scaler = StandardScaler().fit(both[train])
    classifier = LogisticRegression().fit(scaler.transform(both[train]), labels[train])
    metrics["passages_and_words_accuracy"] = float(classifier.score(scaler.transform(both[test]), labels[test]))
    return metrics


PASSAGE_CITATION = Experiment(
    "whether one paper cites another, by all passages and by words", (PairTask,), _plan, _refuses
)
