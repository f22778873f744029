"""Which documents to label next: those that stand for most doubt, where few examples are near."""

from __future__ import annotations

import logging
import threading
import warnings
from dataclasses import replace
from numbers import Integral
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .experts.fitted_experts import ready_experts, score_texts, vectors_of_examples
from .store.row_table import rows_at, take_passages
from .texts_and_labels import joined_texts

if TYPE_CHECKING:
    import pyarrow as pa

    from ..models.inference.text_embedder import TextEmbedder
    from .experts.fitted_experts import ReadyExperts
    from .store.snapshot import FittedState, Snapshot
    from .store.store import Store

logger = logging.getLogger(__name__)

MOST_CANDIDATES = 10_000  # documents that are asked about; more of them change the clusters little
FITTING = threading.Lock()  # held while what was fitted is replaced by what follows from it
SUGGESTED = "suggested"  # in the settings of what was fitted: the ids of documents that were suggested
MOST_CLUSTERS, FEWEST_DOCUMENTS, STEPS = 300, 3, 20  # of the clusters; documents in each, on average; of k-means


def suggest(
    datastore: Store, count: int, again: bool = False, embedder: TextEmbedder | None = None
) -> list[dict[str, Any]]:
    """As ``KNNClassifierPipeline.suggest``, which is remembered; ``embedder``: adds the head's logits."""
    if isinstance(count, bool) or not isinstance(count, Integral) or count < 1:
        raise ValueError(f"n must be a whole number from 1, got {count!r}.")
    snapshot = datastore.snapshot
    ready = ready_experts(snapshot)
    if ready is None:
        raise ValueError("Nothing was fitted: call fit() before suggest(n), which asks where its experts are unsure.")
    rows = _candidates(snapshot, count, again)
    table = rows_at(snapshot.documents.rows, rows)
    texts, pairs = table["text"].to_pylist(), table["text_pair"].to_pylist()
    if embedder is not None and None in texts:
        raise ValueError("A classification head reads texts, and some documents have none: add them with texts.")
    logits = None if embedder is None else embedder.embed(texts, pairs).logits
    keys, passages = snapshot.documents.keys[rows], take_passages(snapshot.documents.passages, rows)
    answers = score_texts(ready, keys, joined_texts(texts, pairs), logits, passages, without_equal=True)
    doubt = _doubt(answers.probabilities, snapshot.multi_label)
    choices = choose_documents(answers.vectors, doubt, vectors_of_examples(ready), count)
    found = [_suggestion(choice, table, answers.probabilities, ready) for choice in choices]
    ids = [one["id"] for one in found]
    with FITTING:
        if (fitted := datastore.fitted) is not None:
            suggested = list(dict.fromkeys([*suggested_before(fitted), *ids]))
            datastore.fitted = replace(fitted, settings=fitted.settings | {SUGGESTED: suggested})
    return found


def suggested_before(fitted: FittedState | None) -> list[str]:
    """The ids of documents that were suggested."""
    found = None if fitted is None else fitted.settings.get(SUGGESTED)
    return found if isinstance(found, list) else []


def _candidates(snapshot: Snapshot, count: int, again: bool) -> np.ndarray:
    """The rows of the documents to choose from."""
    if snapshot.documents is None or not len(snapshot.documents.keys):
        raise ValueError("There are no documents without labels to choose from: add_documents(texts).")
    ids, before = snapshot.documents.rows["id"].to_pylist(), set(suggested_before(snapshot.fitted))
    rows = np.array([row for row, document_id in enumerate(ids) if again or document_id not in before], np.int64)
    if count > len(rows):
        known = len(ids) - len(rows)
        others = f" beside {known} that were suggested before: ask for fewer, or pass again=True." if known else "."
        raise ValueError(f"n is {count}, and there are {len(rows)} documents without labels{others}")
    if len(rows) > MOST_CANDIDATES:
        logger.info("Of %d documents, a random %d are asked about.", len(rows), MOST_CANDIDATES)
        rows = np.sort(np.random.default_rng(len(rows)).choice(rows, max(MOST_CANDIDATES, count), replace=False))
    return rows


def _doubt(probabilities: np.ndarray, several: bool) -> np.ndarray:
    """One less the margin between the two best labels, ``(N,)``; of several labels, that of the least sure one."""
    if several:
        return 1 - np.abs(2 * probabilities - 1).min(1)
    ranked = np.sort(probabilities, axis=1)
    return 1 - (ranked[:, -1] - ranked[:, -2])


def _suggestion(choice: Choice, table: pa.Table, probabilities: np.ndarray, ready: ReadyExperts) -> dict[str, Any]:
    document = {name: value[0] for name, value in table.slice(choice.row, 1).to_pydict().items()}
    probabilities, names = probabilities[choice.row], ready.snapshot.label_names
    best = np.argsort(-probabilities, kind="stable")
    output = {"label": names[best[0]], "score": float(probabilities[best[0]])}
    if ready.snapshot.multi_label:
        thresholds = ready.fitted.settings.label_thresholds(names)
        output["labels"] = [names[i] for i in np.flatnonzero(probabilities >= thresholds)]
        best = np.argsort(np.abs(2 * probabilities - 1), kind="stable")  # the least sure first
    here = " or ".join(f"{names[i]} ({probabilities[i]:.0%})" for i in best[:2])
    alike = f"similar documents without a label: {len(choice.cluster) - 1:,}, with a label: {choice.examples:,}"
    reason = f"{alike}; guessed: {here}"
    return {**document, **output, "reason": reason}


class Choice(NamedTuple):
    """A chosen document, and its cluster."""

    row: int
    cluster: np.ndarray  # the rows of all its documents
    examples: int  # how many examples are in it


def choose_documents(vectors: np.ndarray, doubt: np.ndarray, examples: np.ndarray, count: int) -> list[Choice]:
    """Choose ``count`` of N documents ``(N, D)`` by their ``doubt`` ``(N,)``, beside examples ``(n, D)``.

    Documents and examples are clustered together, into half as many clusters as there will be examples. Clusters with
    the largest ``sum of doubt / (1 + examples)^2`` give a document each: the one nearest to the mean of the cluster's
    documents, weighted by their doubt. The doubt of a single text is largest for outliers; that of many similar texts
    shows where labels are missing.
    """
    clusters = _clusters(np.concatenate([vectors, examples]), max(count, (count + len(examples)) // 2))
    own, of_examples = clusters[: len(vectors)], clusters[len(vectors) :]
    total = clusters.max() + 1
    labeled = np.bincount(of_examples, minlength=total)
    mass = np.bincount(own, doubt, minlength=total) / (1 + labeled) ** 2
    is_open, taken, choices = np.ones(len(vectors), bool), np.zeros(total, int), []
    for _ in range(count):
        taken[np.bincount(own[is_open], minlength=total) == 0] = count  # nothing is left in them
        cluster = int(np.where(taken == taken.min(), mass, -1).argmax())
        members = np.flatnonzero((own == cluster) & is_open)
        weights = doubt[members] + 1e-9
        center = weights @ vectors[members] / weights.sum()
        row = int(members[np.square(vectors[members] - center).sum(1).argmin()])
        choices.append(Choice(row, np.flatnonzero(own == cluster), int(labeled[cluster])))
        is_open[row] = False
        taken[cluster] += 1
    return choices


def _clusters(vectors: np.ndarray, count: int) -> np.ndarray:
    """The cluster of each vector; one thread makes it the same each time."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits

    count = max(min(count, MOST_CLUSTERS, len(vectors) // FEWEST_DOCUMENTS), 1)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of copies there are fewer clusters
        return KMeans(count, n_init=1, max_iter=STEPS, random_state=0).fit(vectors).labels_
