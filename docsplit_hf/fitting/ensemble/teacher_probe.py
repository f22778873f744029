"""The probe that imitates a teacher, fitted on its answers, and how far the answers agree with other experts."""

from __future__ import annotations

import numpy as np

from ...arrays.snapshot import Snapshot
from ..experts.corpus import Corpus, texts_in
from ..experts.linear_probe import fit_distributions
from ..experts.teacher_expert import TeacherAnswers, digest_of

INVERSE_REGULARIZATION = 5.0
SMOOTHING = 0.05  # of the answers toward equal probabilities, as a model may be too sure
# Standard errors by which the agreement with the other experts must exceed chance before it counts as evidence.
LEAST_AGREEMENT = 3.0
MAX_EVIDENCE = 6.0  # of agreement, in log odds


def fit_teacher(answers: TeacherAnswers, snapshot: Snapshot, corpus: Corpus, groups: np.ndarray) -> np.ndarray | None:
    """Fit a probe ``(C, D + 1)`` on the answers about documents of a corpus; None without such answers.

    Answers about examples, and about texts in the same group (``groups`` ``(N,)``), are left out: measured on folds of
    the examples, the probe would know them.
    """
    if snapshot.documents is None:
        return None
    digests = [digest_of(text) for text in texts_in(snapshot.documents.rows)]
    place_of = dict(zip(digests, corpus.documents.tolist(), strict=True))
    places = np.array([place_of.get(digest, -1) for digest in answers.documents], np.int64)
    is_used = (places >= 0) & answers.probabilities.any(1)
    is_used[is_used] &= ~np.isin(groups[places[is_used]], groups[corpus.rows])
    if not is_used.any():
        return None
    return fit_soft_probe(corpus.vectors[places[is_used]], answers.probabilities[is_used])


def fit_soft_probe(vectors: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """Fit a multinomial logistic regression to soft labels; return weights and biases, float32 ``(C, D + 1)``.

    Minimizes ``|w|^2 / 2 - 5 sum p(y) log softmax(w x + b)(y)``, with the probabilities p smoothed by 0.05.

    Args:
        vectors: Vectors of T texts, ``(T, D)``.
        probabilities: Their label distributions, ``(T, C)``.
    """
    labels = probabilities.shape[1]
    targets = (1 - SMOOTHING) * probabilities.astype(np.float64) + SMOOTHING / labels
    # With two labels, the log odds are fitted, whose weights are the differences of those of the labels.
    inverse_regularization = INVERSE_REGULARIZATION * (2 if labels == 2 else 1)
    return fit_distributions(vectors, targets, inverse_regularization=inverse_regularization)


def agreement_above_chance(teacher: np.ndarray, others: np.ndarray) -> float:
    """Agreement of two sets of probabilities ``(T, C)`` of the same texts, in standard errors above chance.

    The agreement is the mean probability that both choose one label. By chance, the answers belong to other texts: the
    mean and the standard error are those of all permutations of the texts.
    """
    count = len(teacher)
    if count < 2:
        return 0.0
    both = teacher.astype(np.float64) @ others.astype(np.float64).T  # (T, T): agreement of each pair of answers
    centered = both - both.mean(0) - both.mean(1, keepdims=True) + both.mean()
    variance = np.square(centered).sum() / (count - 1)  # of the sum of the diagonal under permutations (Hoeffding 1951)
    if variance <= 1e-12:
        return 0.0
    return float((np.trace(both) - count * both.mean()) / np.sqrt(variance))
