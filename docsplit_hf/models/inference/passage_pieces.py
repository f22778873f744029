"""All of each text in passages, one piece for each; or in longer pieces, of which each passage is pooled apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ...text.passages import passage_bounds
from .pieces import Frame, Piece
from .tokenized_windows import TokenizedWindow, tokenized_windows


def passage_pieces(texts: Sequence[str], frame: Frame, overlap: int = 0) -> Iterator[Piece]:
    """The passages of each text, one at least, as long as fit. Of a long text one window is held at a time."""
    for window, start, end, is_only in _passages(texts, frame, overlap):
        ids = window.instruction + window.ids[start:end].tolist()
        first, last = _characters(window, start, end, is_only, texts)
        yield Piece(window.text, frame.framed(ids), first, last, 0 if is_only else frame.around + end - start)


def late_pieces(texts: Sequence[str], frame: Frame, part_length: int, overlap: int = 0) -> Iterator[Piece]:
    """The same in pieces as long as fit, each with passages of ``part_length`` tokens as its ``parts``.

    What the tokens of a passage say depends on the whole piece (late chunking, Günther et al. 2024). A text that is one
    passage has no parts.
    """
    for window, start, end, is_only in _passages(texts, frame, 0):
        ids = window.instruction + window.ids[start:end].tolist()
        first, last = _characters(window, start, end, is_only, texts)
        lengths = window.sentences_between(start, end)
        bounds = passage_bounds(lengths, part_length, overlap)
        parts = None
        if len(bounds) > 1 or not is_only:
            places = [_characters(window, start + a, start + b, False, texts) for a, b in bounds]
            parts = np.column_stack([bounds + len(frame.prefix) + len(window.instruction), places])
        weight = 0 if parts is None else end - start
        yield Piece(window.text, frame.framed(ids), first, last, weight, parts=parts)


def _passages(texts: Sequence[str], frame: Frame, overlap: int) -> Iterator[tuple[TokenizedWindow, int, int, bool]]:
    """A window, from and to which of its tokens a passage goes, and whether it is all of the text."""
    left: TokenizedWindow | None = None
    yielded = 0  # of this text
    for window in tokenized_windows(texts, frame):
        window = window.behind(left)
        bounds = passage_bounds(window.sentence_lengths, frame.room, overlap)
        # Where the text goes on, its last passage waits: it may get more tokens.
        for start, end in (bounds if window.is_last else bounds[:-1]).tolist():
            yielded += 1
            yield window, start, end, window.is_last and yielded == 1 and len(bounds) == 1
        left, yielded = (None, 0) if window.is_last else (window.since(bounds[-1, 0]), yielded)


def _characters(window: TokenizedWindow, start: int, end: int, is_only: bool, texts: Sequence[str]) -> tuple[int, int]:
    if is_only or start == end:
        return 0, len(texts[window.text])
    return int(window.spans[start, 0]), int(window.spans[end - 1, 1])
