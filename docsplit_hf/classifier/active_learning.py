"""Suggestion of documents to label next, by margin uncertainty and clusters (active learning)."""

from __future__ import annotations

import logging
import threading
import warnings
from dataclasses import replace
from numbers import Integral
from typing import TYPE_CHECKING, NamedTuple, NotRequired, TypedDict

import numpy as np

from ..arrays.passages import take_passages
from ..arrays.row_table import rows_at
from ..fitting.ensemble.fitted_ensemble import SUGGESTED_SETTING
from ..fitting.ensemble.scoring import PreparedExperts, prepare_experts, score_texts
from ..fitting.experts.corpus import texts_in
from ..reading.inputs import joined_texts
from ..reading.shingles import number_words
from ..reading.versions import version_pairs

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from ..arrays.fitted_state import FittedState
    from ..arrays.snapshot import Snapshot
    from ..encoding.text_embedder import TextEmbedder
    from .knn_datastore import KNNDatastore

logger = logging.getLogger(__name__)

MAX_CANDIDATES = 10_000  # documents to choose from; more change the clusters little
FITTED_STATE_LOCK = threading.Lock()  # for reading a fitted state and replacing it
MAX_CLUSTERS = 300
MIN_DOCUMENTS_PER_CLUSTER = 3  # on average
K_MEANS_STEPS = 20
MAX_ROUNDS_OF_VERSIONS = 10  # in which versions of chosen texts are replaced by other texts


class Suggestion(TypedDict):
    """Document to label next, with its present answer."""

    id: str
    text: str | None
    text_pair: str | None
    file: str | None  # from which the text was read
    places: str | None  # of the text in its file, as JSON
    label: str  # the most probable one
    score: float  # its probability
    labels: NotRequired[list[str]]  # if a text may have several
    reason: str  # why it was chosen


def suggest(
    datastore: KNNDatastore, count: int, again: bool = False, embedder: TextEmbedder | None = None
) -> list[Suggestion]:
    """Suggest documents, as ``KNNClassifierPipeline.suggest`` describes, and record them in the fitted state.

    ``embedder`` computes the logits of a classification head; None if the classifier has no head.
    """
    if isinstance(count, bool) or not isinstance(count, Integral) or count < 1:
        raise ValueError(f"n must be a whole number from 1, got {count!r}.")
    snapshot = datastore.snapshot
    ready = prepare_experts(snapshot)
    if ready is None:
        raise ValueError("Suggestions need fitted experts, and nothing was fitted: call fit() first (docsplit fit).")
    rows = _candidates(snapshot, count, again)
    table = rows_at(snapshot.documents.rows, rows)
    texts = table["text"].to_pylist()
    pairs = table["text_pair"].to_pylist()
    if embedder is not None and None in texts:
        raise ValueError("A classification head reads texts, and some documents have none: add them with texts.")
    logits = None if embedder is None else embedder.embed(texts, pairs).logits
    joined = joined_texts(texts, pairs)
    answers = score_texts(
        ready,
        snapshot.documents.keys[rows],
        joined,
        logits,
        take_passages(snapshot.documents.passages, rows),
        exclude_copies=True,
    )
    uncertainty = margin_uncertainty(answers.probabilities, snapshot.multi_label)
    words_of_examples = ready.ensemble.tfidf.transform(texts_in(snapshot.rows))
    examples = ready.ensemble.document_vectors.join(snapshot.keys, words_of_examples)
    choices = choose_documents(answers.vectors, uncertainty, examples, count, joined)
    found = [_suggestion(choice, table, answers.probabilities[choice.row], ready) for choice in choices]
    ids = [suggestion["id"] for suggestion in found]
    with FITTED_STATE_LOCK:
        fitted = datastore.fitted
        if fitted is not None:
            suggested = list(dict.fromkeys([*suggested_before(fitted), *ids]))
            datastore.fitted = replace(fitted, settings=fitted.settings | {SUGGESTED_SETTING: suggested})
    return found


def suggested_before(fitted: FittedState | None) -> list[str]:
    """Ids of the documents suggested so far."""
    found = None if fitted is None else fitted.settings.get(SUGGESTED_SETTING)
    return found if isinstance(found, list) else []


def _candidates(snapshot: Snapshot, count: int, again: bool) -> np.ndarray:
    """Select the rows of documents to choose from."""
    if snapshot.documents is None or not len(snapshot.documents.keys):
        raise ValueError(
            "There are no documents without labels to choose from: add_documents(texts) (docsplit fit "
            "--unlabeled_name)."
        )
    ids = snapshot.documents.rows["id"].to_pylist()
    before = set(suggested_before(snapshot.fitted))
    rows = np.array([row for row, document_id in enumerate(ids) if again or document_id not in before], np.int64)
    if count > len(rows):
        known = len(ids) - len(rows)
        others = f" beside {known} that were suggested before: ask for fewer, or pass again=True." if known else "."
        raise ValueError(f"n is {count}, and there are {len(rows)} documents without labels{others}")
    if len(rows) > MAX_CANDIDATES:
        logger.info("Of %d documents, a random %d are candidates.", len(rows), MAX_CANDIDATES)
        rows = np.sort(np.random.default_rng(len(rows)).choice(rows, max(MAX_CANDIDATES, count), replace=False))
    return rows


def margin_uncertainty(probabilities: np.ndarray, multi_label: bool) -> np.ndarray:
    """Margin uncertainty ``(N,)``, from 0 to 1, by probabilities ``(N, L)``.

    It is 1 minus the margin between the two best labels; if a text may have several labels, 1 minus the smallest
    margin of a label between having and not having it.
    """
    if multi_label:
        return 1 - np.abs(2 * probabilities - 1).min(1)
    second, first = np.sort(probabilities, axis=1)[:, -2:].T
    return 1 - (first - second)


def _suggestion(choice: Choice, table: pa.Table, probabilities: np.ndarray, ready: PreparedExperts) -> Suggestion:
    """Describe a document that was chosen from a table of candidates, with its probabilities ``(L,)``."""
    (document,) = table.slice(choice.row, 1).to_pylist()
    names = ready.snapshot.label_names
    least_certain = np.argsort(-probabilities, kind="stable")[:2]
    best = least_certain[0]
    suggestion: Suggestion = {**document, "label": names[best], "score": float(probabilities[best])}
    if ready.snapshot.multi_label:
        thresholds = ready.fitted.label_thresholds(names)
        suggestion["labels"] = [names[i] for i in np.flatnonzero(probabilities >= thresholds)]
        least_certain = np.argsort(np.abs(2 * probabilities - 1), kind="stable")[:2]
    guessed = " or ".join(f"{names[i]} ({probabilities[i]:.0%})" for i in least_certain)
    suggestion["reason"] = (
        f"similar documents without a label: {len(choice.cluster) - 1:,}, with a label: {choice.examples:,}; "
        f"guessed: {guessed}"
    )
    return suggestion


class Choice(NamedTuple):
    """Chosen document, and its cluster."""

    row: int
    cluster: np.ndarray  # rows of all documents of the cluster
    examples: int  # number of examples in the cluster


def choose_documents(
    vectors: np.ndarray,
    uncertainty: np.ndarray,
    examples: np.ndarray,
    count: int,
    texts: Sequence[str] | None = None,
) -> list[Choice]:
    """Choose ``count`` of N documents to label.

    Documents and examples are clustered together, into half as many clusters as there will be examples. One document is
    chosen from each of the clusters with the largest ``sum of uncertainty / (1 + examples)^2``: the one nearest to the
    mean of the documents, weighted by uncertainty. A single uncertain text may be an outlier; many similar ones show
    that examples are missing there.

    Args:
        vectors: The vectors of documents, ``(N, D)``.
        uncertainty: The uncertainty of each document, ``(N,)``.
        examples: The vectors of examples, ``(n, D)``.
        count: The number of documents to choose.
        texts: The texts of the documents. Of the versions of one text (``group_versions``) only one is chosen, unless
            there are too few others. None: versions are not recognized.

    Returns:
        The documents, most useful first.
    """
    clusters = _clusters(np.concatenate([vectors, examples]), max(count, (count + len(examples)) // 2))
    is_open = np.ones(len(vectors), bool)
    choices = _choose_of_clusters(vectors, uncertainty, clusters, is_open, count)
    for _ in range(MAX_ROUNDS_OF_VERSIONS if texts is not None else 0):
        rows = [choice.row for choice in choices]
        words = number_words([texts[row] for row in rows]).of_texts
        later = np.unique(version_pairs(words).rows[:, 1])
        if not len(later) or is_open.sum() - len(later) < count:
            break
        is_open[[rows[place] for place in later]] = False
        choices = _choose_of_clusters(vectors, uncertainty, clusters, is_open, count)
    return choices


def _choose_of_clusters(
    vectors: np.ndarray, uncertainty: np.ndarray, clusters: np.ndarray, is_open: np.ndarray, count: int
) -> list[Choice]:
    """Choose documents that are open, bool ``(N,)``; ``clusters`` ``(N + n,)`` are those of documents and examples."""
    is_open = is_open.copy()
    own_clusters = clusters[: len(vectors)]
    total = clusters.max() + 1
    labeled = np.bincount(clusters[len(vectors) :], minlength=total)
    priority = np.bincount(own_clusters, uncertainty, minlength=total) / (1 + labeled) ** 2
    taken = np.zeros(total, int)
    choices = []
    for _ in range(count):
        taken[np.bincount(own_clusters[is_open], minlength=total) == 0] = count  # no document is left
        cluster = int(np.where(taken == taken.min(), priority, -1).argmax())
        members = np.flatnonzero((own_clusters == cluster) & is_open)
        weights = uncertainty[members] + 1e-9
        center = weights @ vectors[members] / weights.sum()
        row = int(members[np.square(vectors[members] - center).sum(1).argmin()])
        choices.append(Choice(row, cluster=np.flatnonzero(own_clusters == cluster), examples=int(labeled[cluster])))
        is_open[row] = False
        taken[cluster] += 1
    return choices


def _clusters(vectors: np.ndarray, count: int) -> np.ndarray:
    """Cluster vectors by k-means, in one thread so that results are reproducible; int64 ``(N,)``."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits

    count = max(min(count, MAX_CLUSTERS, len(vectors) // MIN_DOCUMENTS_PER_CLUSTER), 1)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # equal vectors make fewer clusters
        return KMeans(count, n_init=1, max_iter=K_MEANS_STEPS, random_state=0).fit(vectors).labels_
