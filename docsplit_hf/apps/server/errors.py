"""Refused: an error that a client gets as JSON, in the forms that clients of each protocol read."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from starlette.responses import JSONResponse

# In the words of OpenAI's API, and of TypeSafe's.
TYPES = {
    HTTPStatus.UNAUTHORIZED: "authentication_error",
    HTTPStatus.FORBIDDEN: "permission_error",
    HTTPStatus.NOT_FOUND: "not_found_error",
    HTTPStatus.TOO_MANY_REQUESTS: "rate_limit_error",
    HTTPStatus.INTERNAL_SERVER_ERROR: "server_error",
    HTTPStatus.SERVICE_UNAVAILABLE: "server_error",
}
LONGEST_MESSAGE = 1_000  # characters


class Refused(Exception):  # noqa: N818  it is what the server does, and often no error of it
    """A request that is not answered.

    Args:
        status: The status of the response.
        code: A word for programs.
        message: A sentence for people.
        field: The field of the request that is to blame, such as "questions.team.criteria".
        retry_after: Seconds after which to try again.
    """

    def __init__(
        self, status: int, code: str, message: str, field: str | None = None, retry_after: int | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message if len(message) <= LONGEST_MESSAGE else f"{message[:LONGEST_MESSAGE]}..."
        self.field = field
        self.retry_after = retry_after

    def body(self) -> dict[str, Any]:
        """The body of the response: ``error`` for OpenAI's and vLLM's clients, ``detail`` for TypeSafe's."""
        kind = TYPES.get(self.status, "invalid_request_error")
        detail: Any = {"error_type": kind, "message": self.message}
        if self.status == HTTPStatus.UNPROCESSABLE_ENTITY:
            place = [] if self.field is None else self.field.split(".")
            detail = [{"loc": ["body", *place], "msg": self.message, "type": self.code}]
        error = {"message": self.message, "type": kind, "param": self.field, "code": self.code, "field": self.field}
        return {"error": error, "detail": detail}

    def response(self) -> JSONResponse:
        """The response."""
        headers = {"X-Content-Type-Options": "nosniff"}
        if self.retry_after is not None:
            headers["Retry-After"] = str(self.retry_after)
        if self.status == HTTPStatus.UNAUTHORIZED:
            headers["WWW-Authenticate"] = "Bearer"
        return JSONResponse(self.body(), self.status, headers)


def unprocessable(message: str, field: str | None = None, code: str = "value_error") -> Refused:
    """Refuse the content of a request."""
    return Refused(HTTPStatus.UNPROCESSABLE_ENTITY, code, message, field)
