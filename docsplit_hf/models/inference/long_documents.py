"""What becomes of texts longer than an encoder reads: the strategies, by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, get_args

from .cut_pieces import first_pieces, head_tail_pieces
from .passage_pieces import late_pieces, passage_pieces
from .pieces import Frame, Piece
from .salient_pieces import TokenFrequencies, count_tokens_of, salient_pieces

SingleVector = Literal["first", "head_tail", "salient", "average"]
SeveralVectors = Literal["passages", "late"]
SINGLE_VECTOR, SEVERAL_VECTORS = get_args(SingleVector), get_args(SeveralVectors)
ALONE = ("first", "head_tail", "average")  # one vector, which depends on no other text
ONE_PIECE = ("first", "head_tail", "salient")  # one forward per text
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
    frequencies: TokenFrequencies | None = None,
) -> Iterator[Piece]:
    """What is read of each text, in order; the arguments are those of ``DocumentEncoder.encode_passages``."""
    if strategy == "first":
        return first_pieces(texts, frame)
    if strategy == "head_tail":
        return head_tail_pieces(texts, frame)
    if strategy == "salient":
        return salient_pieces(texts, frame, frequencies or count_tokens_of(texts, frame))
    around = frame.max_length - frame.room
    length = passage_length or (min(LATE_PASSAGE, frame.max_length) if strategy == "late" else frame.max_length)
    if not around < length <= frame.max_length:
        raise ValueError(
            f"passage_length must be from {around + 1} to {frame.max_length} tokens, got {length}: special tokens are "
            "counted, and no passage is longer than what the encoder reads."
        )
    if strategy == "late":
        return late_pieces(texts, frame, length - around, overlap)
    return passage_pieces(texts, frame._replace(max_length=length), overlap)
