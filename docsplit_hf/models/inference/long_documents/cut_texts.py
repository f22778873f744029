"""What encoders do not read of texts that are too long, logged once, however many batches or calls that takes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np

logger = logging.getLogger(__name__)

# By the function that logs and its first arguments: the counts of all calls, and the first example.
_sums: ContextVar[dict[tuple, tuple[np.ndarray, str]] | None] = ContextVar("_sums", default=None)


def warn_of_cut_texts(
    lengths: Sequence[int],
    shares: np.ndarray,
    limit: int,
    unit: str = "tokens",
    advice: str = "",
    limit_unit: str | None = None,
    estimated: bool = False,
) -> None:
    """Log how many texts are not read to the end, and how much of all texts that is, if anything.

    ``shares``, ``(N,)``: how much of each text is read. ``limit``: in ``limit_unit`` (None: in ``unit``), what it has
    to fit into. ``estimated``: a long text is not tokenized to its end.
    """
    all_lengths = np.array(lengths, dtype=np.int64)
    unread = np.rint(all_lengths * (1 - shares)).astype(np.int64)
    counts = [np.count_nonzero(shares < 1), len(shares), unread.sum(), all_lengths.sum(), estimated]
    log_at_end(_log, (limit, limit_unit or unit, unit, advice), np.array(counts))


def shares_read(lengths: Sequence[int], read: int) -> np.ndarray:
    """Which share of each text is read, where no more than ``read`` of it is, float64 ``(N,)``."""
    return np.minimum(read / np.maximum(lengths, 1), 1)


@contextmanager
def cut_texts_summed_up() -> Iterator[None]:
    """Add up what is logged about texts meanwhile, and log it at the end, whatever ends it.

    Inside of another one, that one logs it.
    """
    if _sums.get() is not None:
        yield
        return
    sums: dict[tuple, tuple[np.ndarray, str]] = {}
    token = _sums.set(sums)
    try:
        yield
    finally:
        _sums.reset(token)
        for (log, *what), (counts, example) in sums.items():
            log(*what, counts, example)


@contextmanager
def unlogged() -> Iterator[None]:
    """Log nothing about texts that are read meanwhile: they are no user's."""
    token = _sums.set({})
    try:
        yield
    finally:
        _sums.reset(token)


def log_at_end(log: Callable[..., None], what: tuple, counts: np.ndarray, example: str = "") -> None:
    """Call ``log(*what, counts, example)`` now, or at the end of ``cut_texts_summed_up``.

    There the counts of equal ``log`` and ``what`` are added up, and the first example that is not blank is told.
    """
    sums = _sums.get()
    if sums is None:
        log(*what, counts, example)
    else:
        before, first = sums.get((log, *what), (0, ""))
        sums[log, *what] = (before + counts, first or example)


def _log(limit: int, limit_unit: str, unit: str, advice: str, counts: np.ndarray, _: str) -> None:
    long, texts, unread, total, estimated = counts.tolist()
    if not long:
        return
    about = "about " if estimated else ""
    logger.warning(
        "%d of %d texts are longer than %d %s: %s%.1f %% of all %s were cut off.%s",
        *(long, texts, limit, limit_unit, about, 100 * unread / max(total, 1), unit, f" {advice}".rstrip()),
    )
