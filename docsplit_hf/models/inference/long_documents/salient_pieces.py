"""One piece per text: of a long one, those sentences that say most of what it is about, in their order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np

from .cut_pieces import ADVICE
from .cut_texts import shares_read, warn_of_cut_texts
from .pieces import Frame, Piece
from .tokenized_windows import TokenizedWindow, tokenized_windows

SHORT_SENTENCE = 10  # tokens; a heading of one rare word is no better than a sentence


def salient_pieces(texts: Sequence[str], frame: Frame) -> Iterator[Piece]:
    """Of each text the sentences of the largest mean TF-IDF that fit, the last of them cut; short texts as they are.

    The weight of a token is ``(1 + log tf) idf``, tf its count in the text. All texts are tokenized first, for the
    idf, and those of several windows twice more.
    """
    idf, lengths = _inverse_document_frequencies(texts, frame), []
    for number, windows in groupby(tokenized_windows(texts, frame), lambda window: window.text):
        tokens, first = np.zeros(len(idf), dtype=np.int64), None
        for window in windows:
            first = first or window
            tokens += np.bincount(window.ids, minlength=len(idf))
        lengths.append(int(tokens.sum()))
        if lengths[-1] > frame.room:
            weights = (1 + np.log(np.maximum(tokens, 1))) * idf
            again = [first] if first.is_last else tokenized_windows([texts[number]], frame)
            ids = _most_salient(again, weights, frame.room)
        else:
            ids = first.ids
        share = len(ids) / max(lengths[-1], 1) if len(ids) else 1.0
        yield Piece(number, frame.framed(np.concatenate([first.instruction, ids])), 0, len(texts[number]), share=share)
    warn_of_cut_texts(lengths, shares_read(lengths, frame.room), frame.max_length, advice=ADVICE)


def _inverse_document_frequencies(texts: Sequence[str], frame: Frame) -> np.ndarray:
    """``log((1 + N) / (1 + n)) + 1`` for a token that is in n of N texts, float64 ``(V,)``."""
    counts = np.zeros(max(frame.tokenizer.get_vocab().values()) + 1, dtype=np.int64)  # ids may have gaps
    for _, windows in groupby(tokenized_windows(texts, frame), lambda window: window.text):
        counts[np.unique(np.concatenate([np.unique(window.ids) for window in windows]))] += 1
    return np.log((1 + len(texts)) / (1 + counts)) + 1


def _most_salient(
    windows: Iterator[TokenizedWindow] | list[TokenizedWindow], weights: np.ndarray, room: int
) -> np.ndarray:
    """The tokens of the best sentences, int32 ``(room,)``, in their order."""
    kept: list[tuple[float, int, np.ndarray]] = []
    place = 0
    for window in windows:
        ends = np.cumsum(window.sentence_lengths)
        for start, end in zip([0, *ends[:-1]], ends, strict=True):
            ids = window.ids[start:end]
            score = weights[ids].sum() / max(len(ids), SHORT_SENTENCE)
            kept.append((-score, place, ids))
            place += 1
        kept = _best(kept, room)  # of a long text no more is held
    return np.concatenate([ids for _, _, ids in sorted(_best(kept, room, cut=True), key=lambda sentence: sentence[1])])


def _best(
    sentences: list[tuple[float, int, np.ndarray]], room: int, cut: bool = False
) -> list[tuple[float, int, np.ndarray]]:
    """The first sentences by score that fill the room."""
    best, left = [], room
    for score, place, ids in sorted(sentences, key=lambda sentence: sentence[:2]):
        if left <= 0:
            break
        best.append((score, place, ids[:left] if cut else ids))
        left -= len(ids)
    return best
