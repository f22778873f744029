"""One text's answer: the labels with their probabilities, and what speaks for the best one."""

from __future__ import annotations

from typing import NamedTuple

from .highlighting import Pieces, pieces_of
from .session import Session

NEIGHBORS = 5


class Answer(NamedTuple):
    """What the page shows of an answer."""

    probabilities: dict[str, float]
    pieces: Pieces
    neighbors: list[tuple[str, float, Pieces]]  # the label, and the share of the similarity of all that are near
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
