"""Checks of the bodies of requests, and the options of a call that they ask for."""

from __future__ import annotations

from typing import TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError

from ..classification.call_options import CallOptions, checked_options
from .errors import BAD_REQUEST, UNPROCESSABLE, Refused, unprocessable
from .schemas import AnswerOptions
from .server import Server

Body = TypeVar("Body", bound=BaseModel)
ZERO_IS_OFF = ("return_neighbors", "return_documents")


async def parsed(request: Request, model: type[Body]) -> Body:
    """The body of a request, checked; errors name the field, and show no content."""
    return parsed_json(await request.body(), model)


def parsed_json(content: bytes, model: type[Body]) -> Body:
    """JSON, checked. pydantic's parser refuses JSON that is nested deeper than 200 levels."""
    try:
        return model.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        if first["type"] == "json_invalid":
            message = f"The body is not JSON that can be read: {first['msg']}."
            raise Refused(BAD_REQUEST if not content else UNPROCESSABLE, "json_invalid", message) from None
        place = f"{field[:200]}: " if field else ""
        raise unprocessable(f"{place}{first['msg']}.", field[:200] or None, first["type"]) from None


def options_of(request: AnswerOptions, server: Server) -> CallOptions:
    """The options of a call that a request asks for; where it does not mention rejection, those of the server."""
    given = request.model_dump(include=set(AnswerOptions.model_fields), exclude_none=True)
    for name in ZERO_IS_OFF:
        if given[name] == 0:
            del given[name]
    if "top_k" in given:
        given["top_k"] = given["top_k"] or None  # 0 asks for all labels
    answers = server.settings.answers
    if answers.reject is not None and not given.keys() & {"reject", "top_k"}:
        given["reject"] = answers.reject
        if answers.novelty is not None:
            given.setdefault("novelty", answers.novelty)
    try:
        return checked_options(**given)
    except (ValueError, TypeError) as error:
        raise unprocessable(str(error)) from None
