"""Suggest documents to label next, by margin uncertainty and clusters (active learning)."""

from __future__ import annotations

import logging
import threading
import warnings
from dataclasses import replace
from numbers import Integral
from typing import TYPE_CHECKING, NamedTuple, NotRequired, TypedDict

import numpy as np

from ..datastore.row_table import rows_at, take_passages
from .ensemble.fitted_experts import prepare_experts, score_texts, vectors_of_examples
from .texts_and_labels import joined_texts

if TYPE_CHECKING:
    import pyarrow as pa

    from ..datastore.snapshot import FittedState, Snapshot
    from ..datastore.store import Store
    from ..encoders.text_embedder import TextEmbedder
    from .ensemble.fitted_experts import PreparedExperts

logger = logging.getLogger(__name__)

MOST_CANDIDATES = 10_000  # documents to choose from; more of them change the clusters little
FITTING = threading.Lock()  # held while a fitted state is replaced by one that is derived from it
SUGGESTED = "suggested"  # name of a setting of the fitted state: the ids of suggested documents
MOST_CLUSTERS = 300
FEWEST_DOCUMENTS = 3  # per cluster, on average
K_MEANS_STEPS = 20


class Suggestion(TypedDict):
    """A document to label next, with its present answer."""

    id: str
    text: str | None
    text_pair: str | None
    label: str
    score: float
    labels: NotRequired[list[str]]  # if a text may have several
    reason: str


def suggest(
    datastore: Store, count: int, again: bool = False, embedder: TextEmbedder | None = None
) -> list[Suggestion]:
    """Suggest as ``KNNClassifierPipeline.suggest`` describes, and record it; ``embedder``: of a classification head."""
    if isinstance(count, bool) or not isinstance(count, Integral) or count < 1:
        raise ValueError(f"n must be a whole number from 1, got {count!r}.")
    snapshot = datastore.view().all()
    ready = prepare_experts(snapshot)
    if ready is None:
        raise ValueError("Nothing was fitted: call fit() before suggest(n), which needs the experts.")
    rows = _candidates(snapshot, count, again)
    table = rows_at(snapshot.documents.rows, rows)
    texts = table["text"].to_pylist()
    pairs = table["text_pair"].to_pylist()
    if embedder is not None and None in texts:
        raise ValueError("A classification head reads texts, and some documents have none: add them with texts.")
    logits = None if embedder is None else embedder.embed(texts, pairs).logits
    passages = take_passages(snapshot.documents.passages, rows)
    keys = snapshot.documents.keys[rows]
    answers = score_texts(ready, keys, joined_texts(texts, pairs), logits, passages, without_equal=True)
    uncertainty = margin_uncertainty(answers.probabilities, snapshot.multi_label)
    choices = choose_documents(answers.vectors, uncertainty, vectors_of_examples(ready), count)
    found = [_suggestion(choice, table, answers.probabilities[choice.row], ready) for choice in choices]
    ids = [suggestion["id"] for suggestion in found]
    with FITTING:
        fitted = datastore.fitted
        if fitted is not None:
            suggested = list(dict.fromkeys([*suggested_before(fitted), *ids]))
            datastore.fitted = replace(fitted, settings=fitted.settings | {SUGGESTED: suggested})
    return found


def suggested_before(fitted: FittedState | None) -> list[str]:
    """The ids of documents suggested so far."""
    found = None if fitted is None else fitted.settings.get(SUGGESTED)
    return found if isinstance(found, list) else []


def _candidates(snapshot: Snapshot, count: int, again: bool) -> np.ndarray:
    """The rows of the documents to choose from."""
    if snapshot.documents is None or not len(snapshot.documents.keys):
        raise ValueError("There are no documents without labels to choose from: add_documents(texts).")
    ids = snapshot.documents.rows["id"].to_pylist()
    before = set(suggested_before(snapshot.fitted))
    rows = np.array([row for row, document_id in enumerate(ids) if again or document_id not in before], np.int64)
    if count > len(rows):
        known = len(ids) - len(rows)
        others = f" beside {known} that were suggested before: ask for fewer, or pass again=True." if known else "."
        raise ValueError(f"n is {count}, and there are {len(rows)} documents without labels{others}")
    if len(rows) > MOST_CANDIDATES:
        logger.info("Of %d documents, a random %d are candidates.", len(rows), MOST_CANDIDATES)
        rows = np.sort(np.random.default_rng(len(rows)).choice(rows, max(MOST_CANDIDATES, count), replace=False))
    return rows


def margin_uncertainty(probabilities: np.ndarray, multi_label: bool) -> np.ndarray:
    """Margin uncertainty, ``(N,)``, from probabilities ``(N, L)``.

    It is 1 minus the margin between the two best labels; if a text may have several labels, 1 minus the smallest
    margin between yes and no.
    """
    if multi_label:
        return 1 - np.abs(2 * probabilities - 1).min(1)
    ranked = np.sort(probabilities, axis=1)
    return 1 - (ranked[:, -1] - ranked[:, -2])


def _suggestion(choice: Choice, table: pa.Table, probabilities: np.ndarray, ready: PreparedExperts) -> Suggestion:
    """Describe a chosen document; ``table``: all candidates; ``probabilities``: of this one, ``(L,)``."""
    (document,) = table.slice(choice.row, 1).to_pylist()
    names = ready.view.label_names
    best_first = np.argsort(-probabilities, kind="stable")
    best = best_first[0]
    suggestion: Suggestion = {**document, "label": names[best], "score": float(probabilities[best])}
    contenders = best_first[:2]
    if ready.view.multi_label:
        thresholds = ready.fitted.settings.label_thresholds(names)
        suggestion["labels"] = [names[i] for i in np.flatnonzero(probabilities >= thresholds)]
        contenders = np.argsort(np.abs(2 * probabilities - 1), kind="stable")[:2]  # the least sure labels
    guessed = " or ".join(f"{names[i]} ({probabilities[i]:.0%})" for i in contenders)
    unlabeled = len(choice.cluster) - 1
    suggestion["reason"] = (
        f"similar documents without a label: {unlabeled:,}, with a label: {choice.examples:,}; guessed: {guessed}"
    )
    return suggestion


class Choice(NamedTuple):
    """A chosen document, and its cluster."""

    row: int
    cluster: np.ndarray  # the rows of all documents in it
    examples: int  # the number of examples in it


def choose_documents(vectors: np.ndarray, uncertainty: np.ndarray, examples: np.ndarray, count: int) -> list[Choice]:
    """Choose ``count`` of N documents to label.

    Documents and examples are clustered together, into half as many clusters as there will be examples. The clusters
    with the largest ``sum of uncertainty / (1 + examples)^2`` give a document each: the one nearest to the mean of the
    cluster's documents, weighted by uncertainty. The uncertainty of a single text is largest for outliers; that of many
    similar texts shows where labels are missing.

    Args:
        vectors: The documents, ``(N, D)``.
        uncertainty: Their uncertainty, ``(N,)``.
        examples: The examples, ``(n, D)``.
        count: The number of documents to choose.

    Returns:
        The documents, most useful first.
    """
    clusters = _clusters(np.concatenate([vectors, examples]), max(count, (count + len(examples)) // 2))
    cluster_of_document = clusters[: len(vectors)]
    total = clusters.max() + 1
    labeled = np.bincount(clusters[len(vectors) :], minlength=total)
    priority = np.bincount(cluster_of_document, uncertainty, minlength=total) / (1 + labeled) ** 2
    is_open = np.ones(len(vectors), bool)
    taken = np.zeros(total, int)
    choices = []
    for _ in range(count):
        taken[np.bincount(cluster_of_document[is_open], minlength=total) == 0] = count  # no document is left
        cluster = int(np.where(taken == taken.min(), priority, -1).argmax())
        members = np.flatnonzero((cluster_of_document == cluster) & is_open)
        weights = uncertainty[members] + 1e-9
        center = weights @ vectors[members] / weights.sum()
        row = int(members[np.square(vectors[members] - center).sum(1).argmin()])
        choice = Choice(row=row, cluster=np.flatnonzero(cluster_of_document == cluster), examples=int(labeled[cluster]))
        choices.append(choice)
        is_open[row] = False
        taken[cluster] += 1
    return choices


def _clusters(vectors: np.ndarray, count: int) -> np.ndarray:
    """The cluster of each vector, computed by one thread so that results are reproducible."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits

    count = max(min(count, MOST_CLUSTERS, len(vectors) // FEWEST_DOCUMENTS), 1)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # equal vectors make fewer clusters
        return KMeans(count, n_init=1, max_iter=K_MEANS_STEPS, random_state=0).fit(vectors).labels_
