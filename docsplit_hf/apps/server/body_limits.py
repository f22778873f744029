"""Bodies of requests, bounded in size and time."""

from __future__ import annotations

import asyncio

from starlette.requests import Request

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
