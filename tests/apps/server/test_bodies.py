"""Bodies of requests are read within limits, and work for a client that has gone ends."""

import asyncio

import pytest
from starlette.requests import ClientDisconnect, Request

from docsplit_hf.apps.server.bodies import limited_body
from docsplit_hf.apps.server.errors import Refused
from docsplit_hf.apps.server.server import wait_while_connected
from docsplit_hf.apps.server.settings import ServerLimits

from ...event_loops import run_elsewhere

LIMITS = ServerLimits(body_seconds=0.2)
GONE = {"type": "http.disconnect"}


def request_of(*messages, length=None):
    """A request that sends these parts of its body, or messages, and then nothing more."""
    waiting = list(messages)

    async def receive():
        if not waiting:
            await asyncio.sleep(60)
        message = waiting.pop(0)
        if isinstance(message, bytes):
            more = any(isinstance(one, bytes) for one in waiting)
            return {"type": "http.request", "body": message, "more_body": more}
        return message

    headers = [] if length is None else [(b"content-length", length)]
    return Request({"type": "http", "method": "POST", "headers": headers}, receive)


@pytest.mark.parametrize("length", [None, b"6", b"0"])
def test_a_body_in_parts(length):
    request = request_of(b"abc", b"", b"def", length=length)
    assert run_elsewhere(limited_body(request, LIMITS, megabytes=1)) == b"abcdef"


@pytest.mark.parametrize(
    ("messages", "length", "code"),
    [
        ((b"x" * 600, b"x" * 500), None, "body_too_large"),
        ((), b"1001", "body_too_large"),
        ((), None, "too_slow"),
    ],
)
def test_a_large_or_slow_body_is_refused(messages, length, code):
    with pytest.raises(Refused) as refused:
        run_elsewhere(limited_body(request_of(*messages, length=length), LIMITS, megabytes=0.001))
    assert refused.value.code == code


def test_a_client_that_goes_ends_its_work():
    with pytest.raises(ClientDisconnect):
        run_elsewhere(limited_body(request_of(GONE), LIMITS, megabytes=1))

    async def leave():
        work = asyncio.ensure_future(asyncio.sleep(60))
        with pytest.raises(ClientDisconnect):
            await wait_while_connected(request_of(GONE), work)
        await asyncio.sleep(0)
        return work.cancelled()

    assert run_elsewhere(leave())
