"""What the commands share: options, error messages, Ctrl-C, and the start of a training run."""

from __future__ import annotations

import argparse
import contextlib
import json
import linecache
import logging
import os
import re
import shlex
import shutil
import signal
import sys
import traceback
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from ...reading.files.options import OCR_VARIABLE
from .commands import WRONG_INPUT, did_you_mean

if TYPE_CHECKING:
    from ...training.arguments import ShareableTrainingArguments

PACKAGE_FOLDER = Path(__file__).parents[2]
# Options of the Trainer that most runs need; the short help shows them.
COMMON_TRAINER_OPTIONS = {
    "learning_rate",
    "max_steps",
    "gradient_accumulation_steps",
    "seed",
    "bf16",
    "use_cpu",
    "report_to",
}
HOW_TO_RESUME = (
    "Resume from the last checkpoint, if there is one, with the same command and --resume_from_checkpoint last."
)
# Options of transformers' example scripts and other trainers, and ours in their place: the first that a command has.
OPTIONS_ELSEWHERE = {
    "batch_size": ("per_device_train_batch_size",),
    "block_size": ("max_length",),
    "epochs": ("num_train_epochs",),
    "max_eval_samples": ("test_size",),
    "max_predict_samples": ("test_size",),
    "max_train_samples": ("max_steps",),
    "no_cuda": ("use_cpu",),
    "output_dir": ("output", "model", "model_name_or_path"),
    "preprocessing_num_workers": ("num_proc",),
    "test_file": ("dataset_name", "tasks"),
    "text_column_name": ("text_column",),
    "train_file": ("dataset_name", "tasks"),
    "use_lora": ("use_peft",),
    "validation_file": ("dataset_name", "tasks"),
    "validation_split_percentage": ("validation_size", "test_size"),
}
OCR_HELP = (
    "Recognize scanned pages of PDF files: English by tesseract. A value names another of its languages, such as deu, "
    "or the library rapidocr."
)
SOURCES = {"dataset_name", "predict", "tasks", "inbox"}  # options that name files; commands without them read none
INTERRUPTED = 130  # exit code, the same as a shell's
# An argument in a message as it is written in Python: name=value, or the name alone.
ARGUMENT = re.compile(r"""(?<![\w./'"-])([a-z]\w*)(?:=(?:(['"])(.*?)\2|([\w.+-]*\w)))?(?![\w(=/'"]|\.\w)""")
_options: set[str] = set()  # the names of all options of the command that this process runs


class OptionParser(Protocol):
    """A parser of argparse that makes dataclasses: ``HfArgumentParser`` or ``PlainParser``.

    Methods are those of ``argparse.ArgumentParser``, and ``parse_args_into_dataclasses``.
    """

    dataclass_types: list[type]

    def __getattr__(self, name: str) -> Any:
        """What argparse defines."""


class OneLine(argparse.HelpFormatter):
    """Show each option once, under the name that the documentation uses, and its default where informative."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=32, width=min(shutil.get_terminal_size().columns - 2, 118))

    def _format_action_invocation(self, action: argparse.Action) -> str:
        names = [name for name in action.option_strings if name.count("-") <= 2]
        return ", ".join(names) or super()._format_action_invocation(action)

    def _get_help_string(self, action: argparse.Action) -> str:
        text = action.help or ""
        if action.default in (None, False, "", argparse.SUPPRESS, []) or "Default:" in text:
            return text
        return f"{text} (%(default)s)"


class FirstSentence(OneLine):
    """Show the first sentence of each option's help, so that all options fit on a screen."""

    def _get_help_string(self, action: argparse.Action) -> str:
        return re.split(r"(?<=[.])[ ]", action.help or "", maxsplit=1)[0].replace("%", "%%")


def parse_arguments(
    parser: OptionParser, arguments: list[str] | None = None, main: Collection[str] | None = None
) -> tuple[Any, ...]:
    """Parse a command line into dataclasses; wrong options end the process with one line that names them.

    ``--help`` shows the options in ``main``; None: all but the Trainer's. ``--help_all`` shows the Trainer's too.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    parser.usage = "%(prog)s [options]"
    parser.formatter_class = OneLine
    _arrange_help(parser, main, is_all="--help_all" in arguments)
    _options.update(action.dest for action in parser._actions)
    _, unknown = parser.parse_known_args(arguments)
    if unknown:
        parser.error(f"unrecognized arguments: {' '.join(unknown)}{_suggestion(parser, unknown[0])}")
    try:
        return parser.parse_args_into_dataclasses(arguments)
    except ValueError as error:
        parser.error(as_typed(str(error)))


def _arrange_help(parser: OptionParser, main: Collection[str] | None, is_all: bool) -> None:
    """Choose the options that the help shows, and add ``--json``; ``--ocr`` and ``--help_all`` where they matter."""
    # argparse (Python 3.11) has no public way to list the options of a parser, or to move them to another group of the
    # help: _actions, _action_groups and _group_actions are private.
    trainer_names = _names(parser.dataclass_types, of_transformers=True)
    own_names = COMMON_TRAINER_OPTIONS | _names(parser.dataclass_types, of_transformers=False)
    trainer_actions = [action for action in parser._actions if action.dest in trainer_names - own_names]
    shown = {"help", *(main or own_names)}
    hidden = [action for action in parser._actions if action.dest not in shown]
    for action in parser._actions:
        if action.nargs == 0 and action.const is False:  # HfArgumentParser copies the help of the opposite option
            action.help = f"the opposite of --{action.dest}"
    parser.add_argument(
        "--json",
        action="store_true",
        default=argparse.SUPPRESS,
        help="Print the final figures as one JSON object, and all else to the standard error.",
    )
    if SOURCES & {action.dest for action in parser._actions}:
        parser.add_argument("--ocr", nargs="?", metavar="LANGUAGE|rapidocr", default=argparse.SUPPRESS, help=OCR_HELP)
    if not hidden:
        return
    parser.add_argument("--help_all", action="help", default=argparse.SUPPRESS, help="show all options with full help")
    left_out = trainer_actions if is_all else hidden
    for group in parser._action_groups:
        group._group_actions = [action for action in group._group_actions if action not in left_out]
    if is_all and trainer_actions:
        parser.add_argument_group("options of transformers' Trainer")._group_actions.extend(trainer_actions)
    if not is_all and main is not None:
        parser.formatter_class = FirstSentence


def _suggestion(parser: argparse.ArgumentParser, unknown: str) -> str:
    """A suggestion for an error: the option that means what an unknown one does, or the most similar; may be empty."""
    typed = unknown.partition("=")[0]
    for name in OPTIONS_ELSEWHERE.get(typed.removeprefix("--"), ()):
        if any(action.dest == name for action in parser._actions):
            return f" (did you mean --{name}?)"
    return did_you_mean(typed, [action.option_strings[0] for action in parser._actions])


def as_typed(message: str) -> str:
    """Write the options in a message in the form of a command line: ``--encoding cp1252`` for ``encoding='cp1252'``."""

    def typed(match: re.Match[str]) -> str:
        name = match[1]
        value = match[3] or match[4]
        if name not in _options:
            return match[0]
        if value:
            return f"--{name} {shlex.quote(value)}"
        return f"--{name}" if "_" in name else match[0]  # a name without _ may be a word

    return ARGUMENT.sub(typed, message)


def read_json_option(name: str, value: dict | str | None, key: str) -> dict | None:
    """Parse an option that is JSON on the command line; ``key``: an example of a key, for the error."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"--{name} must be JSON such as '{{\"{key}\": 0.1}}': {error}.") from error


def script(main: Callable[[], Any], when_stopped: str) -> Callable[[], None]:
    """Return the function that runs a command, as ``run_script`` describes."""
    return partial(run_script, main, when_stopped)


def run_script(main: Callable[[], Any], when_stopped: str) -> None:
    """Run a command; Ctrl-C (exit code 130) and errors raised by docsplit_hf (2) end it with one line, no traceback.

    With ``--json``, the standard output holds the result of ``main`` and nothing else.
    """
    common = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    common.add_argument("--json", action="store_true")
    common.add_argument("--ocr", nargs="?", const="eng")
    given, rest = common.parse_known_args(sys.argv[1:])
    sys.argv[1:] = rest
    if given.ocr:
        os.environ[OCR_VARIABLE] = given.ocr  # for each place that reads files, also in other processes
    try:
        with _interrupts_in_this_process_only(), contextlib.redirect_stdout(sys.stderr if given.json else sys.stdout):
            figures = main()
        if given.json and os.environ.get("RANK", "0") == "0":
            print(json.dumps(figures, default=str))
    except KeyboardInterrupt as interrupt:
        _end(INTERRUPTED, str(interrupt) or f"Stopped. {when_stopped}", interrupt)
    except (ImportError, OSError, RuntimeError, ValueError) as error:
        if not _is_raised_in(error, PACKAGE_FOLDER, Path(main.__code__.co_filename).parent):
            raise
        _end(WRONG_INPUT, f"{Path(sys.argv[0]).name}: error: {as_typed(str(error))}", error)


def start_run(
    args: ShareableTrainingArguments, overwrite_output_dir: bool = False, model: str | None = None
) -> str | None:
    """Show the log, protect the output folder, set the seed; return the checkpoint to resume from, or None."""
    from transformers import set_seed

    from ...training.checkpoint_folders import check_output_dir
    from ...training.resuming import checkpoint_to_resume

    show_log(args.process_index)
    resume = checkpoint_to_resume(args.resume_from_checkpoint, args.output_dir)
    check_output_dir(args.output_dir, resume, overwrite_output_dir, model)
    set_seed(args.seed)
    return resume


def show_log(process_index: int = 0) -> None:
    """Show docsplit_hf's log: information from the first process, warnings from the others."""
    logger = logging.getLogger("docsplit_hf")
    logger.handlers = [logging.StreamHandler()]  # one, if this process runs two commands
    logger.setLevel(logging.INFO if process_index == 0 else logging.WARNING)


@contextlib.contextmanager
def _interrupts_in_this_process_only() -> Iterator[None]:
    """Make processes that are forked from this one ignore Ctrl-C, which a terminal sends to all processes."""
    process = os.getpid()
    before = signal.getsignal(signal.SIGINT)
    interrupted = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal interrupted
        if os.getpid() == process:
            interrupted = True
            raise KeyboardInterrupt

    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    except BaseException as error:
        if interrupted and not isinstance(error, KeyboardInterrupt):  # a library has replaced it
            raise KeyboardInterrupt from error
        raise
    finally:
        signal.signal(signal.SIGINT, before)


def _names(kinds: Sequence[type], of_transformers: bool) -> set[str]:
    """The fields of dataclasses that base classes in transformers define, or those that other classes define."""
    names: set[str] = set()
    for kind in kinds:
        for cls in kind.__mro__:
            is_of_transformers = cls.__module__.split(".")[0] == "transformers"
            if is_of_transformers == of_transformers:
                names.update(cls.__dict__.get("__annotations__", {}))
    return names


def _is_raised_in(error: BaseException, *folders: Path) -> bool:
    """Whether a ``raise`` statement in these folders raised the error; any other error is a bug, with a traceback."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    line = linecache.getline(last.filename, last.lineno or 0).strip()
    return line.startswith("raise ") and any(Path(last.filename).is_relative_to(folder) for folder in folders)


def _end(code: int, message: str, error: BaseException) -> NoReturn:
    """Print a message and end the process."""
    if code != INTERRUPTED or os.environ.get("RANK", "0") == "0":
        print(f"\n{message}", file=sys.stderr, flush=True)
    if os.environ.get("WORLD_SIZE", "1") != "1":  # the process group would wait for the others, which may have ended
        sys.stdout.flush()
        os._exit(code)
    raise SystemExit(code) from error
