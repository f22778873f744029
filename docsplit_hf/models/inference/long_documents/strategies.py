"""What becomes of texts longer than an encoder reads: the strategies, by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from numbers import Integral
from typing import Literal, get_args

from .cut_pieces import first_pieces, head_tail_pieces
from .passage_pieces import late_pieces, passage_pieces
from .pieces import Frame, Piece

SingleVector = Literal["first", "head_tail", "average"]
SeveralVectors = Literal["passages", "late"]
SINGLE_VECTOR, SEVERAL_VECTORS = get_args(SingleVector), get_args(SeveralVectors)
ONE_PIECE = ("first", "head_tail")  # one forward per text
LATE_PASSAGE = 256  # tokens, where nothing else is asked for


def check_strategy(name: str, strategies: Sequence[str] = (*SINGLE_VECTOR, *SEVERAL_VECTORS)) -> str:
    """Return ``name`` if there is such a strategy."""
    if name in strategies:
        return name
    known = ", ".join(map(repr, strategies))
    if name in SEVERAL_VECTORS:
        known += f"; {name!r} gives a text several embeddings: encode_passages"
    raise ValueError(f"long_documents must be one of {known}, got {name!r}.")


def read_pieces(
    texts: Sequence[str],
    frame: Frame,
    strategy: str,
    passage_length: int | None = None,
    overlap: int = 0,
) -> Iterator[Piece]:
    """What is read of each text, in order; the arguments are those of ``DocumentEncoder.encode_passages``."""
    if strategy == "first":
        return first_pieces(texts, frame)
    if strategy == "head_tail":
        return head_tail_pieces(texts, frame)
    around, longest = frame.max_length - frame.room, frame.max_length
    if passage_length is None:
        passage_length = min(LATE_PASSAGE, longest) if strategy == "late" else longest
    for name, value, least, most in (
        ("passage_length", passage_length, around + 1, longest),
        ("overlap", overlap, 0, passage_length - around - 1),
    ):
        if not isinstance(value, Integral) or isinstance(value, bool) or not least <= value <= most:
            raise ValueError(
                f"{name} must be from {least} to {most} tokens, got {value!r}: a passage has {around} tokens around "
                f"its text, no more than the {longest} that the encoder reads, and more than it overlaps."
            )
    if strategy == "late":
        return late_pieces(texts, frame, passage_length - around, overlap)
    return passage_pieces(texts, frame._replace(max_length=passage_length), overlap)
