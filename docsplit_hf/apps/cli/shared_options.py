"""Options that several commands share, and their checks. Imports neither torch nor transformers."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ...storage import addresses

if TYPE_CHECKING:
    from ...arrays.store import Store

TOKEN_VARIABLE = "MILVUS_TOKEN"
OUTPUT_DIR = "output/classification"
READING_OPTIONS = ("text_column", "text_pair_column", "csv_separator", "encoding")  # of a file to classify
DATASET_HELP = (
    "A file, a folder, or a data set on the Hub. A file is .jsonl, .json, .csv, .tsv or .parquet; a folder has such "
    "files named train and optionally validation and test, or a folder of .txt files or documents (PDF, Word, HTML, "
    "mail and others) for each class. To try it: 'documentation', the documentation of installed packages, by package."
)


def check_address(address: str | None) -> None:
    """Raise ValueError if the option ``--datastore`` is no address of a collection."""
    if address is None:
        return
    if not addresses.is_address(address):
        raise ValueError(f"--datastore {address}: write milvus://HOST:19530/COLLECTION.")
    addresses.check_store_address(address)


def connect(address: str, **new: Any) -> Store:
    """Connect to a collection; ``new``: properties for creating it if it does not exist."""
    return addresses.open_address(
        address, token_variable=TOKEN_VARIABLE if TOKEN_VARIABLE in os.environ else None, **new
    )


def refuse_processes(command: str) -> None:
    """Raise ValueError under ``accelerate launch``: only training runs in several processes."""
    processes = os.environ.get("WORLD_SIZE", "1")
    if processes != "1":
        raise ValueError(f"docsplit {command} runs in one process, not in {processes}: leave out accelerate launch.")
