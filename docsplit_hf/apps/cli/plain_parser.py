"""Parse options into dataclasses as transformers does, without importing it: for commands that answer in a second."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import field, fields
from types import NoneType
from typing import Any, get_args, get_type_hints

TRUE = ("yes", "true", "t", "y", "1")
FALSE = ("no", "false", "f", "n", "0")


def option(default: Any, help: str) -> Any:
    """The field of an option, as ``HfArg`` makes it."""
    return field(default=default, metadata={"help": help})


class PlainParser(argparse.ArgumentParser):
    """What ``HfArgumentParser`` does for options that are texts, numbers, or switches that are off by default.

    Args:
        dataclass_types: Dataclasses whose fields were made by ``option``, each a group of the help, if it has a
            ``_argument_group_name``.
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
                group.add_argument(*names, default=one.default, **_reading(hints[one.name]), **one.metadata)

    def parse_args_into_dataclasses(self, arguments: Sequence[str]) -> tuple[Any, ...]:
        """Parse a command line into an instance of each dataclass."""
        given = vars(self.parse_args(arguments))
        return tuple(kind(**{one.name: given[one.name] for one in fields(kind)}) for kind in self.dataclass_types)


def _reading(hint: Any) -> dict[str, Any]:
    """How argparse reads values of a type, such as ``int | None``."""
    kind = next(one for one in get_args(hint) or (hint,) if one is not NoneType)
    return {"type": _to_bool, "nargs": "?", "const": True} if kind is bool else {"type": kind}


def _to_bool(text: str) -> bool:
    if text.lower() not in TRUE + FALSE:
        raise argparse.ArgumentTypeError(f"expected yes or no, got {text}")
    return text.lower() in TRUE
