"""Embed the texts of a file: its rows, each with an embedding, as a Parquet file.

    docsplit embed --dataset_name new.csv --text_column body --output embeddings.parquet

The same command again continues where it was stopped: finished texts are kept beside the output, a thousand a file.
"""

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datasets
from tqdm.auto import tqdm
from transformers import HfArgumentParser
from transformers.hf_argparser import HfArg

from ..content_hash import sha256_of_parts
from ..encoders.checkpoints.inside_folder import refuse_links
from ..encoders.chunking import SINGLE_CHUNK
from ..encoders.document_encoder import DocumentEncoder
from ..encoders.text_warnings import sum_up_warnings
from ..text.load_documents import load_documents
from ..text.segmentation.segment_documents import check_text_column
from ..training.command_line import parse_arguments, run_script
from .encoder_arguments import INT8_TEXTS, EncoderArguments

TEXTS_A_PART = 1_000  # a killed run loses the embeddings of one part
INT8_PAYS_FROM = 5_000  # short texts: fewer are embedded in float32 before int8 is prepared


@dataclass
class EmbeddingArguments:
    """What to embed, and where to."""

    dataset_name: str | None = HfArg(default=None, help="A file, a folder, or a data set on the Hub. Must be given.")
    text_column: str = HfArg(default="text", help="The column with the texts.")
    output: str = HfArg(
        default="embeddings.parquet", help="The .parquet file for the rows of the input with the column 'embedding'."
    )
    truncate_dim: int | None = HfArg(
        default=None, help="Give so many leading dimensions, of encoders trained with --matryoshka_dims."
    )
    max_passages: int | None = HfArg(
        default=None,
        help="Read so many passages of a text at most, with --long_documents average or whole. How much is not read is "
        "logged. Default: all.",
    )
    dataset_split: str = HfArg(default="train", help="Split of a data set on the Hub.")
    csv_separator: str | None = HfArg(default=None, help="What separates the columns of a .csv file, if no comma.")
    encoding: str | None = HfArg(default=None, help="Encoding of files, if not UTF-8, such as cp1252.")


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
        raise ValueError(f"{arguments.dataset_name} has a column 'embedding' already: rename it.")
    for row, text in enumerate(documents[arguments.text_column]):
        if text is None:
            raise ValueError(f"Row {row} of {arguments.dataset_name} has no text: leave it out.")
    return documents


def load_encoder(given: EncoderArguments, rows: datasets.Dataset, text_column: str) -> DocumentEncoder:
    """Load the encoder in the precision asked for; int8 is quantized on texts drawn from the rows with a fixed seed."""
    if given.precision != "int8":
        return DocumentEncoder.from_pretrained(
            given.model_name_or_path, max_length=given.max_length, precision=given.precision
        )
    if len(rows) < INT8_PAYS_FROM:
        print(
            "int8 is prepared on these texts first: with fewer than a thousand long or some thousand short ones, "
            "--precision float32 is faster."
        )
    drawn = rows.shuffle(seed=0).select(range(min(INT8_TEXTS, len(rows))))
    return DocumentEncoder.from_pretrained(
        given.model_name_or_path,
        max_length=given.max_length,
        precision="int8",
        backend="openvino",
        calibration_texts=list(drawn[text_column]),
    )


def embed_rows(
    encoder: DocumentEncoder, rows: datasets.Dataset, text_column: str, options: dict[str, Any], kept: Path
) -> datasets.Dataset:
    """Add embeddings to the rows, except those in the folder ``kept``; ``options`` are those of ``encode``."""
    fingerprint = encoder.fingerprint
    parts: list[datasets.Dataset] = []

    def embed(batch):
        show_progress = options["long_documents"] not in SINGLE_CHUNK  # over the passages of a text
        return {"embedding": encoder.encode(batch[text_column], show_progress=show_progress, **options)}

    with tqdm(total=len(rows), desc="Embedding", unit="text") as progress:
        for start in range(0, len(rows), TEXTS_A_PART):
            part = rows.select(range(start, min(start + TEXTS_A_PART, len(rows))))
            content = json.dumps([fingerprint, options, part.to_list()], default=str)
            file = str(kept / f"{sha256_of_parts([content.encode()])}.arrow")
            parts.append(part.map(embed, batched=True, batch_size=TEXTS_A_PART, cache_file_name=file))
            progress.update(len(part))
    return datasets.concatenate_datasets(parts)


def main() -> dict[str, Any]:
    """Embed a file; return the figures for ``--json``."""
    parser = HfArgumentParser((EmbeddingArguments, EncoderArguments), description=__doc__.split("\n")[0])
    arguments, given = parse_arguments(parser)
    if arguments.dataset_name is None:
        parser.error("--dataset_name must be given: a file, a folder, or a data set on the Hub")
    output = Path(arguments.output)
    if output.suffix.lower() != ".parquet":
        raise ValueError(f"{output}: embeddings are written as Parquet, so let --output end in .parquet.")
    if output.exists():
        raise ValueError(f"{output} is there already: choose another --output, or delete it.")
    rows = read_rows(arguments)
    encoder = load_encoder(given, rows, arguments.text_column)
    kept = output.with_name(f"{output.name}.partial")
    kept.mkdir(parents=True, exist_ok=True)
    refuse_links(kept)
    datasets.disable_progress_bars()  # one bar for all texts, not one a part
    with sum_up_warnings():
        options = {"long_documents": given.long_documents, "truncate_dim": arguments.truncate_dim}
        if arguments.max_passages is not None:
            options["max_passages"] = arguments.max_passages
        embedded = embed_rows(encoder, rows, arguments.text_column, options, kept)
    embedded.to_parquet(kept / "all")
    os.replace(kept / "all", output)
    shutil.rmtree(kept)
    dimensions = len(embedded[0]["embedding"])
    print(f"{len(embedded):,} embeddings of {dimensions} dimensions: {output}, column 'embedding'.")
    return {"output": str(output), "embeddings": len(embedded), "dimensions": dimensions}


def run() -> None:
    """Run the command."""
    run_script(main, "What was embedded is kept: the same command again goes on where it was.")
