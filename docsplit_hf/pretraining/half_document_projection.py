"""half_document_projection: of the embeddings of halves, the linear map from one half to the other (closed form)."""

from __future__ import annotations

import numpy as np

SHRINKAGES = 10.0 ** np.arange(-2, 2.1, 0.5)
FOLDS = 5


def half_document_projection(first: np.ndarray, second: np.ndarray, shrinkage: float) -> tuple[np.ndarray, np.ndarray]:
    r"""Mean ``(D,)`` and map ``(D, D)`` of the embeddings of two halves per document, ``(N, D)`` each, row by row.

    With S the covariance of all halves, C the symmetric covariance of the two halves of a document, s = tr S / D,
    r = tr C / tr S and the shrinkage l, the map ``(S + l s I)^-1 (C + l s r I)`` is the ridge regression of one half on
    the other, shrunk to the identity times r: it minimizes, over the 2 N centered halves x and their other halves y,
    ``mean ||y - x B||^2 + l s ||B - r I||^2``.
    """
    mean = (first.mean(0) + second.mean(0)).astype(np.float64) / 2
    total, cross = _moments(first - mean, second - mean)
    total, cross = total / len(first), cross / len(first)
    ridge, ratio = _ridge(total, cross, shrinkage)
    identity = np.eye(len(mean))
    return mean, np.linalg.solve(total + ridge * identity, cross + ridge * ratio * identity)


def choose_shrinkage(first: np.ndarray, second: np.ndarray, seed: int = 0) -> tuple[float, float]:
    """The shrinkage with the smallest squared error on halves of held-out documents, and this error; needs no labels.

    Five folds. The error is a share of the halves' variance. One decomposition per fold does for all shrinkages, since
    the error of a map B is ``tr S' - 2 tr B^T C' + tr B^T S' B`` with the held-out covariances S' and C'.
    """
    if len(first) < FOLDS:
        raise ValueError(
            f"{len(first)} documents are too few to choose a shrinkage on: give {FOLDS} or more, or set it."
        )
    mean = (first.mean(0) + second.mean(0)).astype(np.float64) / 2
    fold = np.random.default_rng(seed).permutation(len(first)) % FOLDS
    held_out = [_moments(first[fold == number] - mean, second[fold == number] - mean) for number in range(FOLDS)]
    whole = [np.sum(parts, axis=0) for parts in zip(*held_out, strict=True)]
    errors = np.zeros(len(SHRINKAGES))
    for number, (total, cross) in enumerate(held_out):
        count = np.count_nonzero(fold != number)
        errors += _held_out_errors((whole[0] - total) / count, (whole[1] - cross) / count, total, cross)
    errors /= np.trace(whole[0])
    best = int(errors.argmin())
    return float(SHRINKAGES[best]), float(errors[best])


def _moments(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The sums of x^T x and of the symmetric x^T y over centered halves, divided by 2: each ``(D, D)`` float64."""
    product = first.T @ second
    return (first.T @ first + second.T @ second) / 2, (product + product.T) / 2


def _ridge(total: np.ndarray, cross: np.ndarray, shrinkage: float) -> tuple[float, float]:
    """l s and r of the equation."""
    return shrinkage * np.trace(total) / len(total), np.trace(cross) / np.trace(total)


def _held_out_errors(
    total: np.ndarray, cross: np.ndarray, held_out_total: np.ndarray, held_out_cross: np.ndarray
) -> np.ndarray:
    """The squared error on held-out halves with each shrinkage, ``(len(SHRINKAGES),)``."""
    values, vectors = np.linalg.eigh(total)
    cross, held_out_total, held_out_cross = (vectors.T @ x @ vectors for x in (cross, held_out_total, held_out_cross))
    squared, identity = cross @ cross, np.eye(len(values))
    errors = []
    for shrinkage in SHRINKAGES:
        ridge, ratio = _ridge(total, cross, shrinkage)
        inverse = 1 / (values + ridge)  # the map is the diagonal matrix of these times (cross + ridge ratio I)
        agreement = inverse @ ((cross + ridge * ratio * identity) * held_out_cross).sum(1)
        gram = squared + 2 * ridge * ratio * cross + (ridge * ratio) ** 2 * identity
        errors.append(np.trace(held_out_total) - 2 * agreement + inverse @ (held_out_total * gram) @ inverse)
    return np.array(errors)
