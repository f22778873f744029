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
    lengths: Sequence[int], read: int, limit: int, unit: str = "tokens", advice: str = "", estimated: bool = False
) -> None:
    """Log how many texts are longer than ``read``, and how much of all texts that cuts off, if anything.

    ``limit`` is what ``read`` and all else have to fit into. ``estimated``: a long text is not tokenized to its end.
    """
    all_lengths = np.array(lengths, dtype=np.int64)
    cut = np.maximum(all_lengths - read, 0)
    counts = np.array([np.count_nonzero(cut), len(cut), cut.sum(), all_lengths.sum(), estimated])
    log_at_end(_log, (limit, unit, advice), counts)


def warn_of_cut_number(cut: int, texts: int, limit: int) -> None:
    """The same where it is not known how much is cut off."""
    log_at_end(_log, (limit, "tokens", ""), np.array([cut, texts, 0, 0, 0]))


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


def _log(limit: int, unit: str, advice: str, counts: np.ndarray, _: str) -> None:
    long, texts, cut, total, estimated = counts.tolist()
    if not long:
        return
    what = " and were cut."
    if total:
        what = f": {'about ' if estimated else ''}{100 * cut / total:.1f} % of all {unit} were cut off."
    logger.warning("%d of %d texts are longer than %d %s%s%s", long, texts, limit, unit, what, f" {advice}".rstrip())
