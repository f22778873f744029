"""What scripts import from the package is there; some import rivals that are not installed, so they are only parsed."""

import ast
import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = [script for folder in ("benchmarks", "experiments") for script in sorted((ROOT / folder).rglob("*.py"))]


def imports_of(script):
    for node in ast.walk(ast.parse(script.read_text())):
        if isinstance(node, ast.ImportFrom) and not node.level and node.module.split(".")[0] == "docsplit_hf":
            yield from ((node.module, name.name) for name in node.names)


def is_there(module, name):
    return hasattr(importlib.import_module(module), name) or importlib.util.find_spec(f"{module}.{name}") is not None


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_names_from_the_package_exist(script):
    assert [found for found in imports_of(script) if not is_there(*found)] == []
