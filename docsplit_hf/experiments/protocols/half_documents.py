"""Half-document retrieval: given one half of each document, find the other, with any system."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...pretraining.collation.views import docsplit
from ...text.segmentation.sentences import get_segmenter
from ..systems.features import check_features, is_sparse, normalize_rows

if TYPE_CHECKING:
    from ..systems.loading import Features

logger = logging.getLogger(__name__)


def half_texts(texts: Sequence[str], seed: int = 0, language: str = "en") -> tuple[list[str], list[str]]:
    """Assign the sentences of each text at random to two halves, as DocSplit does in pretraining.

    Texts of one sentence have no halves, and a text that was there before could not be told from the first: both are
    left out and counted in the log.

    Args:
        texts: Documents.
        seed: Decides, together with a document's place, to which half each sentence goes.
        language: The two-letter code of the language, for pysbd.

    Returns:
        The first and the second halves of the texts that are left, as texts.

    Raises:
        ValueError: If fewer than 2 documents are left.

    Example:

        >>> first, second = half_texts(["One. Two.", "Alone.", "Three. Four. Five."])
        >>> len(first), sorted(half.strip() for half in (first[0], second[0]))
        (2, ['One.', 'Two.'])
    """
    segment = get_segmenter("pysbd", language)
    first, second, seen = [], [], set()
    single = repeated = 0
    for number, text in enumerate(texts):
        if text in seen:
            repeated += 1
            continue
        seen.add(text)
        sentences = segment(text).sentences
        if len(sentences) < 2:
            single += 1
            continue
        rows, ones = np.arange(len(sentences)), np.ones(len(sentences), dtype=np.int64)
        for halves, half in zip(
            (first, second), docsplit(rows, ones, np.random.default_rng([seed, number])), strict=True
        ):
            halves.append("".join(sentences[row] for row in half))
    logger.info(
        f"Half-document retrieval: {len(first)} of {len(texts)} documents. Left out: {single} of one sentence, "
        f"{repeated} repeated."
    )
    if len(first) < 2:
        raise ValueError(
            f"{len(first)} of {len(texts)} documents have halves ({single} are of one sentence, {repeated} repeated): "
            "there is nothing to find one among. Give more, and longer ones."
        )
    return first, second


def half_retrieval_score(first: Features, second: Features) -> dict[str, float]:
    """Recall and mean reciprocal rank of the second half, given the first, by cosine similarity.

    Args:
        first: Features of the first halves, ``(N, D)``, dense or sparse.
        second: Features of the second halves, ``(N, D)``; row i belongs to row i of the first.

    Returns:
        ``recall@1``, ``recall@10`` and ``mrr``. Of equal similarities the right one is ranked last.

    Raises:
        ValueError: If the shapes differ, or a feature is NaN.

    Example:

        >>> half_retrieval_score(np.eye(3), np.eye(3)[[0, 2, 1]])["recall@1"]
        0.3333333432674408
    """
    import torch

    from ...pretraining.half_retrieval import ROWS_AT_ONCE, half_retrieval_metrics, rank_metrics, ranks_of_right

    first, second = check_features(first, "the first halves"), check_features(second, "the second halves")
    if first.shape != second.shape:
        raise ValueError(f"The halves are of shapes {first.shape} and {second.shape}: give two for each document.")
    if is_sparse(first):
        first, second = normalize_rows(first), normalize_rows(second)
        ranks = [
            ranks_of_right(torch.from_numpy((first[rows.numpy()] @ second.T).toarray()), rows)
            for rows in torch.arange(first.shape[0]).split(ROWS_AT_ONCE)
        ]
        metrics = rank_metrics(ranks)
    else:
        metrics = half_retrieval_metrics(torch.from_numpy(first), torch.from_numpy(second))
    return {name: metrics[name] for name in ("recall@1", "recall@10", "mrr")}
