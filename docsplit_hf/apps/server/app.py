"""make_app: the HTTP interface of a server, as an ASGI application."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
import traceback
from collections.abc import AsyncIterator
from http import HTTPStatus

from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ... import __version__
from .access import OwnHostOnly
from .errors import TYPES, Refused
from .routes.classify import add_classify
from .routes.decisions import add_decisions
from .routes.edits import add_edits
from .routes.state import add_state_routes
from .served_folders import ServedFolder
from .server import Server

logger = logging.getLogger(__name__)

RELOAD_SECONDS = 1.0  # between checks whether a folder was replaced
CLIENT_HAS_GONE = 499  # as nginx counts it; no response was begun
DESCRIPTION = """Classifiers fitted on your own documents, behind an address.

`/v1/classify` gives everything that a call of the pipeline gives. `/v1/systemone` and `/v1/decisions` are protocols
that other programs speak. `/v1/examples` and `/v1/fit` need the token of an editor.
"""


def make_app(server: Server, host: str = "127.0.0.1", allowed_hosts: tuple[str, ...] = ()) -> FastAPI:
    """Make the application of a server.

    Args:
        server: Its parts.
        host: The address that it listens on, to which alone it answers.
        allowed_hosts: Other host names, such as a proxy's.

    Returns:
        The application; its start and end are those of the server.
    """

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        reloading = [asyncio.create_task(_reload_replaced(one)) for one in server.classifiers.values()]
        yield
        for task in reloading:
            task.cancel()
        await asyncio.to_thread(server.close)

    app = FastAPI(title="docsplit serve", version=__version__, description=DESCRIPTION, lifespan=lifespan)
    _add_errors(app)
    add_state_routes(app, server)
    add_classify(app, server)
    add_decisions(app, server)
    add_edits(app, server)
    # The last one that is added comes first.
    app.add_middleware(OwnHostOnly, server_host=host, allowed_hosts=allowed_hosts, command="docsplit serve")
    app.add_middleware(Counted, server=server)
    return app


async def _reload_replaced(classifier: ServedFolder) -> None:
    """Serve a folder that other programs replace, from then on."""
    while True:
        await asyncio.sleep(RELOAD_SECONDS)
        try:
            await asyncio.to_thread(classifier.reload_if_replaced)
        except Exception as error:  # of any type: the old state goes on answering
            message = classifier.without_paths(str(error))
            logger.warning("%s was replaced in its folder, and cannot be loaded: %s", classifier.name, message)


class Counted:
    """ASGI middleware that counts requests, and answers errors that nothing else answers."""

    def __init__(self, app: ASGIApp, server: Server) -> None:
        self.app = app
        self.server = server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and count it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun = time.perf_counter()
        status = CLIENT_HAS_GONE

        async def counting_send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, counting_send)
        except ClientDisconnect:
            pass  # nobody waits for a response
        except Exception as error:  # of any type: a sentence, instead of a closed connection
            refused = _internal_error(error)
            if status != CLIENT_HAS_GONE:  # the head of the response is sent already, so the connection must be closed
                raise RuntimeError("A response was broken off.") from None
            await refused.response()(scope, receive, counting_send)
        finally:
            path = getattr(scope.get("route"), "path", "other")
            self.server.metrics.requests.labels(path, status).inc()
            self.server.metrics.seconds.labels(path).observe(time.perf_counter() - begun)


def _internal_error(error: Exception) -> Refused:
    """Log where an error came from, but not its message, which may have texts; and make the answer."""
    frames = traceback.extract_tb(error.__traceback__)
    places = " <- ".join(f"{frame.name} ({frame.filename}:{frame.lineno})" for frame in reversed(frames[-6:]))
    logger.error("%s in %s", type(error).__name__, places)
    return Refused(
        HTTPStatus.INTERNAL_SERVER_ERROR,
        "internal_error",
        "The server failed to answer this request: its log says where.",
    )


def _add_errors(app: FastAPI) -> None:
    async def refused(_: Request, error: Exception) -> Response:
        return error.response()

    async def http_error(_: Request, error: Exception) -> Response:
        known = {404: "There is nothing at this address: /docs lists what there is.", 405: "This address takes others."}
        message = known.get(error.status_code, str(error.detail))
        return Refused(error.status_code, TYPES.get(error.status_code, "http_error"), message).response()

    app.add_exception_handler(Refused, refused)
    app.add_exception_handler(HTTPException, http_error)
