"""Classification by nearest neighbors on frozen features: no training at all."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...classification.metrics import prediction_metrics
from ...neighbors.mixing.calibration import calibrate
from ...neighbors.mixing.knn_distribution import knn_probabilities
from ...neighbors.store.index import exact_search
from ..systems.features import check_features, is_sparse, normalize_rows
from ..tasks.held_out import hold_out_of_each_class

if TYPE_CHECKING:
    from ..systems.loading import Features

logger = logging.getLogger(__name__)

MOST_NEIGHBORS = 64  # the paper's k
HELD_OUT_SHARE = 0.2


def knn_score(
    train: Features,
    train_labels: np.ndarray,
    test: Features,
    test_labels: np.ndarray,
    seed: int,
    train_texts: Sequence[Hashable] | None = None,
) -> dict[str, float]:
    """Classify by the nearest training examples (Liang et al. 2023, equation 2), in the space of cosine similarity.

    Features are scaled to norm 1, so that the squared L2 distance is 2 - 2 cos. k (up to the paper's 64) and the
    temperature are chosen by ``calibrate`` on a fifth of each class of the training set, with the rest as datastore;
    then all of it is the datastore. The paper's temperature of 10 suits no other scale of embeddings than its own.

    Args:
        train: Features of the training texts, ``(N, D)``, dense or sparse.
        train_labels: int64 ``(N,)``, from 0.
        test: Features of the test texts, ``(M, D)``.
        test_labels: int64 ``(M,)``, from 0.
        seed: Decides which training examples k and temperature are chosen on.
        train_texts: What the features are of, ``(N,)``: equal ones are held out together. None: no two are equal.

    Returns:
        ``accuracy`` and ``macro_f1``.

    Raises:
        ValueError: If features and labels do not fit together, or a feature is NaN.

    Example:

        >>> features, labels = np.eye(2)[[0, 0, 0, 1, 1, 1]], np.array([0, 0, 0, 1, 1, 1])
        >>> knn_score(features, labels, features, labels, seed=0)
        {'accuracy': 1.0, 'macro_f1': 1.0}
    """
    train = normalize_rows(check_features(train, "the training features", train_labels))
    test = normalize_rows(check_features(test, "the test features", test_labels))
    num_labels = int(max(np.max(train_labels), np.max(test_labels))) + 1
    texts = range(len(train_labels)) if train_texts is None else train_texts
    k, temperature = _choose(train, np.asarray(train_labels), texts, num_labels, seed)
    distances, rows = _search(test, train, k)
    probabilities = knn_probabilities(distances, np.asarray(train_labels)[rows], num_labels, temperature)
    return prediction_metrics(probabilities.argmax(1), test_labels)


def _choose(
    train: Features, labels: np.ndarray, texts: Sequence[Hashable], num_labels: int, seed: int
) -> tuple[int, float]:
    kept, held_out = hold_out_of_each_class(texts, labels, HELD_OUT_SHARE, seed)
    if len(held_out) == 0:
        logger.info("Each class has one training text: the nearest neighbor alone decides.")
        return 1, 1.0
    distances, rows = _search(train[held_out], train[kept], min(MOST_NEIGHBORS, len(kept)))
    chosen = calibrate(distances, labels[kept][rows], labels[held_out], num_labels=num_labels)
    logger.info(f"{chosen.k} neighbors at temperature {chosen.temperature:.3g}, chosen on {chosen.examples} examples.")
    return chosen.k, chosen.temperature


def _search(queries: Features, keys: Features, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Squared L2 distances ``(Q, k)``, ascending, and rows of the keys ``(Q, k)``."""
    if not is_sparse(keys):
        return exact_search(np.ascontiguousarray(queries), np.ascontiguousarray(keys), k)
    from sklearn.neighbors import NearestNeighbors

    distances, rows = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(keys).kneighbors(queries)
    return np.square(distances), rows
