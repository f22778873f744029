"""LimitedBodies: middleware that bounds bodies in size and time, and ends work for clients that have gone."""

from __future__ import annotations

import asyncio
import contextlib

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .errors import BAD_REQUEST, TOO_LARGE, TOO_SLOW, Refused
from .settings import ServerLimits
from .uploads import UPLOADED

STREAMED = "application/x-ndjson"  # lines of JSON are limited one by one, in streams.py


class LimitedBodies:
    """ASGI middleware that reads a body before its request is handled, and refuses one that is too large or slow."""

    def __init__(self, app: ASGIApp, limits: ServerLimits, mixed_paths: tuple[str, ...] = ()) -> None:
        self.app = app
        self.limits = limits
        self.mixed_paths = mixed_paths  # those that take streams and files besides JSON

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on with its whole body, or refuse it."""
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD", "OPTIONS"):
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        kind = headers.get("content-type", "") if scope["path"] in self.mixed_paths else ""
        if kind.startswith(STREAMED):
            await self.app(scope, receive, send)
            return
        try:
            megabytes = self.limits.file_megabytes if kind.startswith(UPLOADED) else self.limits.megabytes
            body = await self._read(headers, receive, megabytes)
        except Refused as refused:
            await refused.response()(scope, receive, send)
            return
        if body is not None:  # otherwise the client has gone
            await self._answer(body, scope, receive, send)

    async def _answer(self, body: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request with its body, unless its client goes before the answer is complete."""
        is_read = False
        is_answered = False

        async def replay() -> Message:
            nonlocal is_read
            if is_read:
                return await receive()  # a disconnection
            is_read = True
            return {"type": "http.request", "body": body, "more_body": False}

        async def noting_send(message: Message) -> None:
            nonlocal is_answered
            is_answered = message["type"] == "http.response.body" and not message.get("more_body", False)
            await send(message)

        answering = asyncio.ensure_future(self.app(scope, replay, noting_send))
        leaving = asyncio.ensure_future(receive())  # after the body, the only message is a disconnection
        try:
            await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not is_answered:
                answering.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await answering
        finally:
            answering.cancel()
            leaving.cancel()

    async def _read(self, headers: Headers, receive: Receive, megabytes: float) -> bytes | None:
        """The body of a request; None if the client has closed the connection."""
        most = int(megabytes * 10**6)
        length = headers.get("content-length")
        if length is not None:
            if not length.isdecimal():
                raise Refused(BAD_REQUEST, "bad_length", "Content-Length is not a number.")
            if len(length) > 20 or int(length) > most:
                raise _too_large(megabytes)
        parts = []
        size = 0
        try:
            async with asyncio.timeout(self.limits.body_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    part = message.get("body", b"")
                    size += len(part)
                    if size > most:
                        raise _too_large(megabytes)
                    parts.append(part)
                    if not message.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError:
            seconds = self.limits.body_seconds
            raise Refused(TOO_SLOW, "too_slow", f"The body did not arrive within {seconds:g} seconds.") from None


def _too_large(megabytes: float) -> Refused:
    message = f"The body is larger than {megabytes:g} MB: send fewer texts at a time."
    return Refused(TOO_LARGE, "body_too_large", message)
