"""``/v1/examples`` and ``/v1/fit``, for editors."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from fastapi import Depends, FastAPI, Request
from starlette.responses import JSONResponse, Response

from ....content_hash import sha256_of_json
from ..bodies import parsed
from ..edit_log import EditContent, EditRequest, LoggedExample
from ..errors import BAD_REQUEST, UNAVAILABLE, Refused, unprocessable
from ..schemas import ExamplesRequest, FitRequest
from ..server import Server
from .documented import documented

logger = logging.getLogger(__name__)

LONGEST_KEY = 200  # characters of an Idempotency-Key


def add_edits(app: FastAPI, server: Server) -> None:
    """Add the addresses for editors."""
    for_editors = [Depends(server.access.editor)]

    async def edit(request: Request, body: Any, content: EditContent, class_proportions: Any = None) -> Response:
        """Make an edit for the editor who sends a request."""
        who = await server.access.editor(request)
        classifier = server.classifier(body.model)
        key = request.headers.get("idempotency-key")
        if key is not None and not 0 < len(key) <= LONGEST_KEY:
            raise Refused(BAD_REQUEST, "bad_key", f"Idempotency-Key must have 1 to {LONGEST_KEY} characters.")
        edit_request = EditRequest(who, key, sha256_of_json(body.model_dump(mode="json")))
        editor = server.editors[classifier.name]
        try:
            changing = editor.run(editor.change, content, class_proportions, edit_request)
            answer = await asyncio.wrap_future(changing)
        except (ValueError, TypeError) as error:
            raise unprocessable(classifier.without_paths(str(error))) from error
        except OSError as error:  # such as a full disk
            logger.error("An edit of %s failed: %s", classifier.name, error)
            message = "The edit could not be saved, and the server's log says why: send it again, with the same key."
            raise Refused(UNAVAILABLE, "not_saved", message) from error
        if "repeated" not in answer:
            server.metrics.edits.labels(classifier.name, content.kind).inc()
        return JSONResponse({"model": classifier.name, **answer})

    @app.post("/v1/examples", tags=["edits"], dependencies=for_editors, openapi_extra=documented(ExamplesRequest))
    async def examples(request: Request) -> Response:
        """Add, relabel and remove examples, all of it or nothing. With the header Idempotency-Key, a repeated request \
changes nothing and gets the same answer."""
        body = await parsed(request, ExamplesRequest, server)
        return await edit(request, body, _changes(body, server))

    @app.post("/v1/fit", tags=["edits"], dependencies=for_editors, openapi_extra=documented(FitRequest))
    async def fit(request: Request) -> Response:
        """Fit the experts on the present examples; until it is done, the old ones answer."""
        body = await parsed(request, FitRequest, server)
        return await edit(request, body, EditContent("fit"), body.class_proportions)


def _changes(body: ExamplesRequest, server: Server) -> EditContent:
    """The changes that a request asks for, within the limits."""
    limits = server.settings.limits
    if not (body.add or body.relabel or body.remove):
        raise unprocessable("Nothing is to be changed: give add, relabel or remove.", "add", "missing")
    if len(body.add) + len(body.relabel) + len(body.remove) > limits.texts:
        raise unprocessable(f"Too many changes at a time: send at most {limits.texts:,}.", "add", "too_many")
    server.check_texts([example.text for example in body.add], [example.text_pair for example in body.add])
    for label in [*(example.label for example in body.add), *body.relabel.values()]:
        _check_label(label, server)
    added = tuple(LoggedExample(**example.model_dump()) for example in body.add)
    return EditContent("examples", added, body.relabel, tuple(body.remove))


def _check_label(label: str | list[str], server: Server) -> None:
    """Refuse names of labels that are empty, too long, or of control characters."""
    limits = server.settings.limits
    names = [label] if isinstance(label, str) else label
    if len(names) > limits.labels:
        raise unprocessable(f"A text has {len(names):,} labels: at most {limits.labels:,}.", "add", "too_many_labels")
    for name in names:
        if not name.strip():
            raise unprocessable("The name of a label is empty.", "add", "empty")
        if len(name) > limits.label_characters:
            most = limits.label_characters
            raise unprocessable(f"A label has {len(name):,} characters: at most {most}.", "add", "label_too_long")
        if any(not character.isprintable() for character in name):
            raise unprocessable("The name of a label has a control character.", "add", "control_character")
