"""ReadingTime: how long it takes to embed texts, estimated from a timed sample, and what to read of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from ..reading.text_warnings import unlogged
from .classifier_embedder import ClassifierEmbedder

SAMPLED_TEXTS = 16
LONGEST_WAIT = 600  # seconds; texts that would take longer are not read whole unless the user asks for it


class ReadingTime(NamedTuple):
    """Estimated seconds to embed texts."""

    texts: int
    first: float  # reading their beginnings
    whole: float  # reading all of them

    @classmethod
    def measure(
        cls, embedder: ClassifierEmbedder, texts: Iterable[str], clock: Callable[[], float] = time.monotonic
    ) -> ReadingTime:
        """Embed the beginnings of some of the texts, and estimate the time of all.

        Args:
            embedder: The embedder.
            texts: The texts, at least one.
            clock: Returns the time in seconds.

        Returns:
            The estimate.
        """
        texts = list(texts)
        lengths = np.array([len(text) for text in texts])
        # Quantiles of the lengths: among a few texts taken at random there may be no long one.
        places = np.linspace(0, len(texts) - 1, min(SAMPLED_TEXTS, len(texts))).round().astype(int)
        sample = [texts[i] for i in np.argsort(lengths, kind="stable")[places]]
        beginnings = embedder.with_options(long_documents="first", max_passages=None, show_progress=False)
        with unlogged():
            beginnings.embed(sample[-1:])  # the first forward of a process takes longer
            start = clock()
            chunks = list(beginnings.chunks(sample))
            beginnings.embed_chunks_of(sample, chunks)
            seconds = clock() - start
        read = sum(len(chunk.input_ids) for chunk in chunks)
        characters = sum(chunk.end * chunk.read_fraction for chunk in chunks)
        tokens = lengths * read / max(characters, 1)
        return cls(
            texts=len(texts),
            first=float(tokens.clip(max=embedder.max_length).sum() * seconds / max(read, 1)),
            whole=float(tokens.sum() * seconds / max(read, 1)),
        )

    @property
    def choice(self) -> str:
        """What to read of the texts: all, unless that takes long."""
        return "whole" if self.whole <= LONGEST_WAIT else "first"

    def describe(self, long_documents: str, is_chosen: bool) -> str:
        """Say how long it takes to read the texts in a way.

        Args:
            long_documents: The way.
            is_chosen: Whether this estimate has chosen it.

        Returns:
            A sentence or two.
        """
        reads_beginnings = long_documents in ("first", "head_tail")
        seconds = self.first if reads_beginnings else self.whole
        described = f"Embedding {self.texts:,} texts takes about {describe_duration(seconds)} ({long_documents!r})."
        if is_chosen and reads_beginnings:
            described += (
                f" Reading them whole would take about {describe_duration(self.whole)}: --long_documents whole does so."
            )
        return described


def describe_duration(seconds: float) -> str:
    """Format seconds in seconds, minutes or hours."""
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} minutes"
    return f"{seconds / 3600:.1f} hours"
