"""The libraries that only some commands need: checked before any work, and the line that installs them."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence

# What is imported of each extra of setup.cfg.
LIBRARIES = {
    "datatrove": ("datatrove",),
    "demo": ("gradio",),
    "endpoint": ("openai",),
    "evaluation": ("matplotlib",),
    "experiments": ("matplotlib", "nltk", "spacy"),
    "label": ("prompt_toolkit",),
    "mcp": ("gradio", "mcp"),
    "milvus": ("pymilvus",),
    "mteb": ("mteb",),
    "openvino": ("openvino", "nncf"),
    "peft": ("peft",),
    "tensorboard": ("tensorboard",),
}
OF_COMMANDS = {"demo": "demo", "embed-corpus": "datatrove", "label": "label"}
# By an option and one of its values; None: any value, or none.
OF_OPTIONS = {
    ("--mcp", None): "mcp",
    ("--precision", "int8"): "openvino",
    ("--teacher_precision", "int8"): "openvino",
    ("--datastore", None): "milvus",
    ("--use_peft", None): "peft",
    ("--report_to", "tensorboard"): "tensorboard",
}
OFF = ("False", "false", "no", "0")


def is_installed(extra: str) -> bool:
    """Whether all libraries of an extra are there."""
    return not _missing(extra)


def install_line(extra: str) -> str:
    """How to install an extra: docsplit_hf is on no package index, so it is installed from a clone."""
    return f"""pip install -e ".[{extra}]" (in the clone of docsplit_hf)"""


def check_extra(extra: str, what: str) -> None:
    """Raise if a library of an extra is missing; ``what`` needs it."""
    if missing := _missing(extra):
        verb = "is" if len(missing) == 1 else "are"
        raise ModuleNotFoundError(
            f"{what} needs {' and '.join(missing)}, which {verb} not installed: {install_line(extra)}."
        )


def check_command(command: str, words: Sequence[str]) -> None:
    """Raise if a command line needs a library that is missing, before anything is imported or computed."""
    for option, values in _options(words):
        for value in (None, *values):
            if (option, value) in OF_OPTIONS and not (values and values[0] in OFF):
                shown = option if value is None else f"{option} {value}"
                check_extra(OF_OPTIONS[option, value], f"docsplit {command} {shown}")
    if command in OF_COMMANDS:
        check_extra(OF_COMMANDS[command], f"docsplit {command}")


def _options(words: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """The options of a command line, each with its values."""
    option: str | None = None
    values: list[str] = []
    for word in words:
        if word.startswith("--"):
            if option is not None:
                yield option, values
            option, equals, value = word.partition("=")
            values = [value] if equals else []
        else:
            values.append(word)
    if option is not None:
        yield option, values


def _missing(extra: str) -> list[str]:
    return [name for name in LIBRARIES[extra] if importlib.util.find_spec(name) is None]
