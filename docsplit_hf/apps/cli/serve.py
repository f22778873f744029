"""Command ``docsplit serve``: classifiers behind an address, for other programs."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from dataclasses import fields
from importlib import import_module
from threading import Thread
from typing import TYPE_CHECKING

from ...cores import use_threads
from ...encoding.checkpoints.damaged_checkpoint import DamagedCheckpointError
from ...extras import check_full_installation
from .commands import positive_count
from .options import ALL_PRECISIONS
from .run_command import OneLine

if TYPE_CHECKING:
    from ..server.served_folders import ServedFolder
    from ..server.settings import ServerSettings

GRACE_SECONDS = 30  # for requests under way when the server is stopped
MOST_CONNECTIONS = 1_000
# Their messages may have parts of texts.
LOGGERS_OF_TEXTS = ("docsplit_hf.classifier", "docsplit_hf.encoding", "docsplit_hf.reading")
HELP_OF_LIMITS = {
    "megabytes": "megabytes in a request",
    "file_megabytes": "megabytes in a request with uploaded files",
    "files": "files in a request",
    "body_seconds": "seconds in which a request must arrive",
    "texts": "texts in a request",
    "characters": "characters in a text",
    "tokens": "tokens that are read for a request, at four bytes each; more get status 413",
    "labels": "labels of a classifier that takes edits",
    "questions": "questions in a request for decisions",
    "waiting_tokens": "tokens of texts that wait; further requests get status 429",
    "seconds": "seconds until an answer must be ready",
}


def make_parser() -> argparse.ArgumentParser:
    """Make the parser of ``docsplit serve``."""
    from ..server.settings import ServerLimits, ServerSettings

    parser = argparse.ArgumentParser(
        prog="docsplit serve",
        description="Serve classifiers to other programs by HTTP: /v1/classify, /v1/systemone, /v1/decisions, /docs.",
        usage="%(prog)s FOLDER [FOLDER ...] [options]",
        formatter_class=OneLine,
    )
    either = parser.add_mutually_exclusive_group(required=True)
    either.add_argument("model", nargs="*", metavar="FOLDER", default=argparse.SUPPRESS, help="the same as --model")
    either.add_argument(
        "--model",
        nargs="+",
        metavar="FOLDER",
        default=argparse.SUPPRESS,
        help="a saved classifier, FOLDER or NAME=FOLDER, also without the name of the option; the first is the default",
    )
    parser.add_argument(
        "--host", default="127.0.0.1", help="address to listen on; 0.0.0.0 allows connections from other machines"
    )
    parser.add_argument("--port", type=int, default=8000, help="port to listen on")
    parser.add_argument(
        "--allowed_hosts",
        nargs="+",
        default=[],
        help="other host names of this server, such as a proxy's; * allows any name",
    )
    parser.add_argument(
        "--token_file",
        help="file of tokens of those who may ask, TOKEN or NAME=TOKEN on each line; also DOCSPLIT_SERVE_TOKEN",
    )
    parser.add_argument(
        "--edit_token_file",
        help="file of tokens of those who may change examples and fit; also DOCSPLIT_SERVE_EDIT_TOKEN; without one, "
        "nobody may",
    )
    parser.add_argument("--open", action="store_true", help="let other machines ask without a token")
    answers = parser.add_argument_group("answers")
    answers.add_argument(
        "--reject", type=float, default=ServerSettings.reject, help="error rate to allow: unsure texts get no label"
    )
    answers.add_argument(
        "--novelty",
        type=float,
        default=ServerSettings.novelty,
        help="with --reject: fraction of in-scope texts that may be rejected as novel",
    )
    answers.add_argument(
        "--reject_label",
        default=ServerSettings.reject_label,
        help="with --reject: the option of a choice that means none of the labels, such as other",
    )
    speed = parser.add_argument_group("speed")
    speed.add_argument(
        "--precision",
        choices=ALL_PRECISIONS,
        help="float32, bfloat16, or int8, which is faster and needs the extra openvino; by default, as the "
        "classifier was saved or exported",
    )
    speed.add_argument(
        "--threads", type=positive_count, default=None, help="threads that read texts; by default, one for each core"
    )
    speed.add_argument(
        "--batch_tokens", type=positive_count, default=ServerSettings.batch_tokens, help="most tokens read together"
    )
    speed.add_argument("--trust", action="store_true", help="answer with an exported model that somebody else exported")
    limits = parser.add_argument_group("limits")
    for field in fields(ServerLimits):
        kind = float if isinstance(field.default, float) else positive_count
        limits.add_argument(f"--max_{field.name}", type=kind, default=field.default, help=HELP_OF_LIMITS[field.name])
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve classifiers until the process is stopped."""
    parser = make_parser()
    args = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(levelname)s:     %(message)s", stream=sys.stderr)
    for name in ("httpx", "faiss.loader"):
        logging.getLogger(name).setLevel(logging.WARNING)
    try:
        _serve(args)
    except (ModuleNotFoundError, OSError, ValueError, DamagedCheckpointError) as error:
        parser.exit(1, f"{parser.prog}: error: {error}\n")


def _serve(args: argparse.Namespace) -> None:
    """Open the classifiers, and serve them."""
    from ..server.access import EDIT_TOKEN_VARIABLE, TOKEN_VARIABLE, Access, check_exposure, read_tokens
    from ..server.served_folders import open_classifiers
    from ..server.settings import ServerLimits, ServerSettings
    from ..server.states import Encoders

    readers = read_tokens(TOKEN_VARIABLE, args.token_file, "reader")
    editors = read_tokens(EDIT_TOKEN_VARIABLE, args.edit_token_file, "editor")
    check_exposure(args.host, readers, args.open)
    if editors:
        check_full_installation("Editing classifiers")
    exported = args.precision is None and not editors  # an exported model answers, and cannot be edited
    encoders = Encoders(args.precision, exported, args.trust, args.threads)
    # FastAPI takes as long to import as an exported model to load, which leaves the interpreter to another thread.
    importing = Thread(target=import_module, args=("docsplit_hf.apps.server.app",))
    importing.start()
    try:
        classifiers = open_classifiers(args.model, encoders)
    finally:
        importing.join()  # or the process would end amid an import
    if args.threads is not None:
        use_threads(args.threads)
    settings = ServerSettings(
        limits=ServerLimits(**{field.name: getattr(args, f"max_{field.name}") for field in fields(ServerLimits)}),
        batch_tokens=args.batch_tokens,
        reject=args.reject,
        novelty=args.novelty,
        reject_label=args.reject_label,
        threads=args.threads,
    )
    for classifier in classifiers.values():
        _check_answers(classifier, settings)
    import uvicorn

    from ..server.app import Server, make_app

    for name in LOGGERS_OF_TEXTS:
        logging.getLogger(name).setLevel(logging.ERROR)
    server = Server(classifiers, settings, Access(readers, editors))
    uvicorn.run(
        make_app(server, args.host, tuple(args.allowed_hosts)),
        host=args.host,
        port=args.port,
        log_level="info",
        access_log=False,
        server_header=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=GRACE_SECONDS,
        timeout_keep_alive=30,
    )


def _check_answers(classifier: ServedFolder, answers: ServerSettings) -> None:
    """Refuse a rate of errors that a classifier cannot keep, before any request."""
    from ...fitting.rejection import RejectionLimits

    if answers.reject is not None:
        limits = RejectionLimits(answers.reject, answers.novelty)
        classifier.state.pipe(["A text to try the options on."], reject=limits)
    elif answers.novelty is not None or answers.reject_label is not None:
        raise ValueError("--novelty and --reject_label are for texts without an answer: give --reject, too.")


run = main
