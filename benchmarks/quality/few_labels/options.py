"""The common options of benchmarks with tasks and a frozen encoder."""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.inputs import default_model

RELIABILITY = Path(__file__).parents[3] / "docs" / "results" / "reliability"


def task_parser(description: str) -> argparse.ArgumentParser:
    """A parser with the common options; a benchmark adds its own."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--tasks", nargs="+", required=True, help="Folders with train.jsonl and test.jsonl.")
    add("--encoder", default=default_model(), help="Any encoder. Default: the installed all-MiniLM-L6-v2.")
    add("--embeddings", default="output/embeddings", help="Where they are kept. Default: %(default)s.")
    add("--output", type=Path, default=RELIABILITY, help="Folder for records and report. Default: %(default)s.")
    return parser


def encoder_name(encoder: str) -> str:
    """The name of an encoder in records."""
    return "all-MiniLM-L6-v2" if encoder == default_model() else Path(encoder).name
