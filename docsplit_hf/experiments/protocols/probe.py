"""full: a classifier on frozen features, a perceptron as in the papers or a linear one, on the whole training set."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.neural_network import MLPClassifier
from sklearn.svm import LinearSVC

from ..systems.features import is_sparse
from ..systems.loading import Features
from ..tasks.task import ClassificationTask
from .experiment import Evaluation, Experiment, Plan, once_per_seed
from .labeled_features import LabeledFeatures, held_out_settings, labeled_features
from .settings import EvaluationSettings

logger = logging.getLogger(__name__)

HIDDEN_WIDTH = 128  # the papers do not say
BATCH_SIZE = 8
LEARNING_RATE = 3e-4
PATIENCE = 3
SMALLEST_GAIN = 1e-3  # in nats: of classes that can be told apart, the loss falls for hundreds of epochs to no effect
MOST_EPOCHS = 100
STEPS_WITHOUT_HELD_OUT = 2_000
HELD_OUT_SHARE = 0.1
FEWEST_TO_HOLD_OUT = 500  # below, a tenth tells too little to be worth the examples that it takes from training
STRENGTHS = {"dense": (1.0, 10.0, 100.0), "sparse": (0.1, 1.0, 10.0)}  # the middle one where none can be chosen


def probe_metrics(kind: str, features: LabeledFeatures, seed: int) -> dict[str, float]:
    """Train a classifier on the training features, and measure it on the test features.

    ``"mlp"`` is the papers' (DocSplit, appendix A.1). ``"logistic"`` is logistic regression, the quick alternative; its
    C is the one with the highest accuracy on a tenth of each class, then it is trained on all. Sparse features get a
    linear support vector machine in either case, since a perceptron would have millions of weights.
    """
    kept, held_out = np.arange(len(features.train_labels)), np.arange(0)
    if len(kept) >= FEWEST_TO_HOLD_OUT:
        kept, held_out = features.held_out(HELD_OUT_SHARE, seed)
    if kind == "mlp" and not is_sparse(features.train):
        predict = fit_mlp(features.train, features.train_labels, kept, held_out, (HIDDEN_WIDTH,), BATCH_SIZE, seed)
        return features.metrics(predict(features.test))
    if kind == "mlp":
        logger.info("Sparse features: a linear support vector machine takes the place of the perceptron.")
    classifier = _linear(features.train, _choose_strength(features, kept, held_out, seed), seed)
    return features.metrics(classifier.fit(features.train, features.train_labels).predict(features.test))


def fit_mlp(
    features: np.ndarray,
    labels: np.ndarray,
    kept: np.ndarray,
    held_out: np.ndarray,
    hidden_widths: tuple[int, ...],
    batch_size: int,
    seed: int,
) -> Callable[[np.ndarray], np.ndarray]:
    """Train scikit-learn's perceptron on the kept rows until the held-out rows say to stop; gives its ``predict``.

    It ends after 3 epochs without a held-out loss that is lower by 0.001, or after 100, and the best epoch is taken;
    without held-out rows, with the epoch in which 2,000 steps are reached. scikit-learn's own early stopping holds out
    at random, which parts equal texts and fails on a class with one example.

    Features are multiplied by one number, such that their mean square is 1, as it is of BERT's vectors in the papers.
    Of vectors of norm 1 it is 1 / D: with the papers' learning rate, training would take several times as many epochs.
    """
    scale = np.float32(1 / max(float(np.sqrt(np.mean(np.square(features[kept], dtype=np.float64)))), 1e-12))
    train, others, classes = features[kept] * scale, features[held_out] * scale, np.unique(labels)
    network = MLPClassifier(
        hidden_widths,
        batch_size=min(batch_size, len(kept)),
        learning_rate_init=LEARNING_RATE,
        random_state=np.random.RandomState(seed),  # a number would give every epoch the same order
    )
    best, best_loss, best_epoch = network, np.inf, 0
    epochs = MOST_EPOCHS if len(held_out) else -(-STEPS_WITHOUT_HELD_OUT // -(-len(kept) // batch_size))
    for epoch in range(1, epochs + 1):
        network.partial_fit(train, labels[kept], classes=classes)
        if len(held_out) == 0:
            continue
        loss = log_loss(labels[held_out], network.predict_proba(others), labels=classes)
        if loss < best_loss - SMALLEST_GAIN:
            best, best_loss, best_epoch = copy.deepcopy(network), loss, epoch
        elif epoch - best_epoch >= PATIENCE:
            break
    if len(held_out):
        logger.info(f"The perceptron is that of epoch {best_epoch} of {epoch}: held-out loss {best_loss:.3f}.")
    return lambda rows: best.predict(rows * scale)


def _choose_strength(features: LabeledFeatures, kept: np.ndarray, held_out: np.ndarray, seed: int) -> float:
    train, labels = features.train, features.train_labels
    strengths = STRENGTHS["sparse" if is_sparse(train) else "dense"]
    if len(held_out) == 0:
        return strengths[1]
    accuracy = {
        strength: _linear(train, strength, seed).fit(train[kept], labels[kept]).score(train[held_out], labels[held_out])
        for strength in strengths
    }
    best = max(strengths, key=accuracy.__getitem__)  # of equal ones the first, which is the simplest classifier
    logger.info(f"C = {best:g}, with an accuracy of {accuracy[best]:.3f} on {len(held_out)} held-out examples.")
    return best


def _linear(features: Features, strength: float, seed: int) -> LinearSVC | LogisticRegression:
    if is_sparse(features):
        return LinearSVC(C=strength, random_state=seed)  # liblinear goes through the examples in a random order
    return LogisticRegression(C=strength, max_iter=1000)


def _plan(task: ClassificationTask, settings: EvaluationSettings) -> Plan:
    chosen = {"probe": settings.probe, "max_length": settings.max_length} | held_out_settings(task)
    return once_per_seed("full", chosen, settings)


def _measure(evaluation: Evaluation, settings: Mapping[str, Any], seed: int) -> dict[str, float]:
    return probe_metrics(settings["probe"], evaluation.once(labeled_features), seed)


FULL = Experiment("a probe on frozen features, the whole training set", (ClassificationTask,), _plan, _measure)
