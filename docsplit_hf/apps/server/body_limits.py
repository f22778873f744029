"""Bodies of requests, bounded in size and time, and clients that go before they are answered."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.requests import ClientDisconnect, Request

from .errors import BAD_REQUEST, TOO_LARGE, TOO_SLOW, Refused
from .settings import ServerLimits

MOST_DIGITS = 20  # of a length


async def limited_body(request: Request, limits: ServerLimits, megabytes: float) -> bytes:
    """The body of a request; one that is too large or too slow is refused.

    Raises:
        ClientDisconnect: If the client closes the connection.
    """
    most = int(megabytes * 10**6)
    length = request.headers.get("content-length", "0")
    if not length.isdecimal():
        raise Refused(BAD_REQUEST, "bad_length", "Content-Length is not a number.")
    too_large = f"The body is larger than {megabytes:g} MB: send fewer texts at a time."
    if int(length[:MOST_DIGITS]) > most:
        raise Refused(TOO_LARGE, "body_too_large", too_large)
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(limits.body_seconds):
            async for part in request.stream():
                size += len(part)
                if size > most:
                    raise Refused(TOO_LARGE, "body_too_large", too_large)
                parts.append(part)
    except TimeoutError:
        seconds = limits.body_seconds
        raise Refused(TOO_SLOW, "too_slow", f"The body did not arrive within {seconds:g} seconds.") from None
    return b"".join(parts)


async def wait_while_connected(request: Request, task: asyncio.Task[Any]) -> None:
    """Wait for a task after the whole body has arrived.

    Raises:
        ClientDisconnect: If the client closes the connection meanwhile; the task is cancelled.
    """
    leaving = asyncio.ensure_future(request.receive())
    try:
        await asyncio.wait({task, leaving}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        leaving.cancel()
    if not task.done():
        task.cancel()
        raise ClientDisconnect
