"""Every block of code in README.md, docs/ and skills/ is a test; and what is slow by nature is marked so."""

import os
import signal
import sys
from pathlib import Path

# Before anything imports the libraries, which read them once. Without the first, what is not there is asked of the Hub
# again and again: a minute of waiting for each.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # tiny models gain nothing from two threads, and workers share them

import pytest
from sybil import Sybil
from sybil.parsers.markdown import CodeBlockParser, SkipParser

from tests.code_blocks import check_commands, check_output, enter_folder, leave_folder, run_python

# Each process would compile every file again, of the tests, too: a third of the time of short ones.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as for a job in the background: tests press Ctrl-C
    signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).parent
# All tests of these are slow; others have the mark in their code. The commands run on README.md with each change, too.
SLOW = (
    "docs/",
    "skills/",
    "tests/benchmarks/",
    "tests/distributed/",
    "tests/end_to_end/",
    "tests/experiments/",
    "tests/figures/",
    "tests/hub/",
    "tests/test_installation.py",
    "tests/test_notebooks.py",
    "tests/test_site.py",
)
pytest_collect_file = Sybil(
    parsers=[
        CodeBlockParser("python", run_python),
        CodeBlockParser("text", check_output),
        CodeBlockParser("bash", check_commands),
        SkipParser(),
    ],
    patterns=["README.md", "CONTRIBUTING.md", "docs/*.md", "docs/reference/*.md", "skills/docsplit/*.md"],
    excludes=["docs/results/*", "docsplit-small-en/*", "space/*", "model_cards/*"],
    setup=enter_folder,
    teardown=leave_folder,
).pytest()


def is_slow(path):
    return path.relative_to(ROOT).as_posix().startswith(SLOW)


def pytest_ignore_collect(collection_path, config):
    """Leave out of ``make test`` files of which it runs nothing, as their imports take seconds."""
    return (config.option.markexpr == "not slow" and is_slow(collection_path)) or None


def pytest_collection_modifyitems(items):
    for item in items:
        if is_slow(item.path):
            item.add_marker(pytest.mark.slow)
