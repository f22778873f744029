"""One piece per text, of as many tokens as fit: its beginning, or its beginning and its end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ....text.windows import WINDOW, beginning, certain_cuts, ending
from ..batching import tokenizer_batches
from .cut_texts import shares_read, warn_of_cut_texts
from .pieces import Frame, Piece, token_ids

HEAD_SHARE = 0.25  # Sun et al. 2019, "How to Fine-Tune BERT for Text Classification?": 128 + 382 of 510 tokens
ADVICE = "long_documents='average' reads them whole."


def first_pieces(texts: Sequence[str], frame: Frame) -> Iterator[Piece]:
    """The beginning of each text, and a warning at the end of how much was cut. Of a long text no more is tokenized."""
    yield from _cut_pieces(texts, frame, frame.room)


def head_tail_pieces(texts: Sequence[str], frame: Frame) -> Iterator[Piece]:
    """The same with the end of each text: a quarter of the tokens are its first ones, the others its last ones."""
    yield from _cut_pieces(texts, frame, max(round(HEAD_SHARE * frame.room), 1))


def _cut_pieces(texts: Sequence[str], frame: Frame, head: int) -> Iterator[Piece]:
    cuts = certain_cuts(frame.tokenizer) if any(len(text) > WINDOW for text in texts) else None
    instruction, tail = frame.instruction_length, frame.room - head
    starts = (beginning(frame.instructed(text), instruction + frame.room, frame.tokenizer, cuts) for text in texts)
    lengths: list[int] = []
    estimated = False
    for batch in tokenizer_batches(starts):
        for start, ids in zip(batch, token_ids(frame.tokenizer, batch), strict=True):
            number, text = len(lengths), texts[len(lengths)]
            is_whole = len(text) <= WINDOW or len(start) == len(frame.instructed(text))
            characters = len(start) if is_whole else len(frame.instructed(text))
            estimated = estimated or not is_whole
            lengths.append(round(len(ids) * characters / max(len(start), 1)) - instruction)
            kept = ids[: instruction + head]
            if tail and lengths[-1] > frame.room:
                rest = ids if is_whole else token_ids(frame.tokenizer, [ending(text, tail, frame.tokenizer, cuts)])[0]
                kept = kept + rest[-tail:]
            elif tail:
                kept = ids
            share = min(frame.room / lengths[-1], 1) if lengths[-1] else 1.0
            yield Piece(number, frame.framed(kept), 0, len(text), share=share)
    shares = shares_read(lengths, frame.room)
    warn_of_cut_texts(lengths, shares, frame.max_length, advice=ADVICE, estimated=estimated)
