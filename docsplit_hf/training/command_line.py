"""What all scripts do: options, errors that teach, Ctrl-C, and the start of a training run."""

from __future__ import annotations

import argparse
import contextlib
import difflib
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
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from transformers import HfArgumentParser, set_seed

from .arguments import ShareableTrainingArguments
from .distributed import process_count
from .resuming import check_output_dir, checkpoint_to_resume

OWN_FOLDER = Path(__file__).parents[1]
# Of the Trainer's own options, those that most runs ask for.
COMMON = {"learning_rate", "max_steps", "gradient_accumulation_steps", "seed", "bf16", "use_cpu", "report_to"}
GO_ON = "The same command with --resume_from_checkpoint last goes on from the last checkpoint, if there is one."
JSON_HELP = "Print the final figures as one JSON object, and all else to the standard error."
WRONG_INPUT, INTERRUPTED = 2, 130  # exit codes, as of argparse and of a shell
# An argument in a message, as Python has it: name=value, or the name alone.
ARGUMENT = re.compile(r"""(?<![\w./'"-])([a-z]\w*)(?:=(?:(['"])(.*?)\2|([\w.+-]*\w)))?(?![\w(=/'"]|\.\w)""")
_options: set[str] = set()  # of the command line that this process has parsed


class OneLine(argparse.HelpFormatter):
    """An option is shown once, under the name that the pages use, and its default where that says something."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=32, width=min(shutil.get_terminal_size().columns - 2, 118))

    def _format_action_invocation(self, action: argparse.Action) -> str:
        return ", ".join([name for name in action.option_strings if name.count("-") <= 2])

    def _get_help_string(self, action: argparse.Action) -> str:
        says_so = action.default in (None, False, "", argparse.SUPPRESS, []) or "Default:" in (action.help or "")
        return f"{action.help or ''}{'' if says_so else ' (%(default)s)'}"


class FirstSentence(OneLine):
    """Of each option the first sentence, so that all of them fit on a screen."""

    def _get_help_string(self, action: argparse.Action) -> str:
        return re.split(r"(?<=[.])[ ]", action.help or "", maxsplit=1)[0].replace("%", "%%")


def parse_arguments(
    parser: HfArgumentParser, arguments: list[str] | None = None, main: Collection[str] | None = None
) -> tuple[Any, ...]:
    """Parse a command line into dataclasses. On wrong options the process ends with one line that names them.

    ``--help`` shows the options in ``main``; None: all that are ours. ``--help_all`` shows all, the Trainer's too.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    # argparse (Python 3.11) has no public way to list the options of a parser, or to move them to another group of the
    # help: _actions, _action_groups and _group_actions are private.
    theirs = {name for kind in parser.dataclass_types for name in _names(kind, "transformers")}
    ours = {name for kind in parser.dataclass_types for name in _names(kind)} | COMMON
    trainers = [action for action in parser._actions if action.dest in theirs - ours]
    hidden = [action for action in parser._actions if action.dest not in (main or ours) and action.dest != "help"]
    parser.usage, parser.formatter_class = "%(prog)s [options]", OneLine
    for action in parser._actions:
        if action.nargs == 0 and action.const is False:  # HfArgumentParser shows the help of its opposite
            action.help = f"the opposite of --{action.dest}"
    parser.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help=JSON_HELP)
    if hidden:
        what = "all options, each with all that is to be said"
        parser.add_argument("--help_all", action="help", default=argparse.SUPPRESS, help=what)
        is_all = "--help_all" in arguments
        for group in parser._action_groups:
            left_out = trainers if is_all else hidden
            group._group_actions = [action for action in group._group_actions if action not in left_out]
        if is_all and trainers:
            parser.add_argument_group("options of transformers' Trainer")._group_actions.extend(trainers)
        if not is_all and main is not None:
            parser.formatter_class = FirstSentence
    _options.update(action.dest for action in parser._actions)
    if unknown := parser.parse_known_args(arguments)[1]:
        wrong = unknown[0].partition("=")[0]
        options = [action.option_strings[0] for action in parser._actions]
        names = {name[:length]: name for name in options for length in (len(wrong), None)}
        near = [names[name] for name in difflib.get_close_matches(wrong, names, n=1)]
        parser.error(f"unrecognized arguments: {' '.join(unknown)}{f' (did you mean {near[0]}?)' if near else ''}")
    try:
        return parser.parse_args_into_dataclasses(arguments)
    except ValueError as error:
        parser.error(as_typed(str(error)))


def as_typed(message: str) -> str:
    """A message with options as they are typed: ``encoding='cp1252'`` becomes ``--encoding cp1252``."""

    def typed(match: re.Match[str]) -> str:
        name, value = match[1], match[3] or match[4]
        if name not in _options or not (value or "_" in name):  # a name without _ may be a word
            return match[0]
        return f"--{name} {shlex.quote(value)}" if value else f"--{name}"

    return ARGUMENT.sub(typed, message)


def options_given(parser: HfArgumentParser, arguments: list[str] | None = None) -> set[str]:
    """The names of the options that a command line gives, also where it gives their default."""
    unset = object()
    nothing = argparse.Namespace(**dict.fromkeys(vars(parser.parse_args([])), unset))
    given = vars(parser.parse_args(arguments, nothing))  # which keeps what is set already from its default
    return {name for name, value in given.items() if value is not unset}


def read_json_option(name: str, value: dict | str | None, key: str) -> dict | None:
    """An option that is JSON on the command line; ``key`` is one that it may hold, for the error."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except json.JSONDecodeError as error:
        raise ValueError(f"--{name} is JSON such as '{{\"{key}\": 0.1}}': {error}.") from error


def run_script(main: Callable[[], Any], when_stopped: str) -> None:
    """Run a script: Ctrl-C (exit code 130), or one of our own errors (2), becomes one line in place of a traceback.

    With ``--json``, what ``main`` returns is all that is printed on the standard output.
    """
    as_json = "--json" in sys.argv
    sys.argv = [word for word in sys.argv if word != "--json"]
    try:
        with _interrupts_in_this_process_only(), contextlib.redirect_stdout(sys.stderr if as_json else sys.stdout):
            figures = main()
        if as_json and os.environ.get("RANK", "0") == "0":
            print(json.dumps(figures, default=str))
    except KeyboardInterrupt as interrupt:
        _end(INTERRUPTED, str(interrupt) or f"Stopped. {when_stopped}", interrupt)
    except (ImportError, OSError, ValueError) as error:
        if not _is_raised_in(error, OWN_FOLDER, Path(main.__code__.co_filename).parent):
            raise
        _end(WRONG_INPUT, f"{Path(sys.argv[0]).name}: error: {as_typed(str(error))}", error)


def start_run(
    args: ShareableTrainingArguments, overwrite_output_dir: bool = False, model: str | None = None
) -> str | None:
    """Show the log, guard the output folder, set the seed; the checkpoint to go on from, or None."""
    show_log(args.process_index)
    resume = checkpoint_to_resume(args.resume_from_checkpoint, args.output_dir)
    check_output_dir(args.output_dir, resume, overwrite_output_dir, model)
    set_seed(args.seed)
    return resume


def show_log(process_index: int = 0) -> None:
    """Show what docsplit_hf logs: of the first process its information, of the others their warnings only."""
    logger = logging.getLogger("docsplit_hf")
    logger.addHandler(logging.StreamHandler())
    logger.setLevel(logging.INFO if process_index == 0 else logging.WARNING)


@contextlib.contextmanager
def _interrupts_in_this_process_only() -> Iterator[None]:
    """Ctrl-C reaches all processes of a terminal; those that are forked from this one end without a message."""
    process, before = os.getpid(), signal.getsignal(signal.SIGINT)
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


def _names(kind: type, package: str = "") -> set[str]:
    """The fields of a dataclass that are annotated in the classes of a package; without one, outside transformers."""
    classes = [cls for cls in kind.__mro__ if (cls.__module__.split(".")[0] == "transformers") == bool(package)]
    return {name for cls in classes for name in cls.__dict__.get("__annotations__", {})}


def _is_raised_in(error: BaseException, *folders: Path) -> bool:
    """Whether a ``raise`` in these folders made the error; any other error is a bug, and needs its traceback."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    line = linecache.getline(last.filename, last.lineno or 0).strip()
    return line.startswith("raise ") and any(Path(last.filename).is_relative_to(folder) for folder in folders)


def _end(code: int, message: str, error: BaseException) -> NoReturn:
    if code != INTERRUPTED or os.environ.get("RANK", "0") == "0":
        print(f"\n{message}", file=sys.stderr, flush=True)
    if process_count() > 1:  # the process group would wait for the others, which may have ended
        sys.stdout.flush()
        os._exit(code)
    raise SystemExit(code) from error
