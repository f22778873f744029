"""Experts on embeddings: linear probe or trained classifier, and topics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from .corpus import propagate_in_folds
from .expert import Corpus, Expert, Features, TrainingData
from .linear_probe import fit_distributions, fit_probe
from .log_linear_pool import log_softmax, spread_of_scores
from .saved_types import REGRESSION_WEIGHTS, UNIT_COMPONENTS, Array
from .text_vectors import unit

SURE_SHARE = 0.5  # of the documents of each label, that the probe also learns from
MAX_SURE_DOCUMENTS = 2_000
SURE_DOCUMENT_WEIGHT = 0.3  # relative to an example
TOPIC_CONCENTRATION = 30.0  # of the von Mises-Fisher distribution of each label
TOPIC_ITERATIONS = 10  # at most
TOPIC_TOLERANCE = 1e-5  # change of soft labels at which they are finished
MAX_SOFT_LABELS = 20_000_000  # of all texts in several folds, which are fitted together
# Weights of an example relative to a document; folds of the examples choose between the two.
DEFAULT_EXAMPLE_WEIGHT = 3.0
LARGE_EXAMPLE_WEIGHT = 10.0
MIN_LOG_LIKELIHOOD_GAIN = 3.0  # required to depart from a default: a Bayes factor of 20


class HeadOrProbe(Expert):
    """The trained classification head; without one, a linear probe: logistic regression on vectors of the examples.

    If there are documents, and one label per text, the probe is the mean of two: that of the examples, and one on
    embeddings without words that also learns from the documents whose labels are surest after self-training.
    """

    name = "classifier"
    uses_head = True
    arrays = {"probe": Array(("labels", "vector and bias"), REGRESSION_WEIGHTS)}

    def prior(self, data: TrainingData) -> float:
        return 0.2 if data.has_many_documents else 0.45

    def fit(self, data: TrainingData) -> dict[str, np.ndarray]:
        if data.has_head:
            return {}
        vectors = data.corpus.vectors[data.rows]
        if data.compared is not None:
            embeddings = data.compared.document_vectors.embeddings_of(data.compared.vectors)
            vectors[:, : embeddings.shape[1]] = data.differences(embeddings, 0.0)
        return {"probe": fit_probe(vectors, data.targets, data.multi_label)}

    def learn_from_posterior(
        self, data: TrainingData, learned: dict[str, np.ndarray], posterior: np.ndarray
    ) -> dict[str, np.ndarray]:
        # Held-out examples are no documents: folds must measure the same kind of probe.
        if data.has_head or not (data.corpus.documents >= 0).any():
            return learned
        dimensions = len(data.corpus.document_vectors.mean)
        documents = surest_documents(posterior, data.rows)
        rows = np.concatenate([data.rows, documents])
        targets = np.concatenate([data.targets, np.eye(posterior.shape[1])[posterior[documents].argmax(1)]])
        weights = np.repeat([1.0, SURE_DOCUMENT_WEIGHT], [len(data.rows), len(documents)])
        embeddings = data.corpus.vectors[rows, :dimensions]
        scale = 1 / np.linalg.norm(embeddings, axis=1).mean()  # beside words, embeddings have a norm below 1
        of_embeddings = fit_distributions(scale * embeddings, targets, weights)
        probe = learned["probe"].copy()
        probe[:, :dimensions] += scale * of_embeddings[:, :-1]
        probe[:, -1] += of_embeddings[:, -1]
        return {"probe": probe / 2}

    def score(self, learned: Mapping[str, np.ndarray], features: Features) -> np.ndarray:
        if "probe" in learned:
            return features.vectors @ learned["probe"][:, :-1].T + learned["probe"][:, -1]
        if features.head_logits is None:
            raise ValueError(
                "The experts were fitted with a trained classification head, and this model has none: call fit() again."
            )
        return features.head_logits


def surest_documents(posterior: np.ndarray, examples: np.ndarray) -> np.ndarray:
    """Places of the surest half of the documents of each label, by their distributions over labels ``(N, C)``.

    Half of each label, as one limit for all labels would leave out hard labels. ``examples``: places of the examples.
    """
    documents = np.setdiff1d(np.arange(len(posterior)), examples)
    share = min(SURE_SHARE, MAX_SURE_DOCUMENTS / max(len(documents), 1))
    labels = posterior[documents].argmax(1)
    found = []
    for label in range(posterior.shape[1]):
        own = documents[labels == label]
        surest_first = np.argsort(-posterior[own, label], kind="stable")
        found.append(own[surest_first[: int(np.ceil(share * len(own)))]])
    return np.sort(np.concatenate(found))


class Topics(Expert):
    """Soft k-means: similarity to each label centroid."""

    name = "topics"
    needs_single_label = True
    learns_from_documents = True
    arrays = {"centers": Array(("labels", "vector"), UNIT_COMPONENTS)}

    def prior(self, data: TrainingData) -> float:
        return 0.35 if data.has_many_documents else 0.45

    def fit(self, data: TrainingData) -> dict[str, np.ndarray]:
        return {"centers": data.centers}

    def score(self, learned: Mapping[str, np.ndarray], features: Features) -> np.ndarray:
        return topic_scores(features.whitened, learned["centers"])


def fit_topics(
    vectors: np.ndarray,
    rows: Sequence[np.ndarray],
    soft: Sequence[np.ndarray],
    weights: Sequence[np.ndarray],
    proportions: np.ndarray | None = None,
) -> list[np.ndarray]:
    """Estimate soft labels ``(N, C)`` by expectation maximization of von Mises-Fisher distributions, in each fold.

    They are fitted to the whitened ``vectors`` ``(N, D)`` of all texts, with ``weights`` ``(N,)`` in each fold, and
    start from the labels ``soft`` ``(N, C)``. The texts at ``rows`` keep their labels. Label priors are the
    ``proportions`` ``(C,)``; None: they are estimated, too.
    """
    labels = soft[0].shape[1]
    folds = len(rows)
    start = np.hstack(soft).astype(np.float32, copy=False)
    of_columns = np.repeat(np.stack(weights, axis=1), labels, axis=1)
    log_prior = np.float32(0) if proportions is None else np.log(proportions).astype(np.float32)
    # Texts whose labels change; the others keep them in all folds.
    is_free = np.bincount(np.concatenate(rows), minlength=len(vectors)) < folds
    given_sums = vectors[~is_free].T @ (start[~is_free] * of_columns[~is_free])
    given_mass = start[~is_free].reshape(-1, folds, labels).sum(0, dtype=np.float64)
    free_vectors = vectors[is_free]
    free_weights = of_columns[is_free]
    fixed_rows = [np.flatnonzero(np.isin(np.flatnonzero(is_free), own)) for own in rows]  # in each fold
    fixed_labels = start[is_free].reshape(-1, folds, labels)
    current = start[is_free]
    for _ in range(TOPIC_ITERATIONS):
        sums = given_sums + free_vectors.T @ (current * free_weights)
        scores = topic_scores(free_vectors, unit(sums.T)).reshape(-1, folds, labels)
        scores += log_prior
        scores -= scores.max(2, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(2, keepdims=True)
        for fold, fixed in enumerate(fixed_rows):
            scores[fixed, fold] = fixed_labels[fixed, fold]
        if proportions is None:
            means = (given_mass + scores.sum(0, dtype=np.float64)) / len(vectors)
            log_prior = np.log((means + 1 / labels) / 2).astype(np.float32)
        before = current
        current = scores.reshape(-1, folds * labels)
        if np.abs(current - before).max(initial=0) < TOPIC_TOLERANCE:
            break
    found = start.copy()
    found[is_free] = current
    return [np.ascontiguousarray(own) for own in np.split(found, folds, axis=1)]


def choose_example_weight(
    corpus: Corpus, rows: np.ndarray, targets: np.ndarray, folds: np.ndarray, proportions: np.ndarray | None
) -> float:
    """Choose the weight of an example relative to a document: the larger one if it clearly helps topics on folds."""
    candidates = (DEFAULT_EXAMPLE_WEIGHT, LARGE_EXAMPLE_WEIGHT)
    scores = np.zeros((len(candidates), *targets.shape))
    numbers = np.arange(int(folds.max()) + 1)
    for some in in_batches(numbers, targets.shape[1] * len(candidates), len(corpus.ids)):
        learned = [rows[folds != fold] for fold in some]
        propagated = propagate_in_folds(corpus.graph, learned, [targets[folds != fold] for fold in some], False)
        weights = np.ones((len(candidates) * len(learned), len(corpus.whitened)), np.float32)
        for place, of_texts in enumerate(weights):
            of_texts[learned[place % len(learned)]] = candidates[place // len(learned)]
        found = fit_topics(corpus.whitened, 2 * learned, 2 * propagated, weights, proportions)
        for place, (soft, of_texts) in enumerate(zip(found, weights, strict=True)):
            is_held_out = folds == some[place % len(some)]
            centers = centers_of(corpus.whitened, soft, of_texts)
            scores[place // len(some), is_held_out] = topic_scores(corpus.whitened[rows[is_held_out]], centers)
    scores = scores[:, folds >= 0]
    scores /= spread_of_scores(scores, False)[:, None, None]
    default, large = (log_softmax(scores, axis=2) * targets[folds >= 0]).sum((1, 2))
    return LARGE_EXAMPLE_WEIGHT if large > default + MIN_LOG_LIKELIHOOD_GAIN else DEFAULT_EXAMPLE_WEIGHT


def in_batches(folds: np.ndarray, labels: int, texts: int) -> Iterator[np.ndarray]:
    """Divide folds into batches that are computed together: as many as fit into the memory."""
    size = max(MAX_SOFT_LABELS // (labels * texts), 1)
    for start in range(0, len(folds), size):
        yield folds[start : start + size]


def topic_scores(vectors: np.ndarray, centers: np.ndarray) -> np.ndarray:
    """Logits ``(N, C)``: 30 times the cosine of a text and a center."""
    return TOPIC_CONCENTRATION * (vectors @ centers.T)


def centers_of(vectors: np.ndarray, soft: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Weighted centroid of each label, ``(C, D)``, of norm 1."""
    # Not soft.T @ vectors: with two threads on a busy machine OpenBLAS takes six times as long for it.
    return unit((vectors.T @ (soft * weights[:, None])).T)
