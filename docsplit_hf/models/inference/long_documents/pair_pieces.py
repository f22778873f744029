"""One piece for each pair of texts: as much as fits of both, where the longer one is cut first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ....text.lone_surrogates import replace_lone_surrogates
from ....text.windows import input_beginnings
from ..batching import tokenizer_batches
from .cut_pieces import first_pieces
from .cut_texts import warn_of_cut_texts
from .pieces import Frame, Piece

if TYPE_CHECKING:
    from tokenizers import Encoding


def pair_pieces(texts: Sequence[str], text_pairs: Sequence[str | None], frame: Frame) -> Iterator[Piece]:
    """The texts that have no pair first, each by its beginning; then the pairs, as the tokenizer cuts them."""
    alone = [i for i, pair in enumerate(text_pairs) if pair is None]
    for piece in first_pieces([texts[i] for i in alone], frame):
        yield piece._replace(text=alone[piece.text])
    paired = [i for i, pair in enumerate(text_pairs) if pair is not None]
    valid = ((replace_lone_surrogates(texts[i]), replace_lone_surrogates(text_pairs[i])) for i in paired)
    inputs = zip(paired, input_beginnings(valid, frame.max_length, frame.tokenizer), strict=True)
    lengths, shares = [], []
    for batch in tokenizer_batches(inputs, lambda given: sum(map(len, given[1]))):
        numbers, beginnings = zip(*batch, strict=True)
        options = {"truncation": True, "max_length": frame.max_length, "return_attention_mask": False}
        encoding = frame.tokenizer(*map(list, zip(*beginnings, strict=True)), **options)
        types = encoding.get("token_type_ids", [None] * len(numbers))
        for place, (number, ids, kinds) in enumerate(zip(numbers, encoding["input_ids"], types, strict=True)):
            lengths.append(len(texts[number]) + len(text_pairs[number]))
            if encoding.encodings:
                shares.append(_share_read(encoding.encodings[place], lengths[-1]))
            else:  # a tokenizer that is not fast does not say what it cuts off
                whole = len(frame.tokenizer(texts[number], text_pairs[number])["input_ids"])
                shares.append(min(frame.max_length / whole, 1.0))
            kinds = None if kinds is None else np.array(kinds, dtype=np.int32)
            row = np.array(ids, dtype=np.int32)
            yield Piece(number, row, 0, len(texts[number]), share=shares[-1], token_type_ids=kinds)
    warn_of_cut_texts(lengths, np.array(shares), frame.max_length, "characters", "", "tokens")


def _share_read(row: Encoding, whole: int) -> float:
    """Which share of the ``whole`` characters of a pair is in its tokens, below 1 if anything was cut off."""
    if not row.overflowing:
        return 1.0
    ends = [0, 0]
    for sequence, (_, end) in zip(row.sequence_ids, row.offsets, strict=True):
        if sequence is not None:
            ends[sequence] = max(ends[sequence], end)
    return min(sum(ends) / whole, float(np.nextafter(1, 0)))
