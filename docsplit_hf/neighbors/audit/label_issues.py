"""Labels that the experts contradict, how probable it is that each is wrong, and labels that they confuse."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import softmax

if TYPE_CHECKING:
    from .near_examples import Nearest

# The grid that is averaged over. Probabilities learned from few examples or from wrong labels are too unsure, so they
# are raised to a power with a log-normal prior around 1. With probability 1/2 no label is wrong.
SHARPNESS, SPREAD = np.geomspace(0.5, 5, 21), 0.5
RATES = np.concatenate([[0], np.geomspace(0.005, 0.4, 20)])
PRIOR = np.array([0.5, *[0.5 / 20] * 20])
WORTH_A_LOOK, SURE = 0.1, 0.7  # that a label is wrong; that the suggested one is right
LEAST_SHARE, LEAST_COUNT = 0.1, 3  # of confused labels


class Doubt(NamedTuple):
    """A label in doubt. With several labels per text: whether the text has the label of most doubt."""

    row: int
    suggested: int | list[int]  # the label, or all labels
    sure: bool
    probability: float  # that what is given is right
    near_given: int  # of the nearest examples, with what is given
    near_suggested: int


def doubts_of(
    labels: np.ndarray, rows: np.ndarray, probabilities: np.ndarray, nearest: Nearest
) -> tuple[list[Doubt], float]:
    """The doubts about N examples that are worth a look, the gravest first, and about how many labels are wrong.

    ``labels`` are ``(N,)``, numbers of C labels or -1, or bool ``(N, C)``, where each is a question of no or yes.
    ``probabilities`` ``(m, C)`` are the out-of-fold ones of the examples ``rows``.
    """
    given, several = labels[rows], labels.ndim == 2
    if several:
        answers = np.stack([1 - probabilities, probabilities], axis=2).reshape(-1, 2)
        wrong, right = (x.reshape(given.shape) for x in wrong_and_right(given.ravel().astype(np.int64), answers))
        contradicted = given != (probabilities > 0.5)
    else:
        wrong, right = (x[:, None] for x in wrong_and_right(given, probabilities))
        contradicted = (given != probabilities.argmax(1))[:, None]
    doubted = np.where(contradicted, wrong, 0)
    found = []
    for i in np.flatnonzero((doubted >= WORTH_A_LOOK).any(1)):
        gravest = doubted[i].argmax()
        if several:
            values, has, other = labels[:, gravest], given[i, gravest], not given[i, gravest]
            suggested = np.flatnonzero(given[i] ^ (doubted[i] >= min(SURE, doubted[i, gravest]))).tolist()
        else:
            values, has, other = labels, given[i], int(probabilities[i].argmax())
            suggested = other
        near = (nearest.agreeing(values, rows[i], label) for label in (has, other))
        sure = bool(right[i, gravest] >= SURE)
        found.append(Doubt(int(rows[i]), suggested, sure, float(1 - wrong[i, gravest]), *near))
    return sorted(found, key=lambda doubt: doubt.probability), float(wrong.sum())


def wrong_and_right(labels: np.ndarray, probabilities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The probability that each label is wrong, and that the most probable one is right in its place, ``(m,)`` each.

    Labels are assumed to be changed to any other one at an unknown rate r: a text has the label g with probability
    ``(1 - r) q(g) + r (1 - q(g)) / (C - 1)``, q being ``probabilities`` ``(m, C)`` to a power.
    """
    others, logits = probabilities.shape[1] - 1, np.log(np.maximum(probabilities, 1e-12, dtype=np.float64))
    powered = (softmax(sharpness * logits, axis=1) for sharpness in SHARPNESS)
    own, best = np.array([(q[np.arange(len(q)), labels], q.max(1)) for q in powered]).transpose(1, 0, 2)
    evidence = np.log(PRIOR) - np.square(np.log(SHARPNESS) / SPREAD)[:, None] / 2
    evidence += [[np.log((1 - r) * q + r * (1 - q) / others).sum() for r in RATES] for q in own]
    wrong, right = np.zeros((2, len(labels)))
    for (s, r), weight in np.ndenumerate(softmax(evidence)):
        share = weight * RATES[r] / ((1 - RATES[r]) * own[s] * others + RATES[r] * (1 - own[s]))
        wrong += share * (1 - own[s])
        right += share * best[s]
    return wrong, right


def confused_labels(labels: np.ndarray, answers: np.ndarray, count: int) -> list[tuple[int, int, int, int, float]]:
    """Pairs ``(a, b, a taken for b, b taken for a, share)``, the most confused first.

    ``labels`` and ``answers`` are ``(m,)``, numbers below ``count``. Of the texts of the two labels that are answered
    by one of the two, the share is that of the wrong answers: with 0.5 the answers tell nothing.
    """
    matrix = np.zeros((count, count), np.int64)
    np.add.at(matrix, (labels, answers), 1)
    pairs = []
    for a, b in zip(*np.nonzero(np.triu(matrix + matrix.T, 1)), strict=True):
        wrong = matrix[a, b] + matrix[b, a]
        share = wrong / (wrong + matrix[a, a] + matrix[b, b])
        if wrong >= LEAST_COUNT and share >= LEAST_SHARE:
            pairs.append((int(a), int(b), int(matrix[a, b]), int(matrix[b, a]), float(share)))
    return sorted(pairs, key=lambda pair: -pair[-1])
