"""serve_folders: run the HTTP server until the process is stopped."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import uvicorn

from .access import Access
from .app import Server, make_app

if TYPE_CHECKING:
    from .served_folders import ServedFolder
    from .settings import ServerSettings

GRACE_SECONDS = 30  # for requests under way when the server is stopped
MOST_CONNECTIONS = 1_000
# Their messages may have parts of texts.
LOGGERS_OF_TEXTS = ("docsplit_hf.classifier", "docsplit_hf.encoding", "docsplit_hf.reading")


def serve_folders(
    classifiers: dict[str, ServedFolder],
    settings: ServerSettings,
    access: Access,
    host: str,
    port: int,
    allowed_hosts: tuple[str, ...] = (),
    log_texts: bool = False,
) -> None:
    """Serve classifiers until SIGINT or SIGTERM; requests under way are finished first.

    Args:
        classifiers: The classifiers by name.
        settings: ServerLimits and options.
        access: The tokens of readers and editors.
        host, port: The address to listen on.
        allowed_hosts: Other host names of this server, such as a proxy's.
        log_texts: Whether messages about texts may be logged with parts of them.

    Raises:
        ValueError: If another server takes edits of the same folder.
    """
    if not log_texts:
        for name in LOGGERS_OF_TEXTS:
            logging.getLogger(name).setLevel(logging.ERROR)
    server = Server(classifiers, settings, access)
    config = uvicorn.Config(
        make_app(server, host, allowed_hosts),
        host=host,
        port=port,
        log_level="info",
        access_log=False,
        server_header=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=GRACE_SECONDS,
        timeout_keep_alive=30,
    )
    uvicorn.Server(config).run()
