"""Answers of a teacher, such as a decision model, about documents: those given to a fit, and those of earlier fits."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..arrays.snapshot import Snapshot
from ..fitting.ensemble.scoring import PreparedExperts, score_texts
from ..fitting.experts.corpus import texts_in
from ..fitting.experts.teacher_expert import (
    TEACHER_ANSWERS,
    TEACHER_SETTING,
    TeacherAnswers,
    agreement_above_chance,
    digest_of,
)

logger = logging.getLogger(__name__)


def check_teacher(teacher: Any, snapshot: Snapshot, has_head: bool) -> None:
    """Refuse a teacher where its answers could not be used."""
    if teacher is None or teacher is False:
        return
    if not isinstance(teacher, Mapping):
        raise TypeError(f"teacher must be {{id of a document: label, ...}}, False or None, got {teacher!r}.")
    if snapshot.multi_label:
        raise ValueError("A teacher chooses one label for each text, and here a text may have several: leave it out.")
    if has_head:
        raise ValueError("A teacher helps classifiers without a trained head: leave it out, or take an encoder.")
    if snapshot.documents is None or not any(snapshot.documents.rows["text"].to_pylist()):
        raise ValueError("A teacher answers about documents with texts, and there are none: add_documents(texts).")


def remembered_answers(snapshot: Snapshot, labels: Sequence[str]) -> TeacherAnswers | None:
    """Answers of a teacher in an earlier fit; None if there are none, or if they are about other labels."""
    fitted = snapshot.fitted
    saved = None if fitted is None else fitted.settings.get(TEACHER_SETTING)
    if saved is None:
        return None
    known = fitted.settings["labels"]
    if sorted(known) == sorted(labels):
        return TeacherAnswers(known, saved["documents"], fitted.arrays[TEACHER_ANSWERS], saved["agreement"])
    logger.warning(
        "The answers of the teacher are left out: the labels are others now. Give new ones: fit(teacher=...)."
    )
    return None


def answered_documents(snapshot: Snapshot, answers: TeacherAnswers) -> Snapshot:
    """The documents that the teacher answered about."""
    asked = set(answers.documents)
    rows = [row for row, text in enumerate(texts_in(snapshot.documents.rows)) if digest_of(text) in asked]
    return snapshot.documents.take(np.array(rows, np.int64))


def answers_of_teacher(given: Mapping[str, Any], ready: PreparedExperts) -> TeacherAnswers:
    """Answers about documents, with those of an earlier fit; ``ready``: experts that were fitted without the teacher.

    Raises:
        ValueError: If there is no such document, or an answer is neither a label nor probabilities.
    """
    snapshot = ready.snapshot
    labels = ready.ensemble.labels
    digests = [digest_of(text) for text in texts_in(snapshot.documents.rows)]
    digest_of_id = dict(zip(snapshot.documents.rows["id"].to_pylist(), digests, strict=True))
    before = remembered_answers(snapshot, labels)
    found = {} if before is None else dict(zip(before.documents, before.probabilities, strict=True))
    for document_id, answer in given.items():
        if document_id not in digest_of_id:
            raise ValueError(
                f"No document has the id {document_id!r}: give those that suggest or add_documents returned."
            )
        found[digest_of_id[document_id]] = _distribution(answer, labels, document_id)
    probabilities = np.array(list(found.values()), np.float32).reshape(len(found), len(labels))
    row_of = {digest: row for row, digest in enumerate(digests)}
    rows = np.array([row_of.get(digest, -1) for digest in found], np.int64)
    return TeacherAnswers(labels, list(found), probabilities, _agreement(probabilities, rows, ready))


def _distribution(answer: Any, labels: Sequence[str], document_id: str) -> np.ndarray:
    """The probability of each label, float32 ``(C,)``, by a label, or by probabilities that are made to sum to 1."""
    given = answer if isinstance(answer, Mapping) else {answer: 1.0}
    values = np.array([given.get(label, 0.0) for label in labels], np.float64)
    if given.keys() - set(labels) or values.min() < 0 or not 0 < values.sum() < np.inf:
        raise ValueError(
            f"The answer about {document_id!r} is {answer!r}: give one of {', '.join(labels)}, or the probabilities."
        )
    return (values / values.sum()).astype(np.float32)


def _agreement(probabilities: np.ndarray, rows: np.ndarray, ready: PreparedExperts) -> float:
    """Agreement of the teacher with experts that are fitted without it, in standard errors above chance.

    ``rows`` ``(T,)``: of the documents of the answers ``(T, C)``; -1 if a document was removed.
    """
    is_used = (rows >= 0) & probabilities.any(1)
    if not is_used.any():
        return 0.0
    documents = ready.snapshot.documents.take(rows[is_used])
    scored = score_texts(ready, documents.keys, texts_in(documents.rows), None, documents.passages, exclude_copies=True)
    return agreement_above_chance(probabilities[is_used], scored.probabilities[:, scored.columns])
