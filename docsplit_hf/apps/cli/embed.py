"""Embed the texts of a file: write its rows with their embeddings to a Parquet file.

    docsplit embed --dataset_name new.csv --text_column body --output embeddings.parquet

To continue an interrupted run, run the same command again: finished embeddings are kept in a folder beside the output.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm.auto import tqdm

from ...content_hash import sha256_of_parts
from ...encoding.chunking import SINGLE_CHUNK, SINGLE_VECTOR
from ...reading.files.failure_lists import list_of_failures
from ...reading.load_documents import load_documents
from ...reading.segmentation.segment_documents import check_text_column
from ...reading.text_warnings import sum_up_warnings
from ...storage.inside_folder import refuse_links
from .options import ALL_PRECISIONS, ENCODER_HELP, LONG_DOCUMENTS_HELP, option, read_options
from .run_command import script

if TYPE_CHECKING:
    import datasets

    from ...encoding.document_encoder import DocumentEncoder

PART_SIZE = 1_000  # a killed run loses the embeddings of one part


@dataclass
class EmbeddingArguments:
    """Input, output and encoder."""

    dataset_name: str | None = option(
        default=None,
        help="The texts to embed (required): a file, a folder or pattern of files, or a data set on the Hub.",
    )
    text_column: str = option(default="text", help="The column with the texts.")
    output: str = option(
        default="embeddings.parquet",
        help="The .parquet file for the rows of the input and the column 'embedding'.",
    )
    truncate_dim: int | None = option(
        default=None, help="Keep only this many leading dimensions, for encoders trained for it."
    )
    prompt: str | None = option(
        default=None,
        help="The text to put before each text, '' for none. Default: the encoder's prompt for classification, or else "
        "its default prompt, if it has one.",
    )
    max_passages: int | None = option(
        default=None,
        help="Read at most this many passages per text, with --long_documents average or whole. The unread fraction "
        "is logged. Default: all.",
    )
    dataset_split: str = option(default="train", help="Split of a data set on the Hub.")
    csv_separator: str | None = option(default=None, help="Column separator of a .csv file, if not a comma.")
    encoding: str | None = option(default=None, help="Encoding of files, if not UTF-8, such as cp1252.")
    model_name_or_path: str | None = option(default=None, help=ENCODER_HELP)
    max_length: int | None = option(default=None, help="Longest text in tokens. Default: the encoder's own.")
    long_documents: str = option(
        default="first",
        help=f"{LONG_DOCUMENTS_HELP}.",
        choices=list(SINGLE_VECTOR),
    )
    precision: str = option(
        default="float32",
        help="'bfloat16' is faster on processors that support it. 'int8' is the fastest on a CPU with VNNI, from a "
        "few thousand texts on, with slightly different embeddings: it uses OpenVINO (pip install -e "
        "'.[openvino]'), and is quantized on 200 of the texts.",
        choices=ALL_PRECISIONS,
    )


def read_rows(arguments: EmbeddingArguments) -> datasets.Dataset:
    """Read all rows, in order; raise if one cannot be embedded."""
    documents = load_documents(
        arguments.dataset_name,
        split=arguments.dataset_split,
        test_size=0,
        text_column=arguments.text_column,
        csv_separator=arguments.csv_separator,
        encoding=arguments.encoding,
    )["train"]
    check_text_column(documents, arguments.text_column)
    if "embedding" in documents.column_names:
        raise ValueError(f"{arguments.dataset_name} already has a column 'embedding': rename it.")
    for row, text in enumerate(documents[arguments.text_column]):
        if text is None:
            raise ValueError(f"Row {row} of {arguments.dataset_name} has no text: leave it out.")
    return documents


def load_encoder(arguments: EmbeddingArguments, rows: datasets.Dataset) -> DocumentEncoder:
    """Load the encoder in the requested precision; int8 is quantized on a random sample of the rows."""
    from ...encoding.document_encoder import DocumentEncoder  # here, as it imports torch
    from ...registration import register

    register()
    sampled: list[str] | None = None
    if arguments.precision == "int8":
        from ...encoding.backends.openvino.engine import CALIBRATION_TEXTS, MEASUREMENT_TEXTS

        sample = rows.shuffle(seed=0).select(range(min(CALIBRATION_TEXTS + MEASUREMENT_TEXTS, len(rows))))
        sampled = list(sample[arguments.text_column])
    return DocumentEncoder.from_pretrained(
        arguments.model_name_or_path,
        max_length=arguments.max_length,
        prompt=arguments.prompt,
        precision=arguments.precision,
        calibration_texts=sampled,
    )


def embed_rows(
    encoder: DocumentEncoder, rows: datasets.Dataset, arguments: EmbeddingArguments, cache: Path
) -> datasets.Dataset:
    """Add embeddings to the rows; the folder ``cache`` keeps finished parts for the next run."""
    import datasets

    options = {name: getattr(arguments, name) for name in ("long_documents", "truncate_dim", "max_passages")}
    fingerprint = encoder.fingerprint
    parts: list[datasets.Dataset] = []

    def embed(batch):
        show_progress = arguments.long_documents not in SINGLE_CHUNK  # for the passages of long texts
        return {"embedding": encoder.encode(batch[arguments.text_column], show_progress=show_progress, **options)}

    datasets.disable_progress_bars()  # one bar for all texts instead of one per part
    with tqdm(total=len(rows), desc="Embedding", unit="text") as progress:
        for start in range(0, len(rows), PART_SIZE):
            part = rows.select(range(start, min(start + PART_SIZE, len(rows))))
            content = json.dumps([fingerprint, options, part.to_list()], default=str)
            file = str(cache / f"{sha256_of_parts([content.encode()])}.arrow")
            parts.append(part.map(embed, batched=True, batch_size=PART_SIZE, cache_file_name=file))
            progress.update(len(part))
    return datasets.concatenate_datasets(parts)


def main() -> dict[str, Any]:
    """Embed a file; return the figures for ``--json``."""
    (arguments,) = read_options((EmbeddingArguments,), __doc__)
    if arguments.dataset_name is None:
        raise ValueError("--dataset_name must be given: a file, a folder, or a data set on the Hub")
    output = Path(arguments.output)
    if output.suffix.lower() != ".parquet":
        raise ValueError(f"{output}: embeddings are written as Parquet, so --output must end in .parquet.")
    if output.exists():
        raise ValueError(f"{output} exists already: choose another --output, or delete it.")
    with list_of_failures(output.parent):
        rows = read_rows(arguments)
    encoder = load_encoder(arguments, rows)
    cache = output.with_name(f"{output.name}.partial")
    cache.mkdir(parents=True, exist_ok=True)
    refuse_links(cache)
    with sum_up_warnings():
        embedded = embed_rows(encoder, rows, arguments, cache)
    embedded.to_parquet(cache / "all")
    os.replace(cache / "all", output)
    shutil.rmtree(cache)
    dimensions = len(embedded[0]["embedding"])
    print(f"{len(embedded):,} embeddings of {dimensions} dimensions: {output}, column 'embedding'.")
    return {"output": str(output), "embeddings": len(embedded), "dimensions": dimensions}


run = script(main, "Finished embeddings are kept: run the same command again to continue.")
