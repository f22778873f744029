"""Run ``docsplit classify``, and before it ``docsplit fit`` if the command line names labeled examples."""

import shlex
import sys
from collections.abc import Sequence
from dataclasses import fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from ...extras import check_full_installation, options_of
from . import classify, fit
from .commands import NEAR, with_options
from .fit_arguments import FitArguments
from .labeled_arguments import LabeledArguments
from .options import OUTPUT_DIR
from .run_command import script


def two_commands(words: Sequence[str]) -> list[list[str]]:
    """The options of ``docsplit fit`` and ``docsplit classify`` that a command line with --dataset_name gives; or none.

    Options that neither knows are left to ``docsplit fit`` if one of its own is similar, so that its parser suggests
    it; otherwise to ``docsplit classify``.
    """
    given = {name.removeprefix("--"): values for name, values in options_of(with_options(classify.FIRST, list(words)))}
    if "dataset_name" not in given:
        return []
    if "model" in given:  # the encoder, as there is no classifier yet
        given["model_name_or_path"] = given.pop("model")
    of_fit = _names(LabeledArguments, FitArguments)
    of_classify = _names(classify.PredictionArguments, classify.AnswerArguments)
    unknown = given.keys() - of_fit - of_classify
    of_fit |= {name for name in unknown if get_close_matches(name, of_fit - of_classify, cutoff=NEAR)}
    fitting = {name: values for name, values in given.items() if name in of_fit}
    answering = {name: values for name, values in given.items() if name in of_classify or name not in of_fit}
    answering["model"] = given.get("output_dir", [OUTPUT_DIR])
    return [_words(fitting), _words(answering)]


def _names(*kinds: type) -> set[str]:
    """The names of the options of dataclasses."""
    return {field.name for kind in kinds for field in fields(kind)}


def _words(options: dict[str, list[str]]) -> list[str]:
    """Options as a command line has them."""
    return [word for name, values in options.items() for word in (f"--{name}", *values)]


def _check(words: list[str]) -> None:
    """Check how a file is classified, and refuse to make a classifier again for answers that were interrupted."""
    arguments, _, files = classify.parse(words)
    folder = arguments.model
    is_made = files.partial.exists() and Path(folder, "metrics.json").exists()
    if is_made and not arguments.overwrite_output_dir:
        raise ValueError(
            f"{folder} is already made, and {files.partial} has answers. To continue: "
            f"{shlex.join(['docsplit', 'classify', *words])}"
        )


def main() -> dict[str, Any]:
    """Classify a file, with a new classifier if there are labeled examples; return the figures for ``--json``."""
    commands = two_commands(sys.argv[1:])
    if not commands:
        return classify.main()
    fitting, answering = commands
    _check(answering)  # before a classifier is made
    print("This is two commands, which this line runs:")
    print(f"  {shlex.join(['docsplit', 'fit', *fitting])}\n  {shlex.join(['docsplit', 'classify', *answering])}")
    check_full_installation("docsplit fit")
    sys.argv = ["docsplit fit", *fitting]
    figures = fit.main()
    sys.argv = ["docsplit classify", *answering]
    return figures | classify.main()


run = script(main, "Run the same command again to continue.")
