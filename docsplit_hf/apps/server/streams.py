"""Streams of lines of JSON: texts are read and answered while more arrive."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from .errors import BAD_REQUEST, TOO_LARGE, TOO_SLOW, Refused
from .settings import ServerLimits


class DuplexResponse(StreamingResponse):
    """A response that is sent while the request still arrives.

    Starlette's own class reads the request meanwhile, to notice a client that has gone, and loses what it reads.
    """

    async def __call__(self, _: Scope, __: Receive, send: Send) -> None:
        """Send the response."""
        with contextlib.suppress(ClientDisconnect):
            await self.stream_response(send)


async def lines_of(request: Request, limits: ServerLimits) -> AsyncIterator[bytes]:
    """The lines of a request's body as they arrive, without empty ones; each is limited in size and waiting time."""
    parts = request.stream()
    rest = b""
    while True:
        try:
            async with asyncio.timeout(limits.body_seconds):
                part = await anext(parts, None)
        except TimeoutError:
            seconds = limits.body_seconds
            raise Refused(TOO_SLOW, "too_slow", f"No line arrived for {seconds:g} seconds.") from None
        if part is None:
            break
        *complete, rest = (rest + part).split(b"\n")
        for line in complete:
            if line.strip():
                yield line
        if len(rest) > limits.megabytes * 10**6:
            raise Refused(TOO_LARGE, "line_too_large", f"A line is larger than {limits.megabytes:g} MB.")
    if rest.strip():
        yield rest


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


def check_line(line: bytes, number: int) -> None:
    """Refuse a line that is not UTF-8."""
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        raise Refused(BAD_REQUEST, "not_utf8", f"Line {number} is not UTF-8.") from None
