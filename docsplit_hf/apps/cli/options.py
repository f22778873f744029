"""Options as fields of dataclasses, and their parser, as transformers has them; and what several commands share.

A command line is answered in a second; what the command needs is imported when it runs. Only ``train`` and
``pretrain``, which have the options of ``TrainingArguments``, use the parser of transformers.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Collection, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

from .commands import with_options
from .run_command import parse_arguments

OUTPUT_DIR = "output/classification"
SHIPPED = "docsplit-small-en"  # DEFAULT_CHECKPOINT of encoding/checkpoints/checkpoint.py, which imports torch
ENCODER_HELP = f"An encoder on the Hub or a folder. Default: {SHIPPED}, which is included."
ALL_PRECISIONS = ("float32", "bfloat16", "int8")  # PRECISIONS of encoding/backends/precision.py, which imports torch
READING_OPTIONS = ("text_column", "text_pair_column", "csv_separator", "encoding")  # of a file to classify
DATASET_HELP = (
    "The labeled examples (required): a file, a folder, or a data set on the Hub. A file is .jsonl, .json, .csv, .tsv "
    "or .parquet; a folder has such files named train and optionally validation and test, or a folder of .txt files or "
    "documents (PDF, Word, HTML, mail and others) for each class. To try it: 'documentation', the documentation of "
    "installed packages, by package."
)
LONG_DOCUMENTS_HELP = (
    "Part of texts longer than --max_length to read: 'first', the beginning; 'head_tail', beginning and end; 'whole', "
    "the beginning, and all of it; 'average', all of it in passages, whose embeddings are averaged"
)
PASSAGES_HELP = (
    f"{LONG_DOCUMENTS_HELP}; 'passages', all of it in passages with one embedding each, so that answers name the "
    "decisive passage."
)
TRUE = ("yes", "true", "t", "y", "1")
FALSE = ("no", "false", "f", "n", "0")


def option(help: str, default: Any = MISSING, **others: Any) -> Any:
    """The field of an option, for both parsers; ``others``: arguments of ``add_argument``, such as ``choices``."""
    metadata = {"help": help, **others}
    if isinstance(default, list):
        return field(default_factory=default.copy, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass
class SavedClassifier:
    """The classifier of a command that needs one."""

    model: str | None = option(
        default=None,
        help="A saved classifier (required), also as the first word without the name of the option: the --output_dir "
        "of docsplit fit or docsplit train.",
    )

    def __post_init__(self) -> None:
        if self.model is None:
            raise ValueError("a classifier must be given: the --output_dir of docsplit fit or docsplit train")


def read_options(
    kinds: Sequence[type],
    document: str,
    first: Sequence[str] = (),
    main: Collection[str] | None = None,
    words: list[str] | None = None,
) -> tuple[Any, ...]:
    """Parse the command line of a command, or other words, into dataclasses; wrong options end the process.

    Args:
        kinds: The dataclasses.
        document: The docstring of the command, whose first line the help shows.
        first: The options whose values may come first, without their names.
        main: The options that the short help shows. None: all.
        words: The command line. None: that of the process.
    """
    parser = PlainParser(kinds, description=document.split("\n")[0])
    return parse_arguments(parser, with_options(first, sys.argv[1:] if words is None else words), main)


def refuse_processes(command: str) -> None:
    """Raise ValueError under ``accelerate launch``: only training runs in several processes."""
    processes = os.environ.get("WORLD_SIZE", "1")
    if processes != "1":
        raise ValueError(f"docsplit {command} runs in one process, not in {processes}: leave out accelerate launch.")


class PlainParser(argparse.ArgumentParser):
    """What ``HfArgumentParser`` does for texts, numbers, lists of these, and switches that are off by default.

    Args:
        dataclass_types: Dataclasses whose fields have a ``help`` in their metadata, as those of ``option`` do; each is
            a group of the help, if it has a ``_argument_group_name``.
        description: The description of the command.
    """

    def __init__(self, dataclass_types: Sequence[type], description: str) -> None:
        super().__init__(description=description)
        self.dataclass_types = list(dataclass_types)
        for kind in self.dataclass_types:
            title = getattr(kind, "_argument_group_name", None)
            group = self if title is None else self.add_argument_group(title)
            hints = get_type_hints(kind)
            for one in fields(kind):
                names = [f"--{one.name}"]
                if "_" in one.name:
                    names.append(f"--{one.name.replace('_', '-')}")
                group.add_argument(*names, **_default(one), **_reading(hints[one.name]), **one.metadata)

    def parse_args_into_dataclasses(self, arguments: Sequence[str]) -> tuple[Any, ...]:
        """Parse a command line into an instance of each dataclass."""
        given = vars(self.parse_args(arguments))
        return tuple(kind(**{one.name: given[one.name] for one in fields(kind)}) for kind in self.dataclass_types)


def _default(one: Field) -> dict[str, Any]:
    """The default of an option, or that it is required."""
    if one.default_factory is not MISSING:
        return {"default": one.default_factory()}
    return {"required": True} if one.default is MISSING else {"default": one.default}


def _reading(hint: Any) -> dict[str, Any]:
    """How argparse reads values of a type, such as ``int | None``."""
    kind = next(one for one in get_args(hint) or (hint,) if one is not NoneType)
    if get_origin(hint) is list:
        return {"type": kind, "nargs": "+"}
    return {"type": _to_bool, "nargs": "?", "const": True} if kind is bool else {"type": kind}


def _to_bool(text: str) -> bool:
    if text.lower() not in TRUE + FALSE:
        raise argparse.ArgumentTypeError(f"expected yes or no, got {text}")
    return text.lower() in TRUE
