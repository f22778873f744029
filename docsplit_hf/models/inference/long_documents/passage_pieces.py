"""All of each text in passages, one piece for each; or in longer pieces, of which each passage is pooled apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ....text.passages import passage_bounds
from .pieces import Frame, Piece
from .tokenized_windows import TokenizedWindow, tokenized_windows


def passage_pieces(texts: Sequence[str], frame: Frame, overlap: int = 0) -> Iterator[Piece]:
    """The passages of each text, one at least, as long as fit. Of a long text one window is held at a time."""
    return (piece for *_, piece in _passages(texts, frame, overlap))


def late_pieces(texts: Sequence[str], frame: Frame, part_length: int, overlap: int = 0) -> Iterator[Piece]:
    """The same with passages of ``part_length`` tokens as the ``parts`` of each.

    What the tokens of a part say depends on the whole piece (late chunking, Günther et al. 2024). A text that is one
    part has none.
    """
    for window, start, end, piece in _passages(texts, frame, 0):
        bounds = passage_bounds(window.sentences_between(start, end), part_length, overlap)
        if len(bounds) > 1 or not piece.is_only:
            places = [window.characters(start + first, start + last) for first, last in bounds]
            ahead = len(frame.prefix) + len(window.instruction)
            piece = piece._replace(weight=end - start, parts=np.column_stack([bounds + ahead, places]))
        yield piece


def _passages(texts: Sequence[str], frame: Frame, overlap: int) -> Iterator[tuple[TokenizedWindow, int, int, Piece]]:
    """Each passage with the window that it is in, and from and to which of its tokens it goes."""
    left: TokenizedWindow | None = None
    yielded = 0  # of this text
    for window in tokenized_windows(texts, frame):
        window = window.behind(left)
        bounds = passage_bounds(window.sentence_lengths, frame.room, overlap)
        # Where the text goes on, its last passage waits: it may get more tokens.
        for start, end in (bounds if window.is_last else bounds[:-1]).tolist():
            yielded += 1
            is_only = window.is_last and yielded == 1 and len(bounds) == 1
            ids = frame.framed(window.instruction + window.ids[start:end].tolist())
            characters = (0, len(texts[window.text])) if is_only else window.characters(start, end)
            weight = 0 if is_only else frame.around + end - start
            yield window, start, end, Piece(window.text, ids, *characters, weight)
        left, yielded = (None, 0) if window.is_last else (window.since(bounds[-1, 0]), yielded)
