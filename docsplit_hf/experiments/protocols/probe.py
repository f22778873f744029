"""Classification with frozen features: a perceptron as in the papers, or a linear classifier."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...classification.metrics import prediction_metrics
from ..systems.features import check_features, is_sparse
from ..tasks.held_out import hold_out_of_each_class
from .mlp import fit_mlp

if TYPE_CHECKING:
    from ..systems.loading import Features

logger = logging.getLogger(__name__)

KINDS = ("mlp", "logistic")
HIDDEN_WIDTH = 128
BATCH_SIZE = 8
HELD_OUT_SHARE = 0.1
FEWEST_TO_HOLD_OUT = 500  # below, a tenth tells too little to be worth the examples that it takes from training
STRENGTHS = {"dense": (1.0, 10.0, 100.0), "sparse": (0.1, 1.0, 10.0)}  # the middle one where none can be chosen


def fit_and_score(
    kind: str,
    train: Features,
    train_labels: np.ndarray,
    test: Features,
    test_labels: np.ndarray,
    seed: int,
    train_texts: Sequence[Hashable] | None = None,
) -> dict[str, float]:
    """Train a classifier on the features of the training texts, and measure it on those of the test texts.

    ``"mlp"`` is the papers' (DocSplit, appendix A.1): one hidden layer, learning rate 3e-4, batches of 8. They say
    neither how wide it is nor when they stop: here it has 128 units with ReLU, whatever the width of the features, and
    is trained by ``fit_mlp`` until the loss on a tenth of each class of the training set rises.

    ``"logistic"`` is multinomial logistic regression, the quick alternative. Its C is the one of 1, 10 and 100 with the
    highest accuracy on that tenth; then it is trained on all.

    Sparse features (TF-IDF) get a linear classifier in either case, which is said in the log: a linear support vector
    machine, the usual one for them, its C chosen alike of 0.1, 1 and 10. The perceptron would have millions of weights.

    Training sets of fewer than 500 examples, as in few-shot classification, are too small to hold any out: the
    perceptron is trained for 2,000 steps, and C is 10 for dense features and 1 for sparse ones.

    Args:
        kind: ``"mlp"`` or ``"logistic"``.
        train: Features of the training texts, ``(N, D)``, dense or sparse.
        train_labels: int64 ``(N,)``, from 0.
        test: Features of the test texts, ``(M, D)``.
        test_labels: int64 ``(M,)``.
        seed: Decides what is held out, the first weights, and the order of the examples.
        train_texts: What the features are of, ``(N,)``: equal ones are held out together. None: no two are equal.

    Returns:
        ``accuracy`` and ``macro_f1`` on the test set, fractions from 0 to 1.

    Raises:
        ValueError: If the kind is unknown, there is only one class, features and labels do not fit together, or a
            feature is NaN.

    Example:

        >>> features, labels = np.eye(2, dtype=np.float32)[[0, 0, 1, 1]], np.array([0, 0, 1, 1])
        >>> fit_and_score("logistic", features, labels, features, labels, seed=0)
        {'accuracy': 1.0, 'macro_f1': 1.0}
    """
    if kind not in KINDS:
        raise ValueError(f"Unknown probe {kind!r}: choose one of {KINDS}.")
    train_labels, test_labels = np.asarray(train_labels), np.asarray(test_labels)
    train = check_features(train, "the training features", train_labels)
    test = check_features(test, "the test features", test_labels)
    if len(np.unique(train_labels)) < 2:
        raise ValueError(
            f"Each of the {len(train_labels)} training examples has the label {train_labels[0]}: there is nothing to "
            "tell apart."
        )
    kept, held_out = np.arange(len(train_labels)), np.arange(0)
    if len(train_labels) >= FEWEST_TO_HOLD_OUT:
        texts = range(len(train_labels)) if train_texts is None else train_texts
        kept, held_out = hold_out_of_each_class(texts, train_labels, HELD_OUT_SHARE, seed)
    if kind == "mlp" and not is_sparse(train):
        examples = (train[kept], train_labels[kept], train[held_out], train_labels[held_out])
        return prediction_metrics(fit_mlp(*examples, (HIDDEN_WIDTH,), BATCH_SIZE, seed)(test), test_labels)
    if kind == "mlp":
        logger.info("Sparse features: a linear support vector machine takes the place of the perceptron.")
    strength = _choose_strength(train, train_labels, kept, held_out, seed)
    return prediction_metrics(_linear(train, strength, seed).fit(train, train_labels).predict(test), test_labels)


def _choose_strength(train: Features, labels: np.ndarray, kept: np.ndarray, held_out: np.ndarray, seed: int) -> float:
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


def _linear(features: Features, strength: float, seed: int) -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import LinearSVC

    if is_sparse(features):
        return LinearSVC(C=strength, random_state=seed)  # liblinear goes through the examples in a random order
    return LogisticRegression(C=strength, max_iter=1000)
