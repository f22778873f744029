"""The contents of the page, as functions of a session: figures, answers with reasons, audit findings, texts."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ...classifier.sorting.sorted_files import decisive_words, reason_of
from ...fitting.ensemble.report import LARGEST_CLASS, WORD_COUNTS
from ...fitting.prediction import NO_CONTENT
from ...reading.origins import describe_place
from .document_links import link_to
from .sessions import Finding, PlannedText, Session, counted, percentage

WORD = "word"  # the mark of a highlighted word
ERROR_PERCENTAGES = np.arange(1, 51)  # error rates that a visitor can allow
SHOWN_NEIGHBORS = 3
SHOWN_LABELS = 3
CONFIDENCE_WORDS = ((0.95, "Very sure"), (0.8, "Sure"), (0.6, "Rather sure"), (0, "Not sure"))
MAX_LISTED_TEXTS = 100

HighlightedText = list[tuple[str, str | None]]  # parts of a text, each with its mark or None


def highlight_words(text: str, words: Iterable[str]) -> HighlightedText:
    """Split a text into parts that join to it again, with the words marked."""
    parts = _pattern(words).split(text) if words else [text]
    return [(part, WORD if number % 2 else None) for number, part in enumerate(parts) if part]


def highlight_passage(text: str | None, words: Iterable[str], passage: Mapping[str, Any] | None) -> HighlightedText:
    """Highlight the words in one passage of a text, or in all of it if ``passage`` is None."""
    text = text or ""
    if passage is None:
        return highlight_words(text.strip(), words)
    parts = highlight_words(text[passage["start"] : passage["end"]].strip(), words)
    if passage["start"]:
        parts.insert(0, ("… ", None))
    if passage["end"] < len(text):
        parts.append((" …", None))
    return parts


def _pattern(words: Iterable[str]) -> re.Pattern[str]:
    """The pattern of the words: whole words, except in scripts without spaces."""
    from ...reading.characters import words_of

    longest = sorted(words, key=len, reverse=True)
    # True if the tokenizer treats the word as part of a longer one, that is, if its script separates words by spaces.
    with_spaces = [words_of(f"x{word}x") == [f"x{word}x"] for word in longest]
    found = [
        rf"(?<!\w){re.escape(word)}(?!\w)" if spaced else re.escape(word)
        for word, spaced in zip(longest, with_spaces, strict=True)
    ]
    return re.compile(f"({'|'.join(found)})", re.IGNORECASE)


def accuracy_text(session: Session) -> str:
    """The accuracy with its interval, compared with word counts and the largest label; empty before a fit."""
    if session.fitted is None or not session.fitted.report.measured:
        return ""
    report = session.fitted.report
    found = report.ensemble_accuracy()
    accuracy = {row["expert"]: row["accuracy"] for row in report.measured}
    words = percentage(accuracy[WORD_COUNTS])
    largest = percentage(accuracy[LARGEST_CLASS])
    others = f'<span class="more">; word counts {words}, always the largest label {largest}</span>'  # on wide screens
    return f"**{percentage(found.accuracy)} right** ({found.low * 100:.0f}–{found.high:.0%}{others})"


def labels_table(session: Session) -> list[list[str]]:
    """Rows of label, number of held-out texts, accuracy and most frequent wrong label, by rising accuracy."""
    held_out = session.fitted.guarantees.held_out
    names = session.fitted.ensemble.labels
    predicted = held_out.probabilities.argmax(1)
    rows = []
    for number, name in enumerate(names):
        own = predicted[held_out.labels[:, number]]
        others = np.bincount(own[own != number], minlength=len(names))
        taken_for = f"{names[others.argmax()]} ({others.max()})" if others.any() else ""
        accuracy = np.mean(own == number) if len(own) else np.inf  # a label without held-out texts comes last
        rows.append((accuracy, [name, f"{len(own):,}", percentage(accuracy) if len(own) else "", taken_for]))
    return [row for _, row in sorted(rows, key=lambda row: row[0])]


def answered_percentages(session: Session) -> np.ndarray:
    """The percentage of texts that get an answer at each of ``ERROR_PERCENTAGES``, never decreasing."""
    answered = [100 * session.fitted.guarantees.answered_fraction(percent / 100) for percent in ERROR_PERCENTAGES]
    return np.maximum.accumulate(answered)


def error_rate_of(session: Session, percent: int) -> float | None:
    """The error rate, up to ``percent``, at which the most texts get an answer; None before a fit."""
    if not accuracy_text(session):
        return None
    return float(ERROR_PERCENTAGES[answered_percentages(session)[:percent].argmax()] / 100)


def coverage_text(session: Session, percent: int) -> str:
    """Describe how many texts get an answer if ``percent`` of the answers may be wrong."""
    fitted = session.fitted
    error_rate = error_rate_of(session, percent)
    is_answered, is_right = fitted.guarantees.held_out_outcomes(error_rate)
    if is_answered.any():
        fraction = fitted.guarantees.answered_fraction(error_rate)
        rest = "" if is_answered.all() else ", the others are left to you"
        answered = np.count_nonzero(is_answered)
        count = f"{counted(answered, 'held-out text')} {'is' if answered == 1 else 'are'}"
        wrong = np.count_nonzero(is_answered & ~is_right)
        return (
            f"**{percentage(fraction)} of the texts get an answer**{rest}. "
            f"At this setting {count} answered, {wrong:,} of them wrongly."
        )
    possible = ERROR_PERCENTAGES[answered_percentages(session) > 0]
    reason = f"no error rate up to {ERROR_PERCENTAGES[-1]}% can be guaranteed yet"
    if len(possible):
        reason = f"this error rate cannot be guaranteed yet, the lowest rate here is {possible[0]}%"
    return f"**No text gets an answer**: {reason}. Label more texts to allow lower rates."


class ShownAnswer(NamedTuple):
    """An answer to a text, as the page shows it."""

    label: str  # the most probable one, even if the answer is left out
    is_given: bool  # False if the answer is left out as unsure
    probabilities: dict[str, float]  # by label, the highest first
    confidence: str  # a sentence
    words: HighlightedText  # the decisive words, then those against the label, with a minus sign
    passage: HighlightedText  # the decisive passage
    passage_caption: str
    neighbors: list[tuple[str, HighlightedText]]  # the label and its part of the vote, and the nearest passage


def answer(session: Session, text: str, percent: int | None = None) -> ShownAnswer:
    """Classify a text and explain the answer.

    ``percent``: the percentage of answers that may be wrong; unsure answers are left out. None: all are given.
    """
    if not text.strip():
        raise ValueError("Write a text to classify first.")
    session.limits.check_texts([text])
    session.check_labeled()
    fitted = session.fitted
    is_measured = fitted is not None and len(fitted.held_out.ids) > 0
    error_rate = error_rate_of(session, percent) if percent else None
    best = session.pipe(
        text,
        return_neighbors=SHOWN_NEIGHBORS,
        explain=fitted is not None,
        return_novelty=is_measured,
        reject=error_rate,
    )[0]
    probabilities = {one["label"]: one["score"] for one in session.pipe(text, top_k=None)}
    is_given = best["label"] is not None
    label = best["label"] if is_given else next(iter(probabilities))
    is_novel = is_measured and best["novelty"] > fitted.guarantees.novelty_limit()
    if "reason" in best:
        confidence = f"The text has {best['reason']}: no letters or digits, or only words that all labels have."
    else:
        confidence = _confidence_text(label, is_given, best["score"], is_novel, percent)
        if label not in probabilities:  # a parent in a tree of labels
            most_probable, probability = next(iter(probabilities.items()))
            confidence += f" Not sure which one: perhaps {most_probable}, {percentage(probability)}."
    explanation = best.get("explanation", {})
    words = decisive_words(best)
    if "summary" in explanation:
        confidence += f" {explanation['summary']}"
    passage = explanation.get("passage")
    is_part = passage is not None and passage["end"] - passage["start"] < len(text)
    return ShownAnswer(
        label=label,
        is_given=is_given,
        probabilities=probabilities,
        confidence=confidence,
        words=[
            part
            for sign, of_side in (("", words), ("−", decisive_words(best, "words_against")))
            for word in of_side
            for part in ((f"{sign}{word}", WORD), ("  ", None))
        ],
        passage=highlight_passage(text, words, passage),
        passage_caption=(
            f"The passage that decided, {passage['start'] / len(text):.0%} into the text" if is_part else "The text"
        ),
        neighbors=[
            (
                f"{one['label']} · {percentage(one['weight'])} of the vote{_file_of(one)}",
                highlight_passage(one["text"], words, one.get("passage")),
            )
            for one in best["neighbors"]
        ],
    )


def answered(session: Session, planned: Sequence[PlannedText], error_rate: float | None) -> list[PlannedText]:
    """Classify texts or documents, with the words and the passage that decided; an empty text gets no label.

    ``error_rate``: the fraction of the answers that may be wrong; unsure texts get no label. None: all texts get one.
    """
    session.check_labeled()
    texts = [one.given for one in planned if one.given["text"].strip()]
    answers = iter(session.pipe(texts, show_progress=True, explain=session.fitted is not None, reject=error_rate))
    nothing = {"label": None, "score": 0.0, "reason": NO_CONTENT}
    found = []
    for one in planned:
        answer = next(answers) if one.given["text"].strip() else nothing
        explanation = answer.get("explanation", {})
        first_page = answer.get("page") or next(iter(answer.get("pages", ())), None)
        found.append(
            replace(
                one,
                label=answer["label"],
                score=answer["score"],
                page=describe_place(answer),
                first_page=first_page,
                reason=reason_of(answer) or "",
                passage=highlight_passage(one.given["text"], decisive_words(answer), explanation.get("passage")),
                link=None if one.file is None else link_to(one.file, first_page),
            )
        )
    return found


def _file_of(neighbor: Mapping[str, Any]) -> str:
    """The file of a neighbor, with the page of its passage; empty if it comes from no file."""
    if "file" not in neighbor:
        return ""
    page = describe_place(neighbor.get("passage", {}))
    return f" · {neighbor['file']}{f', {page}' if page else ''}"


def _confidence_text(label: str, is_given: bool, score: float, is_novel: bool, percent: int | None) -> str:
    """Describe how sure an answer is, or why it is left out and what it would have been."""
    if is_given:
        sureness = next(words for lowest, words in CONFIDENCE_WORDS if score >= lowest)
        warning = ", but unlike all your texts: look at it yourself" if is_novel else ""
        return f"{sureness}: {percentage(score)}{warning}."
    if is_novel:
        reason = "The text is unlike all of yours."
    else:
        reason = f"That is not sure enough for at most {percent}% wrong answers."
    return f"It would have been {label}: {percentage(score)}. {reason}"


def answer_markup(found: ShownAnswer) -> str:
    """The HTML of an answer: label, confidence and the most probable labels. Texts from visitors are escaped."""
    rows = [
        f'<li><span class="name">{html.escape(label)}</span><span class="share">{percentage(probability)}</span>'
        f'<span class="bar"><span style="width: {probability:.1%}"></span></span></li>'
        for label, probability in list(found.probabilities.items())[:SHOWN_LABELS]
    ]
    headline = html.escape(found.label) if found.is_given else "No answer"
    kind = "given" if found.is_given else "none"
    listed = f'<ul aria-label="The most probable labels">{"".join(rows)}</ul>'
    return f'<h2 class="{kind}">{headline}</h2><p>{html.escape(found.confidence)}</p>{listed}'


def audit_findings(session: Session) -> tuple[str, list[Finding]]:
    """Audit the labels of a session: a summary, and the findings that the visitor has not confirmed."""
    audit = session.pipe.audit(show_progress=False)
    found = [
        Finding(
            id=issue.id,
            kind=f"maybe {issue.suggested}?",
            label=issue.given,
            suggested=issue.suggested,
            why=f"Labels of the most similar texts: {issue.near_suggested} {issue.suggested}, {issue.near_given} "
            f"{issue.given}.",
            text=issue.text,
        )
        for issue in audit.label_issues
    ]
    found += [
        Finding(
            id=group.ids[-1],
            kind="copies." if group.exact else "almost copies.",
            label=" / ".join(dict.fromkeys(group.labels)),
            suggested="",
            why=f"{counted(len(group.ids), 'text')}{', with different labels' if group.labels_differ else ''}.",
            text=group.text,
        )
        for group in audit.duplicates
    ]
    found += [
        Finding(
            id=outlier.id,
            kind="like no other.",
            label=outlier.label,
            suggested="",
            why=f"Its similarity to the nearest ones is {outlier.closeness:.2f}.",
            text=outlier.text,
        )
        for outlier in audit.outliers
    ]
    found = [finding for finding in found if finding.id not in session.kept]
    summary = (
        f"{audit.checked:,} of {counted(audit.examples, 'label')} checked, about {audit.wrong_labels:,.0f} of them "
        f"wrong. {counted(len(found), 'text') if found else 'No text'} to look at."
    )
    return summary, found


class TextRow(NamedTuple):
    """A text of a session, with its label or None."""

    id: str
    label: str | None
    text: str
    file: str | None  # that the text comes from


def rows_of_session(session: Session) -> list[TextRow]:
    """The texts of a session, those with labels first."""
    store = session.pipe.datastore
    rows = [
        TextRow(row_id, store.label_names[label], text or "", origin and origin.file)
        for row_id, label, text, origin in zip(store.ids, store.labels, store.texts, store.origins, strict=True)
    ]
    documents = store.documents
    if documents is not None:
        rows += [
            TextRow(row_id, None, text or "", origin and origin.file)
            for row_id, text, origin in zip(documents.ids, documents.texts, documents.origins, strict=True)
        ]
    return rows


def listed_texts(session: Session, wanted: str = "") -> tuple[str, list[TextRow]]:
    """A caption, and the texts with ``wanted`` in them or as label."""
    wanted = wanted.strip().casefold()
    found = [
        row
        for row in rows_of_session(session)
        if wanted == (row.label or "").casefold() or wanted in text_with_file(row).casefold()
    ]
    first = f", the first {MAX_LISTED_TEXTS} here" if len(found) > MAX_LISTED_TEXTS else ""
    return f"{counted(len(found), 'text')}{first}: click one.", found[:MAX_LISTED_TEXTS]


def text_with_file(row: TextRow) -> str:
    """The text of a row, after the file that it comes from."""
    return row.text if row.file is None else f"{row.file}: {row.text}"


def find_row(session: Session, row_id: str) -> TextRow:
    """Find a text of the session by its id."""
    found = next((row for row in rows_of_session(session) if row.id == row_id), None)
    if found is None:
        raise ValueError("This text is not there any more.")
    return found
