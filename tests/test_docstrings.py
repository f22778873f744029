"""The examples in docstrings give what they show."""

import doctest
import importlib

import pytest

from .commands import ROOT

FILES = sorted(file for file in (ROOT / "docsplit_hf").rglob("*.py") if ">>> " in file.read_text(encoding="utf-8"))
MODULES = [".".join(file.relative_to(ROOT).with_suffix("").parts) for file in FILES]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name):
    results = doctest.testmod(importlib.import_module(name))
    assert not results.failed
