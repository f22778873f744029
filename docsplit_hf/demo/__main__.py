"""``docsplit demo``: the page, served on this machine."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from ..encoders.checkpoints.checkpoint import DamagedCheckpointError
from ..extras import check_extra
from .sessions import Limits, SharedModel


def make_parser() -> argparse.ArgumentParser:
    """The arguments of ``docsplit demo``."""
    parser = argparse.ArgumentParser(
        prog="docsplit demo",
        description="A page to classify documents from a few examples. Nothing is asked of a network.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--model", help="an encoder or a saved classifier; without it, the encoder that ships")
    parser.add_argument("--host", default="127.0.0.1", help="0.0.0.0 lets other machines in")
    named = "names by which it is reached, where a proxy or the DNS has one for it; * allows any, for a public server"
    parser.add_argument("--allowed_hosts", nargs="+", default=[], metavar="NAME", help=named)
    parser.add_argument("--port", type=int, default=7860)
    parser.add_argument("--open", action="store_true", help="open the page in a browser")
    said = "serve assistants by MCP, too: their tools read and write files in this folder"
    parser.add_argument("--mcp", type=_folder, metavar="FOLDER", help=said)
    limits = parser.add_argument_group("limits of each visitor")
    helps = {
        "rows": "texts of a file, and of all together",
        "megabytes": "of an uploaded file",
        "labels": "different labels",
        "characters": "of a text",
        "sessions": "visitors whose texts are kept; of whoever has most, those not used for longest are deleted first",
        "disk_megabytes": "of the texts that are kept of all visitors together",
    }
    for field in fields(Limits):
        limits.add_argument(f"--max_{field.name}", type=_count, default=field.default, help=helps[field.name])
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve the page until it is stopped."""
    parser = make_parser()
    args = parser.parse_args(arguments)
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"  # before gradio is imported
    try:
        check_extra("mcp" if args.mcp else "demo", "docsplit demo")
        from .page import launch_options, make_page

        limits = Limits(**{field.name: getattr(args, f"max_{field.name}") for field in fields(Limits)})
        options = launch_options(limits, args.host, args.allowed_hosts)
        shared = SharedModel(args.model)
        shared.new_pipeline()
    except (ModuleNotFoundError, OSError, ValueError, DamagedCheckpointError) as error:
        parser.exit(1, f"{error}\n")
    page = make_page(shared, limits, args.mcp)
    options["mcp_server"] = args.mcp is not None
    page.launch(server_name=args.host, server_port=args.port, inbrowser=args.open, **options)


def _folder(text: str) -> Path:
    if not Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is no folder here: name the one of your files.")
    return Path(text)


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {text}")
    return number


if __name__ == "__main__":
    main()
