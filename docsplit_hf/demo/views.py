"""What the page shows, as pure functions: figures, an answer and its reasons, the audit's findings, the map."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from .sessions import Session, counted, percentage
from .uploads import shortened

WORD = "word"

Pieces = list[tuple[str, str | None]]


def pieces_of(text: str, words: Iterable[str]) -> Pieces:
    """The text as pieces that join to it again; each is marked as a word, or None."""
    pieces = _pattern(words).split(text) if words else [text]
    return [(piece, WORD if number % 2 else None) for number, piece in enumerate(pieces) if piece]


def passage_of(text: str | None, words: Iterable[str], passage: Mapping[str, Any] | None) -> Pieces:
    """A passage of a text, or all of it, as pieces."""
    text = text or ""
    start, end = (0, len(text)) if passage is None else (passage["start"], passage["end"])
    pieces = pieces_of(text[start:end].strip(), words)
    return [*([("… ", None)] if start else []), *pieces, *([(" …", None)] if end < len(text) else [])]


def _pattern(words: Iterable[str]) -> re.Pattern[str]:
    """A pattern of the words: whole words, except in scripts without spaces."""
    from ..classification.ensemble.tfidf import words_of

    longest = sorted(words, key=len, reverse=True)
    with_spaces = [words_of(f"x{word}x") == [f"x{word}x"] for word in longest]
    found = [
        rf"(?<!\w){re.escape(word)}(?!\w)" if spaced else re.escape(word)
        for word, spaced in zip(longest, with_spaces, strict=True)
    ]
    return re.compile(f"({'|'.join(found)})", re.IGNORECASE)


def right_of(session: Session) -> str:
    """How many answers are right, with an interval, and beside it what word counts and the largest label reach."""
    settings = session.fitted.settings if session.fitted else {}
    accuracy = {row["expert"]: row["accuracy"] for row in settings.get("measured", ())}
    if not accuracy:
        return ""
    low, high = interval_of_accuracy(settings, accuracy["mixture"])
    words = percentage(accuracy["word counts"])
    largest = percentage(accuracy["largest class"])
    others = f"word counts {words}, always the largest label {largest}"
    return f"**{percentage(accuracy['mixture'])} right** ({low * 100:.0f}–{high:.0%}; {others})"


def briefly(right: str) -> str:
    """The same, with all but the share and its interval marked, for narrow screens to leave out."""
    interval, semicolon, others = right.removesuffix(")").partition("; ")
    return f'{interval}<span class="more">{semicolon}{others}</span>)' if semicolon else right


def interval_of_accuracy(settings: Mapping[str, Any], accuracy: float) -> tuple[float, float]:
    """Its 95 % interval: as fitted, for the proportions of all texts; or Wilson's, where nothing is said of it."""
    from scipy.stats import binomtest

    if settings.get("accuracy_interval"):
        low, high = settings["accuracy_interval"]
        return low, high
    right = round(accuracy * settings["texts"])
    interval = binomtest(right, settings["texts"]).proportion_ci(0.95, method="wilson")
    return interval.low, interval.high


def labels_table(session: Session) -> list[list[str]]:
    """Of each label: its held-out texts, how many were recognized, what others were taken for; the weakest first."""
    held, names = session.fitted.held_out, session.fitted.labels
    best, rows = held.probabilities.argmax(1), []
    for number, name in enumerate(names):
        own = best[held.labels[:, number]]
        others = np.bincount(own[own != number], minlength=len(names))
        taken = f"{names[others.argmax()]} ({others.max()})" if others.any() else ""
        right = np.mean(own == number) if len(own) else np.inf  # a label without held-out texts is the last
        rows.append((right, [name, f"{len(own):,}", percentage(right) if len(own) else "", taken]))
    return [shown for _, shown in sorted(rows, key=lambda row: row[0])]


ERRORS = np.arange(1, 51)  # percent


def answered_shares(session: Session) -> np.ndarray:
    """Which percentage of the texts gets an answer, for each of ``ERRORS``; what fewer errors allow, more do, too."""
    return np.maximum.accumulate([100 * session.fitted.share_answered(error / 100) for error in ERRORS])


def error_of(session: Session, percent: int) -> float | None:
    """The share of wrong answers, not more than allowed, at which most texts get an answer; None: it is not known."""
    if not right_of(session):
        return None
    return float(ERRORS[answered_shares(session)[:percent].argmax()] / 100)


def answered_at(session: Session, percent: int) -> str:
    """What comes of allowing so many wrong answers, as a sentence."""
    fitted = session.fitted
    error = error_of(session, percent)
    sure = fitted.held_out_confidence() >= fitted.answer_level(error)
    if sure.any():
        wrong, asked = np.count_nonzero(sure & ~fitted.held_out.right), counted(np.count_nonzero(sure), "held-out text")
        share = fitted.share_answered(error)
        rest = "" if sure.all() else ", the others are left to you"
        said = f"**{percentage(share)} of the texts get an answer**{rest}."
        return f"{said} Of {asked} answered then, {wrong:,} got a wrong label."
    possible = ERRORS[answered_shares(session) > 0]
    least = f"here {possible[0]}% is the least" if len(possible) else "here nothing can be promised"
    return f"**No text gets an answer**: so few errors cannot be promised yet, {least}. More labels allow fewer."


def limit_said(session: Session, percent: int) -> str:
    """What it means to leave out unsure answers: the limit, and how many texts get no answer then; empty if unknown."""
    if not right_of(session):
        return ""
    answered = float(answered_shares(session)[percent - 1] / 100)
    if answered == 0:
        return f"at most {percent}% wrong cannot be promised yet, so no text gets an answer"
    if answered == 1:
        return f"at most {percent}% wrong; every text gets an answer"
    return f"at most {percent}% wrong; {percentage(1 - answered)} of the texts get no answer"


NEIGHBORS, WORDS = 3, 3
SHOWN_LABELS = 3
SURENESS = ((0.95, "Very sure"), (0.8, "Sure"), (0.6, "Rather sure"), (0, "Not sure"))


class Answer(NamedTuple):
    """The parts of an answer that the page shows."""

    label: str  # the most probable one, also where it is not given
    is_given: bool
    probabilities: dict[str, float]
    said: str  # how sure it is
    words: Pieces  # that decided
    passage: Pieces  # that decided
    place: str  # where the passage is
    neighbors: list[tuple[str, Pieces]]  # the label with its share of the vote, and the passage that was nearest


def answer(session: Session, text: str, percent: int | None = None) -> Answer:
    """Classify a text, and say why; ``percent`` of wrong answers are allowed, or any number."""
    if not text.strip():
        raise ValueError("Write a text to classify first.")
    session.limits.check_texts([text])
    pipe, _, fitted = session.pipe, session.store, session.fitted
    is_measured = fitted is not None and len(fitted.held_out.ids) > 0
    error = error_of(session, percent) if percent else None
    options = {"reject": error} if error else {}
    best = pipe(text, return_neighbors=NEIGHBORS, explain=fitted is not None, return_novelty=is_measured, **options)[0]
    probabilities = {one["label"]: one["score"] for one in pipe(text, top_k=None)}
    label = next(iter(probabilities))
    is_given = best["label"] is not None
    is_novel = is_measured and best["novelty"] > fitted.most_novel()
    if "reason" in best:
        said = f"The text has {best['reason']}: no letters or digits, or only words that all labels have."
    else:
        said = _said(label, is_given, best["score"], is_novel, percent)
    explanation = best.get("explanation", {})
    words, passage = [one["word"] for one in explanation.get("words", ())][:WORDS], explanation.get("passage")
    is_part = passage is not None and passage["end"] - passage["start"] < len(text)
    neighbors = [
        (
            f"{one['label']} · {percentage(one['weight'])} of the vote",
            passage_of(one["text"], words, one.get("passage")),
        )
        for one in best["neighbors"]
    ]
    return Answer(
        label,
        is_given,
        probabilities,
        said,
        [piece for word in words for piece in ((word, WORD), ("  ", None))],
        passage_of(text, words, passage),
        f"The passage that decided, {passage['start'] / len(text):.0%} into the text" if is_part else "The text",
        neighbors,
    )


def _said(label: str, is_given: bool, score: float, is_novel: bool, percent: int | None) -> str:
    """How sure an answer is, or why there is none and what it would have been, as a sentence."""
    if is_given:
        said = next(f"{words}: {percentage(score)}" for least, words in SURENESS if score >= least)
        return f"{said}, but unlike all your texts: look at it yourself." if is_novel else f"{said}."
    unsure = f"That is not sure enough for at most {percent}% wrong answers."
    why = "The text is unlike all of yours." if is_novel else unsure
    return f"It would have been {label}: {percentage(score)}. {why}"


def answer_markup(found: Answer) -> str:
    """The answer as HTML, all of a visitor escaped: what it is, how sure, and the most probable labels."""
    rows = [
        f'<li><span class="name">{html.escape(label)}</span><span class="share">{percentage(share)}</span>'
        f'<span class="bar"><span style="width: {share:.1%}"></span></span></li>'
        for label, share in list(found.probabilities.items())[:SHOWN_LABELS]
    ]
    headline = html.escape(found.label) if found.is_given else "No answer"
    kind = "given" if found.is_given else "none"
    listed = f'<ul aria-label="The most probable labels">{"".join(rows)}</ul>'
    return f'<h2 class="{kind}">{headline}</h2><p>{html.escape(found.said)}</p>{listed}'


class Finding(NamedTuple):
    """A text whose label somebody should look at."""

    id: str
    kind: str
    label: str
    suggested: str
    why: str
    text: str


def audit_findings(session: Session) -> tuple[str, list[Finding]]:
    """A sentence, and what was found, less what a person said is right. Wrong labels come first."""
    audit = session.pipe.audit(show_progress=False)
    found = []
    for one in audit.label_issues:
        near = f"Of the most similar texts {one.near_suggested} are {one.suggested}, {one.near_given} {one.given}."
        found.append(Finding(one.id, f"rather {one.suggested}?", one.given, one.suggested, near, one.text))
    for group in audit.duplicates:
        kind = "copies." if group.exact else "almost copies."
        why = f"{counted(len(group.ids), 'text')}{', with different labels' if group.labels_differ else ''}."
        found.append(Finding(group.ids[-1], kind, " / ".join(dict.fromkeys(group.labels)), "", why, group.text))
    for one in audit.outliers:
        why = f"Its similarity to the nearest ones is {one.closeness:.2f}."
        found.append(Finding(one.id, "like no other.", one.label, "", why, one.text))
    found = [one for one in found if one.id not in session.kept]
    said = f"{audit.checked:,} of {counted(audit.examples, 'label')} checked, about {audit.wrong_labels:,.0f} of them "
    return f"{said}wrong. {counted(len(found), 'text') if found else 'No text'} to look at.", found


LISTED, AROUND = 100, 12  # texts of a list


def listed_texts(session: Session, wanted: str = "", near: str | None = None) -> tuple[str, list[list[str]], list[str]]:
    """A sentence, rows of label and text, and ids: texts that hold a word, have a label, or are near one on the map."""
    store, wanted = session.pipe.datastore, wanted.strip().casefold()
    names, documents = store.label_names, store.documents
    labels = [names[label] for label in store.labels] + [""] * len(documents or ())
    texts, ids = (getattr(store, name) + (getattr(documents, name) if documents else []) for name in ("texts", "ids"))
    found = [
        (row_id, label, text or "")
        for row_id, label, text in zip(ids, labels, texts, strict=True)
        if wanted == label.casefold() or wanted in (text or "").casefold()
    ]
    if near is not None:
        _, drawn, places = session.map
        distances = np.square(places - places[drawn.index(near)]).sum(1)
        nearest = {drawn[row]: rank for rank, row in enumerate(np.argsort(distances, kind="stable")[:AROUND])}
        found = sorted((row for row in found if row[0] in nearest), key=lambda row: nearest[row[0]])
        said = "The texts around the point: click one to open it."
    else:
        said = f"{counted(len(found), 'text')}{f', the first {LISTED} here' if len(found) > LISTED else ''}: click one."
    found = found[:LISTED]
    return said, [[label, shortened(text, 90)] for _, label, text in found], [row_id for row_id, *_ in found]


MOST_POINTS = 2_000  # more would be a cloud, and t-SNE takes long
FEWEST_FOR_TSNE = 10


def document_map(session: Session) -> tuple[str, dict[str, Any]]:
    """A sentence, and ``points``: x and y from 0 to 1, the number of a label in ``labels`` or -1, and the id."""
    store = session.pipe.datastore
    documents, labels = store.documents, session.labels
    numbers = {name: number for number, name in enumerate(labels)}
    of_points = [numbers[store.label_names[label]] for label in store.labels]
    ids, texts, keys = store.ids, store.texts, [store.keys]
    if documents is not None:
        of_points += [-1] * len(documents)
        ids, texts, keys = ids + documents.ids, texts + documents.texts, [*keys, documents.keys]
    keys = np.concatenate(keys).astype(np.float32)
    # Sorted by text, so that a text does not move when it gets a label.
    order = np.array(sorted(range(len(texts)), key=lambda row: (texts[row] or "", ids[row])))
    said = f"{counted(len(order), 'text')}."
    if len(order) > MOST_POINTS:
        order = np.sort(np.random.default_rng(0).choice(len(order), MOST_POINTS, replace=False))
        said = f"{MOST_POINTS:,} of {len(texts):,} texts, drawn at random."
    drawn, (before, _, places) = hash(tuple(texts[row] for row in order)), session.map
    if before != drawn:  # a label more or less moves no text
        places = _places(keys[order])
    session.map = drawn, [ids[row] for row in order], places
    points = [[*map(float, place), of_points[row], ids[row]] for place, row in zip(places.round(4), order, strict=True)]
    return said, {"points": points, "labels": labels}


def text_of(session: Session, row_id: str) -> tuple[str, str | None]:
    """The text of a point, and its label or None. Ids are looked up in the session's own texts alone."""
    store = session.pipe.datastore
    if row_id in (ids := store.ids):
        row = ids.index(row_id)
        return store.texts[row] or "", store.label_names[store.labels[row]]
    documents = store.documents
    if documents is None or row_id not in (ids := documents.ids):
        raise ValueError("This text is not there any more.")
    return documents.texts[ids.index(row_id)] or "", None


def _places(keys: np.ndarray) -> np.ndarray:
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE

    if len(keys) < 2:
        return np.full((len(keys), 2), 0.5)
    if len(keys) >= FEWEST_FOR_TSNE:
        places = TSNE(perplexity=min(30, (len(keys) - 1) / 3), init="pca", random_state=0).fit_transform(keys)
    else:
        places = PCA(2, random_state=0).fit_transform(keys)
    least = places.min(0)
    return (places - least) / np.maximum(np.ptp(places, axis=0), 1e-9)
