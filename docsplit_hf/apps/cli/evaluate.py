"""Compare encoders and word counts on your documents: tables, and every number.

A file with a column of texts and a column of labels, and any checkpoints:

    docsplit evaluate --models output/pretrain sentence-transformers/all-MiniLM-L6-v2 tfidf \
        --tasks my.csv --shots 1 5 20 --output_dir output/mine

Without labels, by how well one half of a text finds the other:

    docsplit evaluate --models output/pretrain docsplit-small-en --tasks my.csv --protocol half_documents

To try it without a network: --tasks documentation, the documentation of installed packages.
"""

from __future__ import annotations

import logging
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...encoding.chunking import SINGLE_VECTOR
from ...evaluation.settings import ComparisonSettings
from ...reading.files.failure_lists import list_of_failures
from ...storage.inside_folder import write_file
from .options import LONG_DOCUMENTS_HELP, SHIPPED, option, read_options
from .run_command import script


@dataclass
class EvaluationArguments:
    """Systems, tasks and output."""

    models: list[str] = option(
        default=[],
        help=f"The systems to compare (required): tfidf (word counts), {SHIPPED} (included), folders with a "
        "checkpoint, models on the Hub, or https://HOST/v1#MODEL for an endpoint. At the end, '#name=NAME' sets a name "
        "for the tables; '#pooling=mean' and '#prompt=TEXT' are further options.",
    )
    tasks: list[str] = option(
        default=[],
        help="The texts to compare them on (required): your files and folders. Tables are .jsonl, .csv or .parquet, "
        "with --text_column and --label_column. To try it: 'documentation', the documentation of installed packages, "
        "by package.",
    )
    text_column: str = option(default="text", help="The column with the texts.")
    label_column: str = option(default="label", help="The column with the labels.")
    csv_separator: str | None = option(default=None, help="Column separator of .csv files, if not a comma.")
    encoding: str | None = option(default=None, help="Encoding of files, if not UTF-8, such as cp1252.")
    long_documents: list[str] = option(
        default=["first"],
        help=f"{LONG_DOCUMENTS_HELP}. Several values are compared.",
        choices=list(SINGLE_VECTOR),
    )
    bf16: bool = option(default=False, help="Compute embeddings in bfloat16.")
    output_dir: str = option(default="output/evaluation", help="Folder for results.json and results.md.")

    def __post_init__(self) -> None:
        if not self.models:
            raise ValueError(f"--models must be given: tfidf, {SHIPPED}, a folder, or a model on the Hub.")
        if not self.tasks:
            raise ValueError("--tasks must be given: your files and folders, or documentation.")


def main() -> dict[str, Any]:
    """Evaluate systems on tasks; return the figures for ``--json``."""
    arguments, settings = read_options((EvaluationArguments, ComparisonSettings), __doc__)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    from ...evaluation.comparison import Record, as_json, compare, load_task, tables  # here, as it imports torch
    from ...evaluation.systems import load_systems
    from ...registration import register

    register()
    folder = Path(arguments.output_dir)
    with list_of_failures(arguments.output_dir):
        tasks = [
            load_task(
                name,
                settings,
                text_column=arguments.text_column,
                label_column=arguments.label_column,
                csv_separator=arguments.csv_separator,
                encoding=arguments.encoding,
            )
            for name in arguments.tasks
        ]
    systems = load_systems(arguments.models, arguments.long_documents, settings.max_length, arguments.bf16)
    folder.mkdir(parents=True, exist_ok=True)
    records: list[Record] = []
    for record in compare(systems, tasks, settings):
        records.append(record)
        write_file(folder / "results.json", as_json(records))  # a stopped run keeps what it has measured
    if not records:
        raise ValueError("Nothing was measured: give texts with labels, or --protocol half_documents.")
    text = tables(records)
    command = shlex.join(["docsplit", "evaluate", *sys.argv[1:]])
    write_file(folder / "results.md", f"# Evaluation\n\n```bash\n{command}\n```\n\n{text}")
    print(f"\n{text}\nAll tables: {folder / 'results.md'}\nEvery number, with its seed: {folder / 'results.json'}")
    return {"output_dir": arguments.output_dir, "records": [record._asdict() for record in records]}


run = script(main, "What was measured is in results.json.")
