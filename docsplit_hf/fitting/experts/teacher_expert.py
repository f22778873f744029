"""Expert that imitates a teacher: a linear probe fitted on the answers of a decision model about documents.

The examples, and the agreement with other experts, show how far the answers count.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypedDict

import numpy as np

from ...arrays.snapshot import Snapshot
from ...content_hash import short_digest
from ...reading.characters import replace_lone_surrogates
from .corpus import texts_in
from .expert import Corpus, Expert, Features, TrainingData
from .linear_probe import fit_distributions
from .saved_types import REGRESSION_WEIGHTS, Array

INVERSE_REGULARIZATION = 5.0
SMOOTHING = 0.05  # of the answers toward equal probabilities, as a model may be too sure
# Standard errors by which the agreement with the other experts must exceed chance before it counts as evidence.
LEAST_AGREEMENT = 3.0
MAX_EVIDENCE = 6.0  # of agreement, in log odds
TEACHER_PRIOR = 0.6  # weight of a reliable teacher, relative to the other experts
TEACHER_SETTING = "teacher"  # setting of the fitted state
TEACHER_ANSWERS = "teacher.answers"  # array of the fitted state


class TeacherSetting(TypedDict):
    """Everything but the probabilities of ``TeacherAnswers``, as a setting of the fitted state."""

    documents: list[str]
    agreement: float


class EarlierTeacherSetting(TeacherSetting):
    """The setting of versions that asked the teacher."""

    model: str
    fingerprint: str


class TeacherAnswers(NamedTuple):
    """Answers of a teacher about T documents, saved with the fitted experts."""

    labels: list[str]  # the options, sorted
    documents: list[str]  # digest of the text of each document
    probabilities: np.ndarray  # float32 (T, C); 0 in the row of a document without an answer
    agreement: float  # with the experts that are fitted without the teacher, in standard errors above chance


def digest_of(text: str) -> str:
    """Identify the text of a document that a teacher answered about."""
    return short_digest(replace_lone_surrogates(text).encode(), size=16).hex()


class Teacher(Expert):
    """Linear probe fitted on a teacher's answers about documents; trusted as far as examples and experts confirm it."""

    name = "teacher"
    needs_single_label = True
    needs_teacher = True
    arrays = {"probe": Array(("labels", "vector and bias"), REGRESSION_WEIGHTS)}

    def prior(self, data: TrainingData) -> float:
        return TEACHER_PRIOR * data.reliability(data.teacher)

    def fit(self, data: TrainingData) -> dict[str, np.ndarray]:
        return {"probe": data.teacher.vectors}

    def score(self, learned: Mapping[str, np.ndarray], features: Features) -> np.ndarray:
        return probe_logits(learned["probe"], features.vectors)


def probe_logits(probe: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Logits ``(N, C)`` of vectors ``(N, D)`` by a probe ``(C, D + 1)``."""
    return vectors @ probe[:, :-1].T + probe[:, -1]


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
