"""Who may ask a server: bearer tokens, compared by their hashes, and the host names that it answers to."""

from __future__ import annotations

import ipaddress
import os
import re
from dataclasses import dataclass
from hashlib import sha256
from http import HTTPStatus
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from ..own_site_only import OwnSiteOnly
from .errors import Refused

TOKEN_VARIABLE = "DOCSPLIT_SERVE_TOKEN"
EDIT_TOKEN_VARIABLE = "DOCSPLIT_SERVE_EDIT_TOKEN"
SHORTEST_TOKEN = 16  # characters; shorter ones can be guessed
NAMED_TOKEN = re.compile(r"(?:(?P<name>[\w.@-]{1,64})=)?(?P<token>[\x21-\x7e]+)")


Tokens = dict[bytes, str]  # the name of the owner, for the log, by the SHA-256 of each token


def read_tokens(variable: str, path: str | Path | None, default_name: str) -> Tokens:
    """Read the token in an environment variable, and those in a file: a line each, ``TOKEN`` or ``NAME=TOKEN``.

    Raises:
        ValueError: If a token is shorter than 16 characters, or has spaces.
    """
    tokens: Tokens = {}
    value = os.environ.get(variable)
    if value:
        tokens |= _parsed(value.strip(), f"The environment variable {variable}", default_name)
    if path is not None:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(lines, start=1):
            if line.strip() and not line.startswith("#"):
                tokens |= _parsed(line.strip(), f"Line {number} of {path}", default_name)
        if not tokens:
            raise ValueError(f"{path} has no token: write one on a line, or NAME=TOKEN.")
    return tokens


def owner_of(given: str | None, tokens: Tokens) -> str | None:
    """The name of a token's owner; None if it is unknown. Hashes are looked up, whose timing says nothing."""
    return tokens.get(sha256((given or "").encode()).digest())


def _parsed(text: str, where: str, default_name: str) -> Tokens:
    match = NAMED_TOKEN.fullmatch(text)
    if match is None:
        raise ValueError(f"{where} is no token: write it without spaces, as TOKEN or NAME=TOKEN.")
    token = match["token"]
    if len(token) < SHORTEST_TOKEN:
        raise ValueError(f"{where} has a token of {len(token)} characters: take at least {SHORTEST_TOKEN}.")
    return {sha256(token.encode()).digest(): match["name"] or default_name}


@dataclass(frozen=True)
class Access:
    """The tokens of readers and of editors."""

    readers: Tokens
    editors: Tokens

    async def check_reader(self, request: Request) -> None:
        """Refuse a request without a token of a reader or an editor, if readers need one."""
        if not self.readers:
            return
        given = token_of(request)
        if owner_of(given, self.readers | self.editors) is None:
            raise _unknown_token(given)

    async def editor(self, request: Request) -> str:
        """The name of the editor who sends a request; others are refused."""
        if not self.editors:
            raise Refused(
                HTTPStatus.FORBIDDEN,
                "editing_is_off",
                f"This server does not take edits: start it with {EDIT_TOKEN_VARIABLE} or --edit_token_file.",
            )
        given = token_of(request)
        owner = owner_of(given, self.editors)
        if owner is not None:
            return owner
        if owner_of(given, self.readers) is not None:
            raise Refused(
                HTTPStatus.FORBIDDEN, "not_an_editor", "This token may read only: edits need the token of an editor."
            )
        raise _unknown_token(given)


def token_of(request: Request) -> str | None:
    """The token in ``Authorization: Bearer TOKEN`` or, as some clients send it, in ``X-API-Key``."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token:
        return token.strip()
    return request.headers.get("x-api-key")


def _unknown_token(given: str | None) -> Refused:
    if given is None:
        message = "This server needs a token: send it as Authorization: Bearer TOKEN."
        return Refused(HTTPStatus.UNAUTHORIZED, "missing_token", message)
    return Refused(HTTPStatus.UNAUTHORIZED, "wrong_token", "The token is wrong.")


def check_exposure(host: str, readers: Tokens, is_open: bool) -> None:
    """Raise ValueError for an address that other machines reach, without a token and without ``--open``."""
    if readers or is_open or host == "localhost":
        return
    try:
        is_loopback = ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        is_loopback = False
    if not is_loopback:
        raise ValueError(
            f"--host {host}: other machines could ask this server, and it has no token. Set {TOKEN_VARIABLE}, give "
            "--token_file, or pass --open to let everybody ask."
        )


class OwnHostOnly(OwnSiteOnly):
    """Middleware that refuses other host names and other sites, as the page does, with an error as JSON."""

    def answer(self, status: int, reason: str) -> Response:
        """The response to a refused request."""
        return Refused(status, "foreign_host", reason).response()
