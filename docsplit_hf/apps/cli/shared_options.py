"""Options that several commands share, and their checks. Imports neither torch nor transformers."""

from __future__ import annotations

import os

OUTPUT_DIR = "output/classification"
SHIPPED = "docsplit-small-en"  # DEFAULT_CHECKPOINT of encoding/checkpoints/checkpoint.py, which imports torch
ENCODER_HELP = f"An encoder on the Hub or a folder. Default: {SHIPPED}, which is included."
ALL_PRECISIONS = ("float32", "bfloat16", "int8")  # PRECISIONS of encoding/backends/precision.py, which imports torch
READING_OPTIONS = ("text_column", "text_pair_column", "csv_separator", "encoding")  # of a file to classify
DATASET_HELP = (
    "A file, a folder, or a data set on the Hub. A file is .jsonl, .json, .csv, .tsv or .parquet; a folder has such "
    "files named train and optionally validation and test, or a folder of .txt files or documents (PDF, Word, HTML, "
    "mail and others) for each class. To try it: 'documentation', the documentation of installed packages, by package."
)


def refuse_processes(command: str) -> None:
    """Raise ValueError under ``accelerate launch``: only training runs in several processes."""
    processes = os.environ.get("WORLD_SIZE", "1")
    if processes != "1":
        raise ValueError(f"docsplit {command} runs in one process, not in {processes}: leave out accelerate launch.")
