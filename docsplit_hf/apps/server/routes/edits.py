"""``/v1/examples`` and ``/v1/fit``, for editors."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import Any

from fastapi import Depends, FastAPI, Request
from starlette.responses import JSONResponse, Response

from ..bodies import documented, parsed
from ..editing import change_examples, edit
from ..errors import Refused, unprocessable
from ..schemas import ExamplesRequest, FitRequest
from ..server import Server

logger = logging.getLogger(__name__)


def add_edits(app: FastAPI, server: Server) -> None:
    """Add the addresses for editors."""
    for_editors = [Depends(server.access.editor)]
    limits = server.settings.limits

    async def answer_edit(
        request: Request, model: str | None, kind: str, make: Callable[..., dict[str, Any]]
    ) -> Response:
        """Make an edit for the editor who sends a request."""
        who = await server.access.editor(request)
        classifier = server.classifier(model)
        loop = asyncio.get_running_loop()
        try:
            answer = await loop.run_in_executor(server.edit_thread, edit, classifier, make, who)
        except (ValueError, TypeError) as error:
            raise unprocessable(classifier.without_paths(str(error))) from error
        except OSError as error:  # such as a full disk
            logger.error("An edit of %s failed: %s", classifier.name, error)
            message = "The edit could not be saved, and the server's log says why: send it again."
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, "not_saved", message) from error
        server.metrics.edits.labels(classifier.name, kind).inc()
        return JSONResponse({"model": classifier.name, **answer})

    @app.post("/v1/examples", tags=["edits"], dependencies=for_editors, openapi_extra=documented(ExamplesRequest))
    async def examples(request: Request) -> Response:
        """Add, relabel and remove examples, all of it or nothing. A repeated request changes nothing."""
        body = await parsed(request, ExamplesRequest, server)
        if not (body.add or body.relabel or body.remove):
            raise unprocessable("Nothing is to be changed: give add, relabel or remove.", "add", "missing")
        if len(body.add) + len(body.relabel) + len(body.remove) > limits.texts:
            raise unprocessable(f"Too many changes at a time: send at most {limits.texts:,}.", "add", "too_many")
        server.check_texts([example.text for example in body.add], [example.text_pair for example in body.add])
        make = partial(change_examples, body=body, most_labels=limits.labels)
        return await answer_edit(request, body.model, "examples", make)

    @app.post("/v1/fit", tags=["edits"], dependencies=for_editors, openapi_extra=documented(FitRequest))
    async def fit(request: Request) -> Response:
        """Fit the experts on the present examples; until it is done, the old ones answer."""
        body = await parsed(request, FitRequest, server)

        def fit_pipeline(pipe: Any) -> dict[str, Any]:
            return {"report": str(pipe.fit(show_progress=False, class_proportions=body.class_proportions))}

        return await answer_edit(request, body.model, "fit", fit_pipeline)
