"""Positive pairs: two views of one document, as pure functions of the document and a random generator."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

ViewFunction = Callable[[np.ndarray, np.ndarray, np.random.Generator], tuple[np.ndarray, np.ndarray]]
"""``(tokens, sentence_lengths, rng) -> (anchor, positive)``: what every way of making a positive pair looks like.

``tokens`` is the document without special tokens, integers of shape ``(n,)``; ``sentence_lengths`` the number of tokens
of each sentence, integers of shape ``(s,)`` that sum to ``n``; ``rng`` the only source of randomness. Both views are
token arrays, never empty.
"""


def docsplit(
    tokens: np.ndarray, sentence_lengths: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Assign each sentence at random to one of two halves (DocSplit, section 2.2; SimLTE, section 3.2).

    Every sentence goes to either half with probability 0.5, independently of the others, and keeps its place in the
    order of the document.

    The papers do not say what becomes of an empty half. Here the assignment is drawn again until neither half is empty,
    so that every split with two non-empty halves is equally likely. A document of one sentence has no halves: it is
    paired with itself, a pair that differs by dropout only, as in SimCSE. ``segment_documents`` lets such documents
    through only on request (``single_sentence="dropout_pair"``).

    Args:
        tokens: The document's token ids without special tokens, shape ``(n,)``.
        sentence_lengths: Tokens per sentence, shape ``(s,)``, each at least 1, summing to ``n``.
        rng: The source of randomness.

    Returns:
        The token ids of the two halves.

    Raises:
        ValueError: If the document is empty.

    Example:

        >>> import numpy as np
        >>> docsplit(np.array([1, 1, 2, 3, 3]), np.array([2, 1, 2]), np.random.default_rng(0))
        (array([1, 1]), array([2, 3, 3]))
    """
    sentences = len(sentence_lengths)
    if sentences == 0:
        raise ValueError("An empty document cannot be split: drop documents without sentences before making views.")
    if sentences == 1:
        return tokens, tokens
    in_second = rng.random(sentences) < 0.5
    while in_second.all() or not in_second.any():
        in_second = rng.random(sentences) < 0.5
    token_in_second = np.repeat(in_second, sentence_lengths)
    return tokens[~token_in_second], tokens[token_in_second]


VIEWS: dict[str, ViewFunction] = {"docsplit": docsplit}


def get_views(views: str | ViewFunction) -> ViewFunction:
    """Look a view function up by name; a callable is returned as it is.

    Args:
        views: A key of ``VIEWS``, or a function with the signature of ``ViewFunction``.

    Returns:
        The view function.

    Raises:
        ValueError: If there is no view of that name.

    Example:

        >>> get_views("docsplit") is docsplit
        True
    """
    if callable(views):
        return views
    if views not in VIEWS:
        raise ValueError(f"There are no views named {views!r}. Choose one of {sorted(VIEWS)}, or pass a function.")
    return VIEWS[views]
