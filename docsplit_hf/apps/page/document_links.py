"""Links that open the PDF files of visitors in their browser."""

from __future__ import annotations

import secrets
import threading
from pathlib import Path

from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Route

ADDRESS = "documents"
MOST_LINKS = 100_000  # the oldest ones end first
BYTES_OF_HEADER = 1024  # in which PDF files begin
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "private, no-store",
    "Referrer-Policy": "no-referrer",
}


_paths: dict[str, Path] = {}  # of this process, by secret: only the visitor whose page shows a link can open its file
_changing = threading.Lock()


def link_to(path: Path, page: str | None) -> str | None:
    """Return the address of an uploaded file, at a page where one is named; None if it is no PDF file."""
    with path.open("rb") as file:
        if b"%PDF-" not in file.read(BYTES_OF_HEADER):
            return None
    secret = secrets.token_urlsafe(24)
    with _changing:
        _paths[secret] = path
        if len(_paths) > MOST_LINKS:
            del _paths[next(iter(_paths))]
    return f"{ADDRESS}/{secret}.pdf" + (f"#page={page}" if page else "")


def send_document(request: Request) -> Response:
    """Send the file of a link as PDF, which is all that a browser takes it for."""
    path = _paths.get(request.path_params["secret"])
    if path is None or not path.is_file():
        return PlainTextResponse("This file is no longer here: upload it again.\n", 404, HEADERS)
    return FileResponse(path, headers=HEADERS, media_type="application/pdf")


ROUTE = Route(f"/{ADDRESS}/{{secret}}.pdf", send_document, methods=["GET", "HEAD"])
