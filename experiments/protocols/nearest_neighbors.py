"""knn: classification by the nearest neighbors on frozen features, without any training."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import normalize

from docsplit_hf.arrays.grouped_search import grouped_search
from docsplit_hf.arrays.keys import exact_search
from docsplit_hf.classifier.calibration import calibrate
from docsplit_hf.evaluation.probes import LabeledFeatures
from docsplit_hf.evaluation.systems import Features
from docsplit_hf.fitting.interpolation import knn_probabilities
from docsplit_hf.reading.holding_out import hold_out_of_each_class

from ..evaluation.experiment import Evaluation, Experiment, Plan, once_per_seed
from ..evaluation.protocols import held_out_settings, labeled_features
from ..evaluation.tasks import ClassificationTask
from ..papers_options import PaperSettings

logger = logging.getLogger(__name__)

MOST_NEIGHBORS = 64  # the paper's k
HELD_OUT_SHARE = 0.2


def knn_metrics(features: LabeledFeatures, seed: int) -> dict[str, float]:
    """Classify the test features by the nearest training examples."""
    return features.metrics(knn_predictions(features, seed))


def knn_predictions(features: LabeledFeatures, seed: int) -> np.ndarray:
    """Labels of the test features by the nearest training examples, ``(M,)``, in the space of cosine similarity.

    The vote is equation 2 of Liang et al. 2023. Documents with passages are compared as in ``KNNDatastore.search``.

    Features are scaled to norm 1. k (up to the paper's 64) and the temperature are calibrated on a fifth of each class
    of the training set, with the rest as datastore; for the test features all of it is the datastore. The paper's
    temperature of 10 only suits the scale of the paper's embeddings.
    """
    train = features.train
    test = features.test
    labels = features.train_labels
    if not has_passages(train):
        train = normalize(train)
        test = normalize(test)
    num_labels = int(max(labels.max(), features.test_labels.max())) + 1
    kept, held_out = hold_out_of_each_class(features.train_inputs, features.train_labels, HELD_OUT_SHARE, seed)
    if len(held_out):
        distances, rows = _search(train[held_out], train[kept], min(MOST_NEIGHBORS, len(kept)))
        calibration = calibrate(distances, labels[kept][rows], labels[held_out], num_labels=num_labels)
        k = calibration.k
        temperature = calibration.temperature
        logger.info(f"{k} neighbors at temperature {temperature:.3g}, chosen on {calibration.examples} examples.")
    else:
        k = 1
        temperature = 1.0
        logger.info("Each class has one training text: the nearest neighbor alone decides.")
    distances, rows = _search(test, train, k)
    return knn_probabilities(distances, labels[rows], num_labels, temperature).argmax(1)


def has_passages(features: Features) -> bool:
    """Whether each row has several vectors, one of each passage."""
    return features.dtype == object


def _search(queries: Features, keys: Features, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Squared L2 distances ``(Q, k)``, ascending, and rows of the keys ``(Q, k)``."""
    if has_passages(keys):
        found = grouped_search(
            np.concatenate(queries), _passage_counts(queries), np.concatenate(keys), _passage_counts(keys), k
        )
        return found.distances, found.rows
    if not issparse(keys):
        return exact_search(np.ascontiguousarray(queries), np.ascontiguousarray(keys), k)
    distances, rows = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(keys).kneighbors(queries)
    return np.square(distances), rows


def _passage_counts(documents: Features) -> np.ndarray:
    return np.array([len(passages) for passages in documents])


def _plan(task: ClassificationTask, settings: PaperSettings) -> Plan:
    return once_per_seed("knn", {"max_length": settings.max_length} | held_out_settings(task), settings, _measure)


def _measure(evaluation: Evaluation, settings: Mapping[str, Any], seed: int) -> dict[str, float]:
    return knn_metrics(evaluation.once(labeled_features), seed)


KNN = Experiment("nearest neighbors on frozen features", (ClassificationTask,), _plan)
