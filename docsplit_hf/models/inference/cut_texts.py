"""What encoders do not read of texts that are too long, said once for each call, however many calls that takes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np

logger = logging.getLogger(__name__)

# By the function that logs, and what it is told: the counts of all calls, and the example of the first.
_sums: ContextVar[dict[tuple, tuple[np.ndarray, str]] | None] = ContextVar("_sums", default=None)


def warn_of_cut_texts(
    lengths: Sequence[int], read: int, limit: int, unit: str = "tokens", advice: str = "", estimated: bool = False
) -> None:
    """Log how many texts are too long, and how much of all texts that cuts off. Nothing is logged if none is.

    Args:
        lengths: The lengths of N texts.
        read: How much is read of each: the limit less what else has to fit into it.
        limit: The limit.
        unit: In what these numbers count.
        advice: What can be done about it.
        estimated: Whether some of the lengths are estimated, because such a text is not tokenized to its end.

    Example:

        >>> with cut_texts_summed_up():
        ...     warn_of_cut_texts([700, 100], read=510, limit=512)
        ...     warn_of_cut_texts([300], read=510, limit=512)  # logs that 1 of 3 texts is longer
    """
    lengths_read = np.array(lengths, dtype=np.int64)
    cut = np.maximum(lengths_read - read, 0)
    counts = np.array([np.count_nonzero(cut), len(cut), cut.sum(), lengths_read.sum(), estimated])
    log_at_end(_log, (limit, unit, advice), counts)


def warn_of_cut_number(cut: int, texts: int, limit: int) -> None:
    """The same where it is not known how much is cut off.

    Args:
        cut: How many texts are too long.
        texts: How many texts there are.
        limit: The limit in tokens.

    Example:

        >>> with cut_texts_summed_up():
        ...     warn_of_cut_number(0, 3, limit=512)
    """
    log_at_end(_log_number, (limit,), np.array([cut, texts]))


@contextmanager
def cut_texts_summed_up() -> Iterator[None]:
    """Put together what is said of texts meanwhile, and log it at the end, whatever ends it.

    Inside of another one, that one logs it.

    Example:

        >>> with cut_texts_summed_up():
        ...     warn_of_cut_texts([100], read=510, limit=512)
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
    """Log counts now, or inside of ``cut_texts_summed_up`` at its end, added up.

    Args:
        log: The function that logs. It is called with ``(*what, counts, example)``.
        what: What it is told; counts of the same are added up.
        counts: The counts.
        example: An example; the first that is not blank is told.
    """
    sums = _sums.get()
    if sums is None:
        log(*what, counts, example)
    else:
        before, first = sums.get((log, *what), (0, ""))
        sums[log, *what] = (before + counts, first or example)


def _log(limit: int, unit: str, advice: str, counts: np.ndarray, _: str) -> None:
    long, texts, cut, total, estimated = counts.tolist()
    if cut:
        logger.warning(
            "%d of %d texts are longer than %d %s: %s%.1f %% of all %s were cut off.%s",
            *(long, texts, limit, unit, "about " if estimated else "", 100 * cut / total, unit),
            f" {advice}" if advice else "",
        )


def _log_number(limit: int, counts: np.ndarray, _: str) -> None:
    cut, texts = counts.tolist()
    if cut:
        logger.warning("%d of %d texts are longer than %d tokens and were cut.", cut, texts, limit)
