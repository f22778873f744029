"""Check texts and pairs of texts before they are embedded, and log how many are empty. No torch."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np

from ..reading.text_warnings import log_at_end
from ..reading.tokenization import check_texts

logger = logging.getLogger(__name__)


def checked_texts_and_pairs(
    texts: Sequence[str], text_pairs: Sequence[str | None] | None
) -> tuple[list[str], list[str | None]]:
    """N texts and their pairs as lists, checked; a pair of None is a single text."""
    check_texts(texts)
    pairs = [None] * len(texts) if text_pairs is None else list(text_pairs)
    check_texts([pair for pair in pairs if pair is not None], "Text pair")
    if len(pairs) != len(texts):
        raise ValueError(f"{len(texts)} texts and {len(pairs)} text pairs: give one pair for each text.")
    texts = list(texts)  # indexing a Series would look up its index
    empty = sum(not text.strip() for text in texts)
    log_at_end(_log_empty, (), np.array([empty, len(texts)]))
    return texts, pairs


def _log_empty(counts: np.ndarray, _: str) -> None:
    """Log how many texts are empty; ``counts``: empty texts, and all texts."""
    empty, texts = counts.tolist()
    if empty:
        logger.warning("%d of %d texts are empty: their embeddings carry no information.", empty, texts)
