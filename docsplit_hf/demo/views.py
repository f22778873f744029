"""What the page shows, as pure functions: an answer and its reasons, the audit's findings, the map."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from .sessions import Session, counted

WORD, PASSAGE = "word", "passage"

Pieces = list[tuple[str, str | None]]


def pieces_of(text: str, words: Iterable[str], passage: Mapping[str, Any] | None = None) -> Pieces:
    """The text as pieces that join to it again; each is marked as word, passage or None."""
    start, end = (0, 0) if passage is None else (passage["start"], passage["end"])
    of_words = [found.span() for found in _pattern(words).finditer(text)] if words else []
    cuts = sorted({0, start, end, len(text), *(place for span in of_words for place in span)})
    inside = {span[0] for span in of_words}
    until, pieces = 0, []
    for first, last in zip(cuts, cuts[1:], strict=False):
        if first in inside:
            until = next(span[1] for span in of_words if span[0] == first)
        kind = WORD if first < until else PASSAGE if start <= first < end else None
        if pieces and pieces[-1][1] == kind and kind != WORD:
            pieces[-1] = (pieces[-1][0] + text[first:last], kind)
        else:
            pieces.append((text[first:last], kind))
    return pieces


def _pattern(words: Iterable[str]) -> re.Pattern[str]:
    """A pattern of the words: whole words, except in scripts without spaces."""
    from ..neighbors.experts.words import words_of

    longest = sorted(words, key=len, reverse=True)
    with_spaces = [words_of(f"x{word}x") == [f"x{word}x"] for word in longest]
    found = [
        rf"(?<!\w){re.escape(word)}(?!\w)" if spaced else re.escape(word)
        for word, spaced in zip(longest, with_spaces, strict=True)
    ]
    return re.compile("|".join(found), re.IGNORECASE)


NEIGHBORS = 5


class Answer(NamedTuple):
    """The parts of an answer that the page shows."""

    probabilities: dict[str, float]
    pieces: Pieces
    neighbors: list[tuple[str, float, Pieces]]  # the label, and its share of the vote
    shares: dict[str, float]  # what each expert adds to the log odds of the label against the next best one
    against: str | None


def answer(session: Session, text: str) -> Answer:
    """Classify a text, and say why."""
    if not text.strip():
        raise ValueError("Write a text to classify first.")
    session.limits.check_texts([text])
    pipe, _ = session.pipe, session.store
    best = pipe(text, return_neighbors=NEIGHBORS, explain=session.fitted)[0]
    ranked = pipe(text, top_k=None)
    explanation = best.get("explanation", {})
    words = [found["word"] for found in explanation.get("words", ())]
    neighbors = [
        (one["label"], one["weight"], pieces_of(one["text"] or "", words, one.get("passage")))
        for one in best["neighbors"]
    ]
    return Answer(
        {one["label"]: one["score"] for one in ranked},
        pieces_of(text, words, explanation.get("passage")),
        neighbors,
        explanation.get("experts", {}),
        explanation.get("against"),
    )


HEADER = ["Finding", "Label", "Suggested", "Why", "Text"]


def audit_table(session: Session) -> tuple[str, list[list[str]], list[str | None]]:
    """A sentence, a row for each finding, and for each the id of its text or None. Wrong labels come first."""
    _ = session.store
    audit = session.pipe.audit(show_progress=False)
    rows = [
        [
            "wrong label?",
            one.given,
            one.suggested,
            f"{one.given} has a probability of {one.probability:.0%}; of the nearest texts {one.near_suggested} are "
            f"{one.suggested}, {one.near_given} {one.given}",
            one.text,
        ]
        for one in audit.label_issues
    ]
    ids: list[str | None] = [one.id for one in audit.label_issues]
    for group in audit.duplicates:
        kind = "copies" if group.exact else "almost copies"
        labels = " / ".join(dict.fromkeys(group.labels))
        differ = ", with different labels" if group.labels_differ else ""
        rows.append([kind, labels, "", f"{counted(len(group.ids), 'text')}{differ}", group.text])
        ids.append(group.ids[-1])
    for one in audit.outliers:
        rows.append(["like no other", one.label, "", f"similarity {one.closeness:.2f}", one.text])
        ids.append(one.id)
    for pair in audit.confused_labels:
        why = f"texts mistaken for the other: {pair.first_as_second} and {pair.second_as_first}"
        rows.append(["hard to tell apart", f"{pair.first} / {pair.second}", "", why, ""])
        ids.append(None)
    checked = f"{audit.checked:,} of {counted(audit.examples, 'label')} checked"
    said = f"{checked}, about {audit.wrong_labels:,.0f} of them wrong. {counted(len(rows), 'finding')}."
    return said, rows, ids


MOST_POINTS = 2_000  # more would be a cloud, and t-SNE takes long
FEWEST_FOR_TSNE = 10


def document_map(session: Session) -> tuple[str, dict[str, Any]]:
    """A sentence, and ``points``: x and y from 0 to 1, the number of a label in ``labels`` or -1, and the id."""
    store = session.store
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
    places = _places(keys[order])
    points = [[*map(float, place), of_points[row], ids[row]] for place, row in zip(places.round(4), order, strict=True)]
    return said, {"points": points, "labels": labels}


def text_of(session: Session, row_id: str) -> tuple[str, str | None]:
    """The text of a point, and its label or None. Ids are looked up in the session's own texts alone."""
    store = session.store
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
