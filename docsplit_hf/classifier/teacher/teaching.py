"""Ask a teacher about the documents that would be labeled next, or use the answers of an earlier fit."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

import numpy as np

from ...arrays.row_table import DESCRIPTION_ID_PREFIX, take_passages
from ...arrays.snapshot import Snapshot
from ...fitting.ensemble.corpus import texts_in
from ...fitting.ensemble.scoring import PreparedExperts, score_texts, vectors_of_examples
from ...fitting.ensemble.teacher_expert import TeacherAnswers, agreement_above_chance, digest_of
from ..active_learning import MAX_CANDIDATES, choose_documents, margin_uncertainty
from .endpoint_teacher import EndpointTeacher, load_teacher
from .protocols import Option

logger = logging.getLogger(__name__)

TEACHER_TEXTS = 200
CHARACTERS_PER_TOKEN = 4  # of English; a rough estimate of the cost


def remembered_answers(snapshot: Snapshot, labels: Sequence[str]) -> TeacherAnswers | None:
    """Answers of a teacher in an earlier fit; None if there are none, or if they are about other labels."""
    if snapshot.fitted is None:
        return None
    answers = TeacherAnswers.from_state(snapshot.fitted.settings, snapshot.fitted.arrays)
    if answers is None or sorted(answers.labels) == sorted(labels):
        return answers
    logger.warning(
        "The answers of the teacher %r are left out: the labels are others now. To ask again, pass its address: "
        "fit(teacher=...).",
        answers.model,
    )
    return None


def answered_documents(snapshot: Snapshot, answers: TeacherAnswers) -> Snapshot:
    """The documents that the teacher was asked about."""
    asked = set(answers.documents)
    rows = [row for row, text in enumerate(texts_in(snapshot.documents.rows)) if digest_of(text) in asked]
    return snapshot.documents.take(np.array(rows, np.int64))


def ask_teacher(name: str, count: int, ready: PreparedExperts, show_progress: bool) -> TeacherAnswers:
    """Ask a teacher about documents, until there are ``count`` answers with those of an earlier fit.

    Args:
        name: The teacher's address, ``"http://HOST/v1#MODEL#option=value"``.
        count: The number of documents.
        ready: Experts that were fitted without the teacher: they choose the documents.
        show_progress: Whether to show a progress bar.
    """
    teacher = load_teacher(name)
    snapshot = ready.view.all()
    labels = ready.ensemble.labels
    options = label_options(snapshot, labels)
    fingerprint = teacher.fingerprint(options)
    known = TeacherAnswers(teacher.model, fingerprint, labels, [], np.zeros((0, len(labels)), np.float32), 0.0)
    before = remembered_answers(snapshot, labels)
    texts = texts_in(snapshot.documents.rows)
    digests = [digest_of(text) for text in texts]
    if before is not None and before.fingerprint == fingerprint:
        known = before
    answered = set(known.documents)
    remaining = count - len(answered & set(digests))
    if remaining > 0:
        rows = _rows_to_ask_about(ready, snapshot, texts, digests, answered, remaining)
        found = _ask(teacher, [texts[row] for row in rows], options, show_progress)
        known = known._replace(
            documents=[*known.documents, *(digests[row] for row in rows)],
            probabilities=np.concatenate([known.probabilities, found]),
        )
    return known._replace(agreement=_agreement(known, ready, snapshot, texts, digests))


def label_options(snapshot: Snapshot, labels: Sequence[str]) -> list[Option]:
    """The labels, with the descriptions that ``add_labels`` gave them."""
    ids = snapshot.rows["id"].to_pylist()
    texts = texts_in(snapshot.rows)
    description_of = {
        row_id.removeprefix(DESCRIPTION_ID_PREFIX): text
        for row_id, text in zip(ids, texts, strict=True)
        if row_id.startswith(DESCRIPTION_ID_PREFIX)
    }
    return [Option(label, description_of.get(label)) for label in labels]


def _rows_to_ask_about(
    ready: PreparedExperts,
    snapshot: Snapshot,
    texts: Sequence[str],
    digests: Sequence[str],
    answered: set[str],
    count: int,
) -> list[int]:
    """Choose rows of documents as ``suggest`` does: uncertain ones, from different clusters, each text once."""
    first_row = {digest: row for row, digest in reversed(list(enumerate(digests)))}
    rows = np.array([row for digest, row in first_row.items() if digest not in answered and texts[row].strip()], int)
    if len(rows) > MAX_CANDIDATES:
        rows = np.random.default_rng(len(rows)).choice(rows, max(MAX_CANDIDATES, count), replace=False)
    rows = np.sort(rows)
    if len(rows) <= count:
        return rows.tolist()
    joined = [texts[row] for row in rows]
    passages = take_passages(snapshot.documents.passages, rows)
    scored = score_texts(ready, snapshot.documents.keys[rows], joined, None, passages, exclude_copies=True)
    uncertainty = margin_uncertainty(scored.probabilities, multi_label=False)
    choices = choose_documents(scored.vectors, uncertainty, vectors_of_examples(ready), count, joined)
    return [int(rows[choice.row]) for choice in choices]


def _ask(teacher: EndpointTeacher, texts: Sequence[str], options: Sequence[Option], show_progress: bool) -> np.ndarray:
    """Answers to texts, float32 ``(N, C)``, 0 where there is none; what is sent, and where to, is logged."""
    question = sum(len(option.name) + len(option.description or "") for option in options)
    characters = sum(min(len(text), teacher.max_characters or len(text)) + question for text in texts)
    logger.warning(
        "Sending %d texts, about %s tokens, to %s: the teacher is %r, by %s. Its answers are kept with the classifier.",
        len(texts),
        f"{characters // CHARACTERS_PER_TOKEN:,}",
        teacher.host,
        teacher.model,
        teacher.path,
    )
    start = time.perf_counter()
    found = teacher.ask(texts, options, show_progress)
    is_answered = np.isfinite(found).all(1)
    logger.info("%d of %d texts were answered in %.1f s.", is_answered.sum(), len(texts), time.perf_counter() - start)
    return np.where(is_answered[:, None], found, np.float32(0))


def _agreement(
    answers: TeacherAnswers, ready: PreparedExperts, snapshot: Snapshot, texts: Sequence[str], digests: Sequence[str]
) -> float:
    """Agreement of the teacher with experts that are fitted without it, in standard errors above chance."""
    row_of = dict(zip(digests, range(len(digests)), strict=True))
    is_used = np.array([digest in row_of for digest in answers.documents], bool) & answers.probabilities.any(1)
    rows = np.array([row_of[answers.documents[place]] for place in np.flatnonzero(is_used)], int)
    if not len(rows):
        return 0.0
    passages = take_passages(snapshot.documents.passages, rows)
    joined = [texts[row] for row in rows]
    scored = score_texts(ready, snapshot.documents.keys[rows], joined, None, passages, exclude_copies=True)
    return agreement_above_chance(answers.probabilities[is_used], scored.probabilities[:, scored.columns])
