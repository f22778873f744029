"""Does one document cite another? Told from their two embeddings alone (DocSplit, section 4.4; SimDE)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import numpy as np

from ..systems.features import check_features, is_sparse, normalize_rows
from ..tasks.held_out import hold_out_groups
from .mlp import fit_mlp

if TYPE_CHECKING:
    from ..systems.loading import Features

logger = logging.getLogger(__name__)

INTERACTIONS = ("concat", "nli")
HEAD_WIDTHS = (512, 256)
BATCH_SIZE = 32
HELD_OUT_SHARE = 0.1


def pair_head_score(
    a_train: Features,
    b_train: Features,
    labels_train: np.ndarray,
    a_test: Features,
    b_test: Features,
    labels_test: np.ndarray,
    seed: int,
    interaction: str = "concat",
) -> dict[str, float]:
    """Classify pairs of documents with the head of the Long Range Arena on their frozen embeddings::

        [e1, e2] -> Dense(W) -> ReLU -> Dense(W / 2) -> ReLU -> Dense(2)

    (Tay et al. 2020: ``matching/configs``, ``common_layers.py``.) With ``interaction="nli"`` its input is
    ``[e1, e2, e1 * e2, e1 - e2]``, an option of LRA's code that its training never uses. W is 512, as for its
    transformer on this task, and batches have LRA's 32 pairs. LRA trains the encoder too; the encoder is frozen
    here, and the head is trained by ``fit_mlp`` with the papers' learning rate, until the loss on held-out pairs rises.
    Those are all the pairs of a tenth of the citing documents, so that no citing document is on both sides.

    Args:
        a_train: Embeddings of the citing documents, ``(N, D)``, one row for each pair. Equal rows count as one
            document.
        b_train: Embeddings of what they may cite, ``(N, D)``.
        labels_train: ``(N,)``, 1 where they do, else 0.
        a_test: The same for the test pairs, ``(M, D)``.
        b_test: ``(M, D)``.
        labels_test: ``(M,)``.
        seed: Decides what is held out, the first weights, and the order of the pairs.
        interaction: ``"concat"`` or ``"nli"``.

    Returns:
        ``accuracy``, a fraction.

    Raises:
        ValueError: If features are sparse, shapes do not fit, a label is not 0 or 1, only one of them is there, or a
            feature is NaN.

    Example:

        >>> rng = np.random.default_rng(0)
        >>> a, b = rng.normal(size=(2, 200, 4)).astype(np.float32)
        >>> labels = (b[:, 0] > 0).astype(np.int64)
        >>> pair_head_score(a, b, labels, a, b, labels, seed=0)["accuracy"] > 0.9
        True
    """
    if is_sparse(a_train):
        raise ValueError(
            "The head needs dense embeddings: with sparse features it would have tens of millions of weights. Use "
            "cosine_threshold_score."
        )
    a_train, b_train, labels_train = _check_pairs(a_train, b_train, labels_train, "training")
    a_test, b_test, labels_test = _check_pairs(a_test, b_test, labels_test, "test")
    _check_both_labels(labels_train)
    train, test = join_embeddings(a_train, b_train, interaction), join_embeddings(a_test, b_test, interaction)
    kept, held_out = hold_out_groups([row.tobytes() for row in a_train], HELD_OUT_SHARE, seed)
    examples = (train[kept], labels_train[kept], train[held_out], labels_train[held_out])
    predictions = fit_mlp(*examples, HEAD_WIDTHS, BATCH_SIZE, seed)(test)
    return {"accuracy": float((predictions == labels_test).mean())}


def cosine_threshold_score(
    a_train: Features,
    b_train: Features,
    labels_train: np.ndarray,
    a_test: Features,
    b_test: Features,
    labels_test: np.ndarray,
    seed: int = 0,
) -> dict[str, float]:
    """Say that a document cites another if the cosine of their embeddings is above a threshold.

    The threshold is the one with the highest accuracy on the training pairs, halfway between two of their cosines.
    Nothing else is trained, so it shows what the embeddings know by themselves. Not in the papers.

    Args:
        a_train: Features of the citing documents, ``(N, D)``, dense or sparse, one row for each pair.
        b_train: Features of what they may cite, ``(N, D)``.
        labels_train: ``(N,)``, 1 where they do, else 0.
        a_test: The same for the test pairs, ``(M, D)``.
        b_test: ``(M, D)``.
        labels_test: ``(M,)``.
        seed: Not used: nothing is random.

    Returns:
        ``accuracy``, a fraction.

    Raises:
        ValueError: If shapes do not fit, a label is not 0 or 1, only one of them is there, or a feature is NaN.

    Example:

        >>> a, b, labels = np.eye(2)[[0, 0]], np.eye(2), np.array([1, 0])
        >>> cosine_threshold_score(a, b, labels, a, b, labels)
        {'accuracy': 1.0}
    """
    a_train, b_train, labels_train = _check_pairs(a_train, b_train, labels_train, "training")
    a_test, b_test, labels_test = _check_pairs(a_test, b_test, labels_test, "test")
    _check_both_labels(labels_train)
    threshold = best_threshold(_cosines(a_train, b_train), labels_train)
    logger.info(f"Pairs with a cosine above {threshold:.3f} are taken for citations.")
    return {"accuracy": float(((_cosines(a_test, b_test) > threshold) == labels_test).mean())}


def join_embeddings(a: np.ndarray, b: np.ndarray, interaction: str) -> np.ndarray:
    """One row for each pair of texts, as the head reads it.

    Args:
        a: Embeddings of the first texts, ``(N, D)``.
        b: Embeddings of the second texts, ``(N, D)``.
        interaction: ``"concat"``: the two beside one another; ``"nli"``: also their product and their difference.

    Returns:
        ``(N, 2 D)`` or ``(N, 4 D)``.

    Raises:
        ValueError: If the interaction is unknown.

    Example:

        >>> join_embeddings(np.array([[2.0]]), np.array([[3.0]]), "nli")
        array([[ 2.,  3.,  6., -1.]])
    """
    if interaction not in INTERACTIONS:
        raise ValueError(f"Unknown interaction {interaction!r}: choose one of {INTERACTIONS}.")
    return np.concatenate([a, b] if interaction == "concat" else [a, b, a * b, a - b], axis=1)


def best_threshold(scores: np.ndarray, labels: np.ndarray) -> float:
    """The threshold above which to say 1, with the highest accuracy.

    Args:
        scores: ``(N,)``.
        labels: ``(N,)``, 0 or 1.

    Returns:
        Halfway between two neighboring scores, or minus or plus infinity. Of several that are best, the lowest.

    Example:

        >>> best_threshold(np.array([0.2, 0.6, 0.4, 0.8]), np.array([0, 1, 0, 1]))
        0.5
    """
    order = np.argsort(scores, kind="stable")
    scores, labels = np.asarray(scores, dtype=np.float64)[order], np.asarray(labels)[order]
    # With the threshold before row i, what is before is said to be 0 and the rest to be 1.
    right = np.concatenate([[0], np.cumsum(labels == 0)]) + np.concatenate([np.cumsum(labels[::-1] == 1)[::-1], [0]])
    middles = np.concatenate([[-np.inf], (scores[1:] + scores[:-1]) / 2, [np.inf]])
    possible = np.concatenate([[True], scores[1:] > scores[:-1], [True]])  # equal scores cannot be parted
    return float(middles[np.argmax(np.where(possible, right, -1))])


def _check_pairs(a: Features, b: Features, labels: np.ndarray, split: str) -> tuple[Features, Features, np.ndarray]:
    labels = np.asarray(labels)
    a, b = (check_features(features, f"the {split} features", labels) for features in (a, b))
    if a.shape != b.shape:
        raise ValueError(f"The {split} features are of shapes {a.shape} and {b.shape}: give two rows for each pair.")
    wrong = labels[~np.isin(labels, (0, 1))]
    if len(wrong):
        raise ValueError(f"The labels of pairs must be 1 (cites) or 0, got {wrong[0]}.")
    return a, b, labels.astype(np.int64)


def _check_both_labels(labels: np.ndarray) -> None:
    if len(np.unique(labels)) < 2:
        raise ValueError(
            f"All {len(labels)} training pairs have the label {labels[0]}: there is nothing to tell apart."
        )


def _cosines(a: Features, b: Features) -> np.ndarray:
    product = (
        normalize_rows(a) * normalize_rows(b) if not is_sparse(a) else normalize_rows(a).multiply(normalize_rows(b))
    )
    return np.asarray(product.sum(axis=1)).ravel()
