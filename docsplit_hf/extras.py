"""The extras in setup.cfg: their libraries, and the commands and options that need them, checked before any work."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence

# The modules that each extra installs, by their import names.
LIBRARIES = {
    "datatrove": ("datatrove",),
    "demo": ("gradio",),
    "endpoint": ("openai",),
    "experiments": ("matplotlib", "nltk", "spacy"),
    "files": ("charset_normalizer", "olefile", "pypdfium2", "python_calamine", "selectolax", "striprtf"),
    "ocr": ("rapidocr", "onnxruntime"),
    "old-files": ("xberg",),
    "onnx": ("onnx", "onnxruntime"),
    "openvino": ("openvino", "nncf"),
    "serve": ("fastapi", "uvicorn", "httptools", "pydantic", "prometheus_client", "python_multipart"),
    "tensorboard": ("tensorboard",),
    "watch": ("watchfiles",),
}
EXTRA_OF_COMMAND = {"demo": "demo", "export": "onnx", "serve": "serve", "watch": "watch"}
# The extra that an option needs with a value.
EXTRA_OF_OPTION = {
    ("--ocr", "rapidocr"): "ocr",
    ("--precision", "int8"): "openvino",
    ("--teacher_precision", "int8"): "openvino",
    ("--report_to", "tensorboard"): "tensorboard",
}


def is_full_installation() -> bool:
    """Return whether torch and transformers are installed: a small installation, which only answers, has neither."""
    return all(importlib.util.find_spec(name) is not None for name in ("torch", "transformers"))


def check_full_installation(what: str) -> None:
    """Raise ``ModuleNotFoundError`` if torch or transformers is missing; ``what`` names the feature that needs them."""
    if not is_full_installation():
        raise ModuleNotFoundError(f"{what} needs torch and transformers: pip install -e . in the clone of docsplit_hf.")


def install_line(extra: str) -> str:
    """Return the command that installs an extra from a clone of docsplit_hf, which is not on a package index."""
    return f"""pip install -e ".[{extra}]" (in the clone of docsplit_hf)"""


def check_extra(extra: str, what: str) -> None:
    """Raise ``ModuleNotFoundError`` if a library of an extra is missing; ``what`` names the feature that needs it."""
    if missing := _missing(extra):
        verb = "is" if len(missing) == 1 else "are"
        raise ModuleNotFoundError(
            f"{what} needs {' and '.join(missing)}, which {verb} not installed: {install_line(extra)}."
        )


def check_command(command: str, words: Sequence[str]) -> None:
    """Raise ``ModuleNotFoundError`` if a command line needs a missing library, before the command is imported."""
    for option, values in options_of(words):
        for value in values:
            # ONNX Runtime makes the int8 of an export.
            if (option, value) in EXTRA_OF_OPTION and command != "export":
                check_extra(EXTRA_OF_OPTION[option, value], f"docsplit {command} {option} {value}")
    if command in EXTRA_OF_COMMAND:
        check_extra(EXTRA_OF_COMMAND[command], f"docsplit {command}")


def options_of(words: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield the options of a command line, each with its values."""
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
    """The libraries of an extra that are not installed."""
    return [name for name in LIBRARIES[extra] if importlib.util.find_spec(name) is None]
