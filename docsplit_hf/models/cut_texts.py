"""What encoders do not read of texts that are too long, said once for each call, however many calls that takes."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np

logger = logging.getLogger(__name__)

_sums: ContextVar[dict[tuple[int, str, str], np.ndarray] | None] = ContextVar("_sums", default=None)


def warn_of_cut_texts(lengths: Sequence[int], read: int, limit: int, unit: str = "tokens", advice: str = "") -> None:
    """Log how many texts are too long, and how much of all texts that cuts off. Nothing is logged if none is.

    Args:
        lengths: The lengths of N texts.
        read: How much is read of each: the limit less what else has to fit into it.
        limit: The limit.
        unit: In what these numbers count.
        advice: What can be done about it.

    Example:

        >>> with cut_texts_summed_up():
        ...     warn_of_cut_texts([700, 100], read=510, limit=512)
        ...     warn_of_cut_texts([300], read=510, limit=512)  # logs that 1 of 3 texts is longer
    """
    lengths_read = np.array(lengths, dtype=np.int64)
    cut = np.maximum(lengths_read - read, 0)
    counts = np.array([np.count_nonzero(cut), len(cut), cut.sum(), lengths_read.sum()])
    sums = _sums.get()
    if sums is None:
        _log((limit, unit, advice), counts)
    else:
        sums[limit, unit, advice] = sums.get((limit, unit, advice), 0) + counts


@contextmanager
def cut_texts_summed_up() -> Iterator[None]:
    """Put what ``warn_of_cut_texts`` is told meanwhile together, and log it at the end, whatever ends it.

    Example:

        >>> with cut_texts_summed_up():
        ...     warn_of_cut_texts([100], read=510, limit=512)
    """
    sums: dict[tuple[int, str, str], np.ndarray] = {}
    token = _sums.set(sums)
    try:
        yield
    finally:
        _sums.reset(token)
        for what, counts in sums.items():
            _log(what, counts)


def _log(what: tuple[int, str, str], counts: np.ndarray) -> None:
    (limit, unit, advice), (long, texts, cut, total) = what, counts.tolist()
    if cut:
        logger.warning(
            "%d of %d texts are longer than %d %s: %.1f %% of all %s were cut off.%s",
            *(long, texts, limit, unit, 100 * cut / total, unit, f" {advice}" if advice else ""),
        )
