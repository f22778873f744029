"""Expert that imitates a teacher: a linear probe fitted on the answers of a decision model about documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypedDict

import numpy as np

from ...content_hash import short_digest
from ...reading.characters import replace_lone_surrogates
from .expert import Expert, Features, TrainingData
from .schema import REGRESSION_WEIGHTS, Array

TEACHER_PRIOR = 0.6  # weight of a reliable teacher, relative to the other experts
SETTING = "teacher"  # setting of the fitted state
ANSWERS = "teacher.answers"  # array of the fitted state


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
