"""Run ``docsplit classify``, and the other commands that its command line means."""

import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from ...extras import options_of
from ...training.command_line import script
from ..pipelines import check_installation
from . import classify
from .shared_options import OUTPUT_DIR

OPTIONS = {
    "fit": ("LabeledArguments", "FitArguments"),
    "train": ("DataArguments", "ModelArguments", "RunArguments"),
    "audit": ("AuditArguments",),
    "classify": ("PredictionArguments", "AnswerArguments"),
}
RENAMED = {
    "predict_top_k": "top_k",
    "predict_neighbors": "return_neighbors",
    "predict_explain": "explain",
    "predict_reject": "reject",
    "predict_novelty": "novelty",
    "predict_reject_each_label": "reject_each_label",
    "audit": "output",
    "apply_audit": "apply",
}
MAKING = {"dataset_name", "label_column", "unlabeled_name", "output_dir"}  # options of docsplit fit alone
CHOICE = "no_training"  # the option that chose between today's fit and train


def _module(command: str) -> ModuleType:
    """The module of a command; those of the others import torch."""
    return import_module(f".{command}", __package__)


def option_types(command: str) -> list[type]:
    """Return the dataclasses of the options of a command."""
    return [getattr(_module(command), name) for name in OPTIONS[command]]


def known_options(command: str) -> set[str]:
    """Return the names of the options of a command, with those that switch one off."""
    names = {field.name for kind in option_types(command) for field in fields(kind) if field.init}
    return names | {f"no_{name}" for name in names}


def new_commands(words: Sequence[str]) -> list[list[str]]:
    """Return the commands that a command line of ``docsplit classify`` means; none if it is this command alone.

    With --dataset_name it makes a classifier first. Earlier it was four commands in one.
    """
    given = {name.removeprefix("--"): values for name, values in options_of(words)}
    makes = "dataset_name" in given
    is_present = given.keys() <= known_options("classify") | MAKING
    names_folder = not makes and "output_dir" in given  # of a classifier that is made already
    if is_present and not makes and not names_folder:
        return []
    if names_folder:
        given.setdefault("model_name_or_path", given.pop("output_dir"))
    is_fitted = CHOICE in given or (is_present and "predict" in given)
    names = ["fit" if is_fitted else "train"] if makes else []
    names += ["audit"] if given.keys() & {"audit", "apply_audit"} else []
    names += ["classify"] if "predict" in given else []
    given.pop(CHOICE, None)
    options = {RENAMED.get(name, name): values for name, values in given.items()}
    unknown = options.keys() - set().union(*(known_options(name) for name in names))
    if unknown or not names:
        return []  # the parser of today's command names them
    commands = []
    for name in names:
        is_next = makes and name != names[0]
        known = known_options(name)
        own = {option: values for option, values in options.items() if option in known}
        if is_next:
            own["model_name_or_path"] = options.get("output_dir", [OUTPUT_DIR])
        line = [name]
        for option, values in own.items():
            line += [f"--{option}", *values]
        commands.append(line)
    return commands


def _check(parsed: classify.Parsed) -> None:
    """Refuse to make a classifier again for answers that were interrupted."""
    folder = parsed.arguments.model_name_or_path
    is_made = parsed.files.partial.exists() and Path(folder, "metrics.json").exists()
    if is_made and not parsed.arguments.overwrite_output_dir:
        raise ValueError(
            f"{folder} is already made, and {parsed.files.partial} has answers: run the same command with "
            f"--model_name_or_path {folder}, without --dataset_name, to continue."
        )


def main() -> dict[str, Any]:
    """Classify a file, or run what an earlier command line meant; return the figures for ``--json``."""
    commands = new_commands(sys.argv[1:])
    if not commands:
        return classify.main()
    last, *words = commands[-1]
    if last == "classify" and len(commands) > 1:  # before a classifier is made
        _check(classify.parse(words))
    rank = os.environ.get("RANK", "0")
    if rank == "0":
        print("docsplit classify is now several commands, which this line runs:")
        for command in commands:
            print(f"  {shlex.join(['docsplit', *command])}")
    figures: dict[str, Any] = {}
    for name, *options in commands:
        if name == "train" or rank == "0":
            if name != "classify":
                check_installation(f"docsplit {name}")
            sys.argv = [f"docsplit {name}", *options]
            figures |= _module(name).main()
        os.environ.pop("WORLD_SIZE", None)  # after training, the first process goes on alone
    return figures


run = script(main, "Run the same command again to continue.")
