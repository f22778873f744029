"""Sentences of a document dealt into parts, and drawn from a part, as pure functions of a random generator."""

from __future__ import annotations

import numpy as np


def assign_sentences(sentences: int, parts: int, probability_spread: float, rng: np.random.Generator) -> np.ndarray:
    """Assign each sentence to a part at random, again until no part is empty.

    Args:
        sentences: Their number, at least as many as parts.
        parts: The number of parts, each as likely.
        probability_spread: Of two parts, how far the probability of the second may be from 0.5; it is drawn with each
            assignment.
        rng: The source of randomness.

    Returns:
        The part of each sentence, from 0, int64 of shape ``(sentences,)``.

    Example:

        >>> assign_sentences(4, 2, 0.0, np.random.default_rng(0))
        array([0, 1, 1, 1])
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

    The last one drawn is cut at its end, and what was drawn is put in the order of the document.

    Args:
        tokens: The document's token ids, shape ``(n,)``.
        sentence_lengths: Tokens per sentence, shape ``(s,)``, summing to ``n``.
        chosen: Which sentences, bool of shape ``(s,)``.
        max_tokens: The most tokens; 0: all of them.
        rng: The source of randomness.

    Returns:
        Token ids.

    Example:

        >>> tokens, lengths, chosen = np.array([1, 1, 2, 3, 3]), np.array([2, 1, 2]), np.array([True, False, True])
        >>> draw_sentences(tokens, lengths, chosen, 0, np.random.default_rng(0))
        array([1, 1, 3, 3])
        >>> draw_sentences(tokens, lengths, chosen, 3, np.random.default_rng(0))
        array([1, 1, 3])
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
