"""Choosing documents to label: those that stand for most doubt, in parts of the documents with few labels so far."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np

MOST_CLUSTERS, FEWEST_DOCUMENTS, STEPS = 300, 3, 20  # of the clusters; documents in each, in the mean; of k-means


class Choice(NamedTuple):
    """A document, and what it stands for."""

    row: int
    cluster: np.ndarray  # the rows of the documents in its cluster, itself among them
    examples: int  # how many examples are in it


def choose_documents(vectors: np.ndarray, doubt: np.ndarray, examples: np.ndarray, count: int) -> list[Choice]:
    """``count`` of N documents ``(N, D)``, which are in ``doubt`` ``(N,)``, beside examples ``(n, D)``.

    All of them are put into clusters, half as many as there will be examples: then a cluster is large enough for its
    doubt to be more than chance. Clusters with the largest ``sum of doubt / (1 + examples)^2`` give a document each:
    the one that is nearest to the mean of its documents, weighted by their doubt. The doubt of a single text says
    little, as it is largest for outliers; that of many texts that are alike says where labels are missing.
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
    """The cluster of each vector; the same each time, for which one thread adds up in one order."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits

    count = max(min(count, MOST_CLUSTERS, len(vectors) // FEWEST_DOCUMENTS), 1)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of copies there are fewer clusters
        return KMeans(count, n_init=1, max_iter=STEPS, random_state=0).fit(vectors).labels_
