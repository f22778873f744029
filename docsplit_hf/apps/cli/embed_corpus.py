"""Embed a corpus of any size in parallel tasks, into a folder of shards.

    docsplit embed-corpus --dataset_name documents.jsonl --output shards --tasks 64

To continue an interrupted run, run the same command again: finished shards are kept, and the others are made again.
It needs datatrove: pip install -e ".[datatrove]".
"""

import contextlib
import math
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tqdm.auto import tqdm
from transformers import HfArgumentParser
from transformers.hf_argparser import HfArg

from ...content_hash import sha256_of_parts
from ...extras import check_extra
from ...reading.files.finding import refuse_mistyped_path
from ...storage.inside_folder import refuse_links
from ...storage.shards import DTYPES, count_documents
from ...training.command_line import parse_arguments, run_script
from .encoder_arguments import INT8_TEXTS, EncoderArguments

if TYPE_CHECKING:
    from datatrove.pipeline.readers.base import BaseDiskReader

check_extra("datatrove", "docsplit embed-corpus")

PROGRESS_INTERVAL = 0.5  # seconds


@dataclass
class CorpusArguments:
    """Input, output and number of tasks."""

    dataset_name: str | None = HfArg(
        default=None,
        help="Required. A .jsonl file, which is divided among the tasks; a folder of .jsonl (also .gz, .zst) or "
        ".parquet files, each read by one task; or a data set on the Hub.",
    )
    output: str = HfArg(default="shards", help="The folder for the shards.")
    text_column: str = HfArg(default="text", help="The column with the texts.")
    id_column: str = HfArg(default="id", help="The column with ids, if there is one. Default: the row number.")
    label_column: str | None = HfArg(default=None, help="The column with labels, if there is one.")
    tasks: int = HfArg(
        default=16, help="The number of shards; a killed run loses unfinished ones. Use at least as many as cores."
    )
    workers: int | None = HfArg(default=None, help="Number of tasks that run at a time. Default: the number of cores.")
    dtype: str = HfArg(
        default="float16", help="Data type of the stored embeddings.", metadata={"choices": list(DTYPES)}
    )
    keep_texts: bool = HfArg(default=True, help="Keep the texts in the shards, beside the embeddings.")
    dataset_config_name: str | None = HfArg(default=None, help="Configuration of a data set on the Hub.")
    dataset_split: str = HfArg(default="train", help="Split of a data set on the Hub.")


class Source(NamedTuple):
    """A corpus: the block that reads its documents, and its JSON description, which is stored with the shards."""

    reader: "BaseDiskReader"
    description: dict[str, Any]


def open_source(arguments: CorpusArguments) -> Source:
    """Make the block that reads the documents; raise if they cannot be divided among the tasks."""
    from datatrove.pipeline.readers import HuggingFaceDatasetReader, JsonlReader, ParquetReader

    from ...connectors.datatrove import JsonlRangeReader

    path = Path(arguments.dataset_name)
    if path.is_file():
        if path.suffix.lower() != ".jsonl":
            raise ValueError(
                f"Only a .jsonl file can be divided among tasks, not {path}. For other formats, give a folder with "
                "many files."
            )
        reader = JsonlRangeReader(path, text_key=arguments.text_column, id_key=arguments.id_column)
        return Source(reader, describe_files([path]))
    refuse_mistyped_path(arguments.dataset_name)
    if not path.is_dir():
        loading = {"name": arguments.dataset_config_name, "split": arguments.dataset_split}
        reader = HuggingFaceDatasetReader(
            arguments.dataset_name,
            loading,
            streaming=True,
            text_key=arguments.text_column,
            id_key=arguments.id_column,
        )
        return Source(reader, {"path": arguments.dataset_name, **loading})
    readers = {".jsonl": JsonlReader, ".parquet": ParquetReader}
    found = {kind: sorted(path.glob(f"*{kind}*")) for kind in readers}  # also .jsonl.gz and .jsonl.zst
    kinds = [kind for kind, files in found.items() if files]
    if len(kinds) != 1:
        raise ValueError(f"{path} needs files of exactly one of the kinds {list(readers)}, found {kinds or 'none'}.")
    files = found[kinds[0]]
    if len(files) < arguments.tasks:
        raise ValueError(
            f"{path} has {len(files)} files, and each task reads whole files: use --tasks {len(files)} or fewer, or "
            "split the files."
        )
    reader = readers[kinds[0]](
        str(path), glob_pattern=f"*{kinds[0]}*", text_key=arguments.text_column, id_key=arguments.id_column
    )
    return Source(reader, describe_files(files))


def describe_files(files: list[Path]) -> dict[str, int | str]:
    """Return the number of files, and a checksum of their names and sizes."""
    names = "".join(f"{file.name} {file.stat().st_size}\n" for file in files)
    return {"files": len(files), "sha256": sha256_of_parts([names.encode()])}


def calibration_texts(reader: "BaseDiskReader", tasks: int) -> list[str]:
    """Return the first texts of tasks spread evenly over the corpus."""
    chosen_tasks = range(0, tasks, max(1, tasks // INT8_TEXTS))
    texts_per_task = math.ceil(INT8_TEXTS / len(chosen_tasks))
    texts: list[str] = []
    for task in chosen_tasks:
        documents = reader.run(rank=task, world_size=tasks)
        texts += [document.text for document in islice(documents, texts_per_task)]
    return texts


@contextlib.contextmanager
def progress_shown(folder: Path, tasks: int) -> Iterator[None]:
    """Show a progress bar of all documents written so far, by any process."""
    done = threading.Event()
    start = time.time()

    def update(progress: tqdm) -> None:
        rows, finished = count_documents(folder, tasks, since=start)
        progress.set_postfix_str(f"{finished} of {tasks} tasks finished", refresh=False)
        progress.update(rows - progress.n)

    def keep_updating(progress: tqdm) -> None:
        while not done.wait(PROGRESS_INTERVAL):
            update(progress)

    documents_before, _ = count_documents(folder, tasks)
    with tqdm(desc="Embedding", unit=" documents", initial=documents_before, smoothing=0) as progress:
        thread = threading.Thread(target=keep_updating, args=[progress], daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
            update(progress)


def main() -> dict[str, Any]:
    """Embed a corpus; return the figures for ``--json``."""
    parser = HfArgumentParser((CorpusArguments, EncoderArguments), description=__doc__.split("\n")[0])
    arguments, encoder_arguments = parse_arguments(parser)
    if arguments.dataset_name is None:
        parser.error("--dataset_name must be given: a .jsonl file, a folder, or a data set on the Hub")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # a process already runs on each core

    from datatrove.executor import LocalPipelineExecutor

    from ...connectors.datatrove import EmbedDocuments

    folder = Path(arguments.output)
    logs = folder / "logs"
    if os.path.lexists(logs):
        refuse_links(logs)  # datatrove would follow links when it writes its logs
    tasks = arguments.tasks
    source = open_source(arguments)
    int8_texts = None
    if encoder_arguments.precision == "int8":
        int8_texts = calibration_texts(source.reader, tasks)
    columns = {"text_column": arguments.text_column, "id_column": arguments.id_column}
    block = EmbedDocuments(
        folder,
        model=encoder_arguments.model_name_or_path,
        max_length=encoder_arguments.max_length,
        long_documents=encoder_arguments.long_documents,
        precision=encoder_arguments.precision,
        calibration_texts=int8_texts,
        dtype=arguments.dtype,
        keep_texts=arguments.keep_texts,
        label_key=arguments.label_column,
        source=source.description | columns,
    )
    block.begin(tasks)  # raises errors of the encoder or the folder before any task starts
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    documents_before, _ = count_documents(folder, tasks)
    start = time.monotonic()
    with progress_shown(folder, tasks):
        executor = LocalPipelineExecutor(
            [source.reader, block],
            tasks=tasks,
            workers=arguments.workers or min(cores, tasks),
            logging_dir=str(logs),
            skip_completed=False,  # datatrove still counts a task as completed after its shard was deleted
        )
        executor.run()
    documents, finished = count_documents(folder, tasks)
    seconds = time.monotonic() - start
    if finished < tasks:
        raise ValueError(f"{tasks - finished} of {tasks} tasks did not finish: see the errors in {logs}.")
    if not documents:
        raise ValueError(f"No row has a text in {arguments.text_column!r}: pass --text_column, and a new --output.")
    new_documents = documents - documents_before
    rate = f"{new_documents:,} of them in this run, {new_documents / seconds:,.0f} per second"
    print(f"{documents:,} documents in {tasks} shards: {folder}. {rate}.")
    return {"output": arguments.output, "documents": documents, "shards": tasks}


def run() -> None:
    """Run the command."""
    run_script(main, "Finished shards are kept: run the same command again to make the rest.")
