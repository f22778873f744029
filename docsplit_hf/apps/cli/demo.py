"""Command ``docsplit demo``: serve the page on this machine."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import fields

from ...encoding.checkpoints.damaged_checkpoint import DamagedCheckpointError
from ..page.sessions import PageLimits, SharedModel
from .commands import positive_count
from .run_command import OneLine


def make_parser() -> argparse.ArgumentParser:
    """Make the parser of ``docsplit demo``."""
    parser = argparse.ArgumentParser(
        prog="docsplit demo",
        description="Serve a page that classifies documents from a few examples. No network is used.",
        usage="%(prog)s [options]",
        formatter_class=OneLine,
    )
    parser.add_argument("--model", help="an encoder or a saved classifier; without it, the included encoder")
    parser.add_argument(
        "--host", default="127.0.0.1", help="address to listen on; 0.0.0.0 allows connections from other machines"
    )
    parser.add_argument(
        "--allowed_hosts",
        nargs="+",
        default=[],
        help="other host names of this server, such as a proxy's; * allows any name, for a public server",
    )
    parser.add_argument("--port", type=int, default=7860, help="port to listen on")
    parser.add_argument("--open", action="store_true", help="open the page in a browser")
    limits = parser.add_argument_group("limits")
    helps = {
        "rows": "texts in a file, and texts per visitor",
        "megabytes": "megabytes in an uploaded file",
        "labels": "labels per visitor",
        "characters": "characters in a text",
        "sessions": "browsers with stored texts; beyond it, the least recently used ones are forgotten",
    }
    for field in fields(PageLimits):
        limits.add_argument(f"--max_{field.name}", type=positive_count, default=field.default, help=helps[field.name])
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve the page until the process is stopped."""
    parser = make_parser()
    args = parser.parse_args(arguments)
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"  # before gradio is imported
    try:
        from ..page.page import launch_page, make_page

        limits = PageLimits(**{field.name: getattr(args, f"max_{field.name}") for field in fields(PageLimits)})
        shared = SharedModel(args.model)
        shared.new_pipeline()
    except (ModuleNotFoundError, OSError, ValueError, DamagedCheckpointError) as error:
        parser.exit(1, f"{parser.prog}: error: {error}\n")
    launch_page(
        make_page(shared, limits),
        limits,
        host=args.host,
        port=args.port,
        allowed_hosts=args.allowed_hosts,
        in_browser=args.open,
    )


run = main
