"""full: a classifier on frozen features, a perceptron as in the papers or a linear one, on the whole training set."""

from __future__ import annotations

import copy
import itertools
import logging
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from scipy.sparse import issparse
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import normalize
from sklearn.svm import LinearSVC
from torch import nn

from ..systems.features import Features, has_passages
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


def probe_metrics(kind: str, features: LabeledFeatures, seed: int) -> dict[str, float]:
    """Train a classifier on the training features, and measure it on the test features."""
    return features.metrics(probe_predictions(kind, features, seed))


def probe_predictions(kind: str, features: LabeledFeatures, seed: int) -> np.ndarray:
    """Train a classifier on the training features, and predict the labels of the test features, ``(M,)``.

    ``"mlp"`` is the papers' (DocSplit, appendix A.1). ``"logistic"`` is logistic regression, the quick alternative; its
    C is the one with the highest accuracy on a tenth of each class, then it is trained on all. Sparse features get a
    linear support vector machine in either case, since a perceptron would have millions of weights. Where documents
    have passages, logistic regression learns from their means, and of a test document the passage of which it is surest
    decides: what it learns from single passages, most of which say nothing of the label, is less.
    """
    kept, held_out = np.arange(len(features.train_labels)), np.arange(0)
    if len(kept) >= FEWEST_TO_HOLD_OUT:
        kept, held_out = features.held_out(HELD_OUT_SHARE, seed)
    if has_passages(features.train):
        return _passage_predictions(features, kept, held_out, seed)
    if kind == "mlp" and not issparse(features.train):
        predict = fit_mlp(features.train, features.train_labels, kept, held_out, (HIDDEN_WIDTH,), BATCH_SIZE, seed)
        return predict(features.test)
    if kind == "mlp":
        logger.info("Sparse features: a linear support vector machine takes the place of the perceptron.")
    return _fit_linear(features.train, features.train_labels, kept, held_out, seed).predict(features.test)


def fit_mlp(
    features: np.ndarray,
    labels: np.ndarray,
    kept: np.ndarray,
    held_out: np.ndarray,
    hidden_widths: tuple[int, ...],
    batch_size: int,
    seed: int,
) -> Callable[[np.ndarray], np.ndarray]:
    """Train a perceptron with ReLU by cross entropy and AdamW on the kept rows; gives what predicts labels.

    It ends after 3 epochs without a held-out loss that is lower by 0.001, or after 100, and the best epoch is taken;
    without held-out rows, with the epoch in which 2,000 steps are reached.

    Features are multiplied by one number, such that their mean square is 1, as it is of BERT's vectors in the papers.
    Of vectors of norm 1 it is 1 / D: with the papers' learning rate, training would take several times as many epochs.
    """
    scale = np.float32(1 / max(float(np.sqrt(np.mean(np.square(features[kept], dtype=np.float64)))), 1e-12))
    rows, targets = torch.from_numpy(features * scale), torch.from_numpy(labels)
    train, train_targets = rows[kept], targets[kept]
    best_loss, best_epoch, best_weights = float("inf"), 0, None
    with torch.random.fork_rng(devices=[]):  # the caller's random numbers are left alone
        torch.manual_seed(seed)
        widths = (rows.shape[1], *hidden_widths, int(labels.max()) + 1)
        layers = [(nn.Linear(wide, narrow), nn.ReLU()) for wide, narrow in itertools.pairwise(widths)]
        network = nn.Sequential(*itertools.chain(*layers))[:-1]
        optimizer = torch.optim.AdamW(network.parameters(), lr=LEARNING_RATE)
        steps_per_epoch = math.ceil(len(train) / batch_size)
        epochs = MOST_EPOCHS if len(held_out) else math.ceil(STEPS_WITHOUT_HELD_OUT / steps_per_epoch)
        for epoch in range(1, epochs + 1):
            for batch in torch.randperm(len(train)).split(batch_size):
                loss = nn.functional.cross_entropy(network(train[batch]), train_targets[batch])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            if len(held_out) == 0:
                continue
            with torch.no_grad():
                loss = nn.functional.cross_entropy(network(rows[held_out]), targets[held_out]).item()
            if loss < best_loss - SMALLEST_GAIN:
                best_loss, best_epoch, best_weights = loss, epoch, copy.deepcopy(network.state_dict())
            elif epoch - best_epoch >= PATIENCE:
                break
    if best_weights is not None:
        network.load_state_dict(best_weights)
        logger.info(f"The perceptron is that of epoch {best_epoch} of {epoch}: held-out loss {best_loss:.3f}.")

    @torch.no_grad()
    def predict(others: np.ndarray) -> np.ndarray:
        return network(torch.from_numpy(others * scale)).argmax(1).numpy()

    return predict


def _passage_predictions(features: LabeledFeatures, kept: np.ndarray, held_out: np.ndarray, seed: int) -> np.ndarray:
    means = normalize(np.stack([rows.mean(0) for rows in features.train]))
    classifier = _fit_linear(means, features.train_labels, kept, held_out, seed)
    counts = np.array([len(rows) for rows in features.test])
    probabilities = classifier.predict_proba(np.concatenate(features.test))
    surest = np.maximum.reduceat(probabilities, np.cumsum(counts) - counts)
    return classifier.classes_[surest.argmax(1)]


def _fit_linear(features: Features, labels: np.ndarray, kept: np.ndarray, held_out: np.ndarray, seed: int) -> Any:
    """A linear classifier whose C is chosen on the held-out rows; then it is fitted on all."""
    if issparse(features):
        # liblinear goes through the examples in a random order
        classifier, strengths = LinearSVC(random_state=seed), (0.1, 1.0, 10.0)
    else:
        classifier, strengths = LogisticRegression(max_iter=1000), (1.0, 10.0, 100.0)
    if len(held_out) == 0:
        return classifier.set_params(C=strengths[1]).fit(features, labels)
    search = GridSearchCV(classifier, {"C": strengths}, cv=[(kept, held_out)])  # of equal ones the smallest C
    search.fit(features, labels)
    strength, accuracy = search.best_params_["C"], search.best_score_
    logger.info(f"C = {strength:g}, with an accuracy of {accuracy:.3f} on {len(held_out)} held-out examples.")
    return search.best_estimator_


def _plan(task: ClassificationTask, settings: EvaluationSettings) -> Plan:
    chosen = {"probe": settings.probe, "max_length": settings.max_length} | held_out_settings(task)
    return once_per_seed("full", chosen, settings)


def _measure(evaluation: Evaluation, settings: Mapping[str, Any], seed: int) -> dict[str, float]:
    return probe_metrics(settings["probe"], evaluation.once(labeled_features), seed)


FULL = Experiment("a probe on frozen features, the whole training set", (ClassificationTask,), _plan, _measure)
