"""Plain pysbd as a competitor: it takes minutes on some texts, which are left out."""

import signal
from collections.abc import Iterable
from typing import Any, NoReturn

import pysbd

GIVE_UP_SECONDS = 5.0


class _GaveUpError(BaseException):
    """A BaseException, so that no ``except Exception`` in pysbd can swallow it."""


def plain_segmenter() -> pysbd.Segmenter:
    """English, with the places of the sentences in the text."""
    return pysbd.Segmenter(language="en", clean=False, char_span=True)


def is_segmented_in_time(segmenter: pysbd.Segmenter, texts: Iterable[str]) -> bool:
    """Whether pysbd splits all texts in time, without an error. docsplit_hf uses this timer too: never call it here."""

    def give_up(signal_number: int, frame: Any) -> NoReturn:
        raise _GaveUpError

    can_give_up = hasattr(signal, "setitimer")  # not on Windows
    previous = signal.signal(signal.SIGALRM, give_up) if can_give_up else None
    try:
        if can_give_up:
            signal.setitimer(signal.ITIMER_REAL, GIVE_UP_SECONDS)
        for text in texts:
            segmenter.segment(text)
    except (_GaveUpError, ValueError):  # pysbd takes a separator for a digit of a list
        return False
    finally:
        if can_give_up:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, previous)
    return True
