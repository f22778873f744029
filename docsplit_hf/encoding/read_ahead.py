"""read_ahead: prepare the next item of an iterable in a thread while the current one is used."""

from __future__ import annotations

import contextvars
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def read_ahead(items: Iterable[T]) -> Iterator[T]:
    """Yield items in order; a thread makes the next one, and no more than that, while the caller uses the current one.

    The thread has the caller's context variables. An error in the thread is raised here, after the items before it.
    When the generator ends, is closed or raises, the thread has ended; it makes at most its current item until then.

    Args:
        items: The items. Their code must release the GIL for most of its time, as tokenizers and numpy do.

    Yields:
        Each item.
    """
    iterator = iter(items)
    end = object()
    context = contextvars.copy_context()
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="read_ahead") as thread:
        following = thread.submit(context.run, next, iterator, end)
        while (item := following.result()) is not end:
            following = thread.submit(context.run, next, iterator, end)
            yield item
