"""Bodies of requests, bounded in size and time and checked, and the options of a call that they ask for."""

from __future__ import annotations

import asyncio
import json
from http import HTTPStatus
from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, from_json

from ...classifier.answering import CallOptions, checked_options
from ...fitting.rejection import RejectionLimits
from .errors import Refused, unprocessable
from .schemas import UNKNOWN_FIELD, AnswerOptions
from .server import Server
from .settings import ServerLimits

Body = TypeVar("Body", bound=BaseModel)
LONGEST_FIELD = 200  # characters of a field's name, or of a number, in messages


async def limited_body(request: Request, limits: ServerLimits, megabytes: float) -> bytes:
    """The body of a request; one that is too large or too slow is refused.

    Raises:
        ClientDisconnect: If the client closes the connection.
    """
    most = int(megabytes * 10**6)
    too_large = f"The body is larger than {megabytes:g} MB: send fewer texts at a time."
    if int(request.headers.get("content-length", "0")) > most:
        raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "body_too_large", too_large)
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(limits.body_seconds):
            async for part in request.stream():
                size += len(part)
                if size > most:
                    raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "body_too_large", too_large)
                parts.append(part)
    except TimeoutError:
        raise Refused(
            HTTPStatus.REQUEST_TIMEOUT, "too_slow", f"The body did not arrive within {limits.body_seconds:g} seconds."
        ) from None
    return b"".join(parts)


async def parsed(request: Request, model: type[Body], server: Server) -> Body:
    """The body of a request, checked; errors name the field, and show no content."""
    limits = server.settings.limits
    return parsed_json(await limited_body(request, limits, limits.megabytes), model)


def parsed_json(content: bytes, model: type[Body]) -> Body:
    """JSON, checked. pydantic's parser refuses JSON that is nested deeper than 200 levels."""
    try:
        return model.model_validate_json(content)
    except ValidationError as error:
        refusal = _refusal(error, content)
    raise refusal


def form_options(fields: dict[str, str]) -> AnswerOptions:
    """The options of answers in the fields of a form, checked: numbers, true and false, as in JSON."""
    typed: dict[str, Any] = {}
    for name, value in fields.items():
        try:
            typed[name] = json.loads(value[:LONGEST_FIELD])
        except ValueError:
            typed[name] = value
    return parsed_json(json.dumps(typed).encode(), AnswerOptions)


def documented(model: type[BaseModel]) -> dict[str, Any]:
    """The part of the OpenAPI page for a body that is read by ``parsed``: its JSON schema, without references."""
    schema = model.model_json_schema()
    parts = schema.pop("$defs", {})
    text = json.dumps(schema)
    while "$ref" in text:
        for name, part in parts.items():
            text = text.replace(json.dumps({"$ref": f"#/$defs/{name}"}), json.dumps(part))
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": json.loads(text)}}}}


def _refusal(error: ValidationError, content: bytes) -> Refused:
    """A sentence on the first error that says most: on an unknown field, or on the innermost field."""
    found = error.errors(include_url=False)
    if found[0]["type"] == "json_invalid":
        message = f"The body is not JSON that can be read: {found[0]['msg']}."
        return Refused(
            HTTPStatus.BAD_REQUEST if not content else HTTPStatus.UNPROCESSABLE_ENTITY, "json_invalid", message
        )
    body = from_json(content)
    places = [_place(one, body) for one in found]
    depths = [(one["type"] == UNKNOWN_FIELD, len(place)) for one, place in zip(found, places, strict=True)]
    most = depths.index(max(depths))
    told = found[most]
    kind = told["type"]
    field = ".".join(places[most])[:LONGEST_FIELD]
    if kind == UNKNOWN_FIELD:
        return unprocessable(f"{field}: {told['msg']}.", field, kind)
    if kind == "missing":
        return unprocessable(f"{field} is missing.", field, kind)
    given = f", not {told['input']!r}" if isinstance(told["input"], (bool, int, float)) else ""
    said = told["msg"].removeprefix("Input")
    between = "" if said != told["msg"] else ": "
    return unprocessable(f"{field or 'The body'}{between}{said}{given[:LONGEST_FIELD]}.", field or None, kind)


def _place(error: ErrorDetails, body: Any) -> list[str]:
    """The names that lead to the field of an error, without the types of unions that pydantic names among them."""
    place = []
    for part in error["loc"]:
        if isinstance(body, dict) and part in body:
            body = body[part]
        elif isinstance(body, list) and isinstance(part, int):
            body = body[part]
        else:
            continue
        place.append(str(part))
    if error["type"] == "missing":
        place.append(str(error["loc"][-1]))
    if error["type"] == UNKNOWN_FIELD:
        place.append(str(error["ctx"]["name"]))
    return place


def call_options_of(request: AnswerOptions, server: Server) -> CallOptions:
    """The options of a call that a request asks for; where it does not mention rejection, those of the server."""
    given = request.model_dump(include=set(AnswerOptions.model_fields), exclude_defaults=True)
    if "top_k" in request.model_fields_set:
        given["top_k"] = request.top_k  # null asks for all labels
    novelty = given.pop("novelty", None)
    each_label = given.pop("each_label", False)
    if server.settings.reject is not None and not given.keys() & {"reject", "top_k"}:
        given["reject"] = server.settings.reject
        novelty = server.settings.novelty if novelty is None else novelty
    if novelty is not None and "reject" not in given:
        raise unprocessable(f"novelty {novelty} is a second limit beside that of reject: send reject, too.", "novelty")
    if each_label and "reject" not in given:
        raise unprocessable("each_label keeps the error rate of reject for each label: send reject, too.", "each_label")
    try:
        if "reject" in given:
            given["reject"] = RejectionLimits(given["reject"], novelty, each_label)
        return checked_options(**given)
    except (ValueError, TypeError) as error:
        raise unprocessable(str(error)) from None
