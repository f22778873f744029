"""Start a worker without importing the rest of docsplit_hf, which takes seconds: this file is run by its path."""

from __future__ import annotations

import importlib
import sys
import types
from pathlib import Path


def make_packages() -> None:
    """Make the packages of the worker without running their ``__init__``."""
    folder = Path(__file__).resolve().parent
    for name, path in (("docsplit_hf", folder.parents[1]), ("docsplit_hf.reading", folder.parent)):
        package = types.ModuleType(name)
        package.__path__ = [str(path)]
        sys.modules[name] = package


def start() -> None:
    """Run the worker."""
    make_packages()
    importlib.import_module("docsplit_hf.reading.files.worker").main()


if __name__ == "__main__":
    start()
