"""Labels that the others contradict: confident learning (Northcutt et al. 2021), and the nearest examples agree."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from .nearest_examples import Nearest

# Of the nearest examples, with the given label. Of labels that were changed at random, this loses few; of the others
# that are doubted it takes away many, most where labels are hard to tell.
MOST_AGREEING = 0.1


class Doubt(NamedTuple):
    """That an example has its label. With several labels per text: that it has, or has not, the one of most doubt."""

    row: int
    suggested: int | list[int]  # the label, or all labels
    probability: float  # of what is given
    near_given: int  # of the nearest examples, with what is given
    near_suggested: int


def doubts_of(labels: np.ndarray, rows: np.ndarray, probabilities: np.ndarray, nearest: Nearest) -> list[Doubt]:
    """The doubts about N examples, the gravest first.

    ``labels`` are ``(N,)``, numbers of C labels or -1, or bool ``(N, C)``; ``probabilities`` ``(m, C)`` those of the
    examples ``rows``, out of fold.
    """
    several = labels.ndim == 2
    found = (
        _of_several(labels, rows, probabilities, nearest) if several else _of_one(labels, rows, probabilities, nearest)
    )
    return sorted(found, key=lambda doubt: doubt.probability)


def label_issues(labels: np.ndarray, probabilities: np.ndarray, agreeing: np.ndarray) -> np.ndarray:
    """Whether each label is probably wrong, bool ``(m,)``.

    Confident learning says how many are: the off-diagonal of the calibrated joint of given and true labels, which
    counts an example under a label if its probability reaches the mean self-confidence of that label. Taken are those
    of the lowest self-confidence, but for what the nearest examples support.

    ``labels`` are ``(m,)``; ``probabilities`` ``(m, C)`` out of fold; ``agreeing`` ``(m,)``, the share of the nearest
    examples that have the given label.
    """
    from cleanlab.count import num_label_issues  # which takes a while

    if len(np.unique(labels)) < 2:
        return np.zeros(len(labels), bool)
    probabilities = probabilities / probabilities.sum(1, keepdims=True, dtype=np.float64)
    count = num_label_issues(labels, probabilities, estimation_method="off_diagonal_calibrated")
    self_confidence = np.take_along_axis(probabilities, labels[:, None], 1)[:, 0]
    doubted = np.zeros(len(labels), bool)
    doubted[np.argsort(self_confidence, kind="stable")[:count]] = True
    return doubted & (self_confidence < probabilities.max(1)) & (agreeing <= MOST_AGREEING)


def _of_one(labels: np.ndarray, rows: np.ndarray, probabilities: np.ndarray, nearest: Nearest) -> list[Doubt]:
    given, suggested = labels[rows], probabilities.argmax(1)
    near, other = nearest.agreeing(labels, rows, given), nearest.agreeing(labels, rows, suggested)
    wrong = np.flatnonzero(label_issues(given, probabilities, near / nearest.counts(rows)))
    own = probabilities[wrong, given[wrong]]
    columns = (rows[wrong], suggested[wrong], own, near[wrong], other[wrong])
    return [Doubt(*values) for values in zip(*(column.tolist() for column in columns), strict=True)]


def _of_several(labels: np.ndarray, rows: np.ndarray, probabilities: np.ndarray, nearest: Nearest) -> list[Doubt]:
    """Each label is a question by itself, with the answers no and yes."""
    suggested, gravest, counts = labels[rows], dict[int, tuple[float, int, int]](), nearest.counts(rows)
    for column, probability in enumerate(probabilities.T):
        given = labels[rows, column].astype(np.int64)
        answers = np.stack([1 - probability, probability], axis=1)
        near = nearest.agreeing(labels[:, column], rows, labels[rows, column])
        wrong = label_issues(given, answers, near / counts)
        suggested[:, column] ^= wrong
        for i in np.flatnonzero(wrong).tolist():
            doubt = (float(answers[i, given[i]]), int(near[i]), int(counts[i] - near[i]))
            gravest[i] = min(gravest.get(i, doubt), doubt)
    return [Doubt(int(rows[i]), np.flatnonzero(suggested[i]).tolist(), *doubt) for i, doubt in gravest.items()]
