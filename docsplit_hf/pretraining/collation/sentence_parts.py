"""Sentences of a document dealt into parts, and drawn from a part, as pure functions of a random generator."""

from __future__ import annotations

import numpy as np


def assign_sentences(sentences: int, parts: int, probability_spread: float, rng: np.random.Generator) -> np.ndarray:
    """The part of each sentence, from 0, drawn again until no part is empty; int64 of shape ``(sentences,)``.

    There are at least as many sentences as parts, and all parts are as likely. Of two parts, the probability of the
    second is drawn with each assignment, up to ``probability_spread`` from 0.5.
    """
    while True:
        if parts == 2:
            shift = rng.uniform(-probability_spread, probability_spread) if probability_spread else 0.0
            part_of = (rng.random(sentences) < 0.5 + shift).astype(np.int64)
        else:
            part_of = rng.integers(parts, size=sentences)
        if np.bincount(part_of, minlength=parts).all():
            return part_of


def draw_sentences(
    tokens: np.ndarray, sentence_lengths: np.ndarray, chosen: np.ndarray, max_tokens: int, rng: np.random.Generator
) -> np.ndarray:
    """Some sentences of a document, or, if they are too long, random ones of them until ``max_tokens`` are reached.

    The last one drawn is cut at its end, and what was drawn is put in the order of the document. ``chosen``: which
    sentences, bool of shape ``(s,)``. ``max_tokens=0``: all of them.
    """
    if max_tokens == 0 or sentence_lengths[chosen].sum() <= max_tokens:
        return tokens[np.repeat(chosen, sentence_lengths)]
    order = rng.permutation(np.flatnonzero(chosen))
    lengths = sentence_lengths[order]
    kept = np.zeros_like(sentence_lengths)
    kept[order] = np.clip(max_tokens - (np.cumsum(lengths) - lengths), 0, lengths)
    starts = np.cumsum(sentence_lengths) - sentence_lengths
    places = np.arange(len(tokens)) - np.repeat(starts, sentence_lengths)  # of each token in its sentence
    return tokens[places < np.repeat(kept, sentence_lengths)]
