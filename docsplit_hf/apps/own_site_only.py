"""OwnSiteOnly: middleware that refuses requests to other host names and requests from other sites."""

from __future__ import annotations

import ipaddress
import logging
import socket
from collections.abc import Iterable
from http import HTTPStatus
from typing import NamedTuple
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

logger = logging.getLogger(__name__)

ANY_HOST = "*"
EVERY_ADDRESS = ("0.0.0.0", "::", "[::]")  # hosts with which the server listens on all addresses of its machine
SHOWN_CHARACTERS = 100  # characters of a header that a refusal shows


class HostAndPort(NamedTuple):
    """Host in lower case without brackets, and its port if one is given."""

    host: str
    port: int | None


class OwnSiteOnly:
    """ASGI middleware that refuses requests to other host names and requests from other sites.

    An attacker's site can make its own name point to this machine (DNS rebinding): the request then has that name in
    ``Host``. Or a page of another site sends a request to the right name: the browser then adds the site in ``Origin``
    or ``Sec-Fetch-Site``. Other programs send neither header, and their requests are accepted.
    """

    def __init__(
        self,
        app: ASGIApp,
        server_host: str | None = None,
        allowed_hosts: Iterable[str] = (),
        command: str = "docsplit demo",
    ) -> None:
        """Accept the names of this machine, ``server_host`` and ``allowed_hosts``; "*" accepts any name."""
        self.app = app
        self.command = command  # that messages name
        named = {host for host in allowed_hosts if host != ANY_HOST}
        self.any_host = ANY_HOST in allowed_hosts
        self.any_address = server_host in EVERY_ADDRESS
        self.origins = {checked_host(host) for host in named}
        self.hosts = {origin.host for origin in self.origins}
        if self.any_address:
            own_name = socket.gethostname().lower()
            self.hosts |= {own_name, f"{own_name}.local"}
        elif server_host:
            self.hosts.add(checked_host(server_host).host)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        refusal = self.refusal(scope.get("method", "GET"), Headers(scope=scope))
        if refusal is None:
            await self.app(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008, "reason": ""})
        else:
            logger.info("Refused a request: %s", refusal[1])
            await self.answer(*refusal)(scope, receive, send)

    def answer(self, status: int, reason: str) -> Response:
        """The response to a refused request."""
        return PlainTextResponse(f"{reason}\n", status, {"X-Content-Type-Options": "nosniff"})

    def refusal(self, method: str, headers: Headers) -> tuple[HTTPStatus, str] | None:
        """The status and the reason with which a request is refused, or None if it is allowed."""
        hosts = headers.getlist("host")
        origins = headers.getlist("origin")
        host = host_and_port(hosts[0]) if len(hosts) == 1 else None
        if host is None or not self._is_own(host.host):
            shown = ", ".join(hosts)[:SHOWN_CHARACTERS]
            hint = f"If this name is yours, start {self.command} with --allowed_hosts and the name."
            return HTTPStatus.MISDIRECTED_REQUEST, f"This server does not answer to the host name {shown!a}. {hint}"
        if origins:
            is_own = len(origins) == 1 and self._is_own_origin(origins[0], host)
            shown = ", ".join(origins)[:SHOWN_CHARACTERS]
        else:
            is_own = _is_of_this_site(method, headers)
            shown = "another site"
        if is_own:
            return None
        hint = "Open the page itself. If a proxy is in between, name its host with --allowed_hosts."
        return HTTPStatus.FORBIDDEN, f"This server does not take requests that come from {shown!a}. {hint}"

    def _is_own(self, host: str) -> bool:
        """Whether the server has this name or address."""
        if self.any_host or host in self.hosts or host == "localhost":
            return True
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return False
        return address.is_loopback or self.any_address  # safe: a request by address involves no DNS

    def _is_own_origin(self, origin: str, host: HostAndPort) -> bool:
        """Whether an origin is the requested host and port, or an allowed host."""
        scheme, separator, place = origin.partition("://")
        given = host_and_port(place) if separator and scheme in ("http", "https") else None
        return given is not None and (given == host or given in self.origins)


def host_and_port(text: str) -> HostAndPort | None:
    """Parse ``localhost:7860``, ``127.0.0.1`` or ``[::1]:7860``; None if it is malformed."""
    if not text or any(character in text for character in "/?#@\\ \t,"):
        return None
    try:
        parts = urlsplit(f"//{text}")
        port = parts.port
    except ValueError:
        return None
    return HostAndPort(parts.hostname, port) if parts.hostname else None


def checked_host(text: str) -> HostAndPort:
    """Parse a host given on the command line, with or without a port; raise if it is malformed."""
    found = host_and_port(text) or host_and_port(f"[{text}]")  # an IPv6 address without its brackets
    if found is None:
        raise ValueError(f"{text!r} is not a host name: write it as docs.example.org, without http:// and a path.")
    return found


def _is_of_this_site(method: str, headers: Headers) -> bool:
    """Whether a request without an origin is safe: from this page, from no browser, or a followed link."""
    site = headers.get("sec-fetch-site", "none")
    follows_link = method in ("GET", "HEAD") and headers.get("sec-fetch-mode") == "navigate"
    return site in ("same-origin", "none") or follows_link
