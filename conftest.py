"""Every block of code in README.md, docs/ and skills/ is a test."""

import os

# Before anything imports the libraries, which read them once. Without the first, what is not there is asked of the Hub
# again and again: a minute of waiting for each.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # tiny models gain nothing from two threads, and workers share them

from sybil import Sybil
from sybil.parsers.markdown import CodeBlockParser, SkipParser

from tests.code_blocks import check_commands, check_output, enter_folder, leave_folder, run_python

collect_ignore = ["docsplit_hf/apps/page"]  # without doctests, and gradio takes seconds to import in each worker
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
