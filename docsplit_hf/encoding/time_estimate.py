"""TimeEstimate: estimate how long the longest text will take, and log it if that is long."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .chunking import Chunk

logger = logging.getLogger(__name__)

MEASURED_SECONDS = 3  # how long the speed is measured before the estimate
LEAST_SECONDS = 30  # shorter estimates are not logged


class TimeEstimate:
    """Logs once how long the longest of some texts will take, at the speed of the first seconds.

    Args:
        texts: The texts that are embedded.
        max_passages: Most passages that are read of a text. None: all.
        clock: Returns the time in seconds.
    """

    def __init__(
        self,
        texts: Sequence[str],
        max_passages: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._characters = max((len(text) for text in texts), default=0)
        self._max_passages = max_passages
        self._clock = clock
        self._is_logged = False
        self._started: float | None = None
        self._tokens_read = 0
        self._tokens_per_character = 0.0
        self._longest_chunk = 1

    def begin(self, chunks: Sequence[Chunk]) -> None:
        """Prepare for a group of chunks: start the clock at the first one, and measure their tokens per character."""
        if self._started is None:
            self._started = self._clock()
        if all(chunk.is_only for chunk in chunks):
            return
        characters = sum(chunk.end - chunk.start for chunk in chunks)
        tokens = sum(len(chunk.input_ids) for chunk in chunks)
        self._tokens_per_character = tokens / max(characters, 1)
        self._longest_chunk = max(len(chunk.input_ids) for chunk in chunks)

    def add(self, tokens: int) -> None:
        """Count tokens that were read; once the speed is measured, log the estimate if it is long enough."""
        self._tokens_read += tokens
        if self._is_logged or self._started is None:
            return
        elapsed = self._clock() - self._started
        if elapsed < MEASURED_SECONDS:
            return
        expected = self._characters * self._tokens_per_character
        if self._max_passages is not None:
            expected = min(expected, self._max_passages * self._longest_chunk)
        seconds = expected * elapsed / self._tokens_read
        if seconds < LEAST_SECONDS:
            return
        self._is_logged = True
        logger.warning(
            "About %s tokens of the longest text are read, in %s passages: this takes about %s at the speed of the "
            "first ones. max_passages limits how many passages of a text are read.",
            _rounded(expected),
            _rounded(max(expected / self._longest_chunk, 1)),
            describe_duration(seconds),
        )


def _rounded(number: float) -> str:
    """Format a number with two significant digits."""
    return f"{float(f'{number:.2g}'):,.0f}"


def describe_duration(seconds: float) -> str:
    """Format seconds in seconds, minutes or hours."""
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} minutes"
    return f"{seconds / 3600:.1f} hours"
