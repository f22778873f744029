"""half_texts: the two halves of each document as texts, for encoders that read texts."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np
from tqdm.auto import tqdm

from ..text.segmentation.sentences import get_segmenter
from .collation.views import docsplit

logger = logging.getLogger(__name__)


def half_texts(
    texts: Sequence[str], seed: int, language: str = "en", show_progress: bool = True
) -> tuple[list[str], list[str]]:
    """Assign the sentences of each text at random to two halves, as DocSplit does in pretraining.

    Texts of one sentence have no halves, and a repeated text could not be told from the first: both are left out.
    """
    segment = get_segmenter("pysbd", language)
    first, second = [], []
    places: dict[str, int] = {}
    for number, text in enumerate(texts):
        places.setdefault(text, number)
    for text, number in tqdm(places.items(), desc="Splitting", unit="text", disable=not show_progress):
        sentences = segment(text).sentences
        if len(sentences) < 2:
            continue
        rows, ones = np.arange(len(sentences)), np.ones(len(sentences), dtype=np.int64)
        one, other = docsplit(rows, ones, np.random.default_rng([seed, number]))
        first.append("".join(sentences[row] for row in one))
        second.append("".join(sentences[row] for row in other))
    left_out = f"{len(places) - len(first)} of one sentence, {len(texts) - len(places)} repeated"
    logger.info(f"Halves of {len(first)} of {len(texts)} documents. Left out: {left_out}.")
    if len(first) < 2:
        raise ValueError(
            f"{len(first)} of {len(texts)} documents have halves ({left_out}): two are needed at least. "
            "Give more, and longer ones."
        )
    return first, second
