"""Embed a corpus of any size into a folder of shards, by many tasks.

    docsplit embed-corpus --dataset_name documents.jsonl --output shards --tasks 64

The same command again continues where it was stopped: finished shards are kept, all others are made again.
It needs datatrove: pip install -e ".[datatrove]".
"""

import contextlib
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

from ..content_hash import sha256_of_parts
from ..extras import check_extra
from ..shards import count_documents
from ..text.sources import refuse_mistyped_path
from ..training.command_line import parse_arguments, run_script
from .encoder_arguments import INT8_TEXTS, EncoderArguments

if TYPE_CHECKING:
    from datatrove.pipeline.readers.base import BaseDiskReader

check_extra("datatrove", "docsplit embed-corpus")

PROGRESS_INTERVAL = 0.5  # seconds


@dataclass
class CorpusArguments:
    """What to embed, where to, and by how many tasks."""

    dataset_name: str | None = HfArg(
        default=None,
        help="A .jsonl file, which the tasks share; a folder of .jsonl (also .gz, .zst) or .parquet files, each "
        "read by one task; or a data set on the Hub. Must be given.",
    )
    output: str = HfArg(default="shards", help="The folder for the shards.")
    text_column: str = HfArg(default="text", help="The column with the texts.")
    id_column: str = HfArg(
        default="id", help="The column with ids, if there is one. Default: made of the rows' places."
    )
    label_column: str | None = HfArg(default=None, help="The column with labels, if there is one.")
    tasks: int = HfArg(
        default=16, help="The number of shards; a killed run loses unfinished ones. As many as cores, or more."
    )
    workers: int | None = HfArg(default=None, help="Tasks at a time. Default: as many as there are cores.")
    dtype: str = HfArg(
        default="float16", help="Of the embeddings on the disk.", metadata={"choices": ["float16", "float32"]}
    )
    keep_texts: bool = HfArg(default=True, help="Keep the texts in the shards, beside the embeddings.")
    dataset_config_name: str | None = HfArg(default=None, help="Configuration of a data set on the Hub.")
    dataset_split: str = HfArg(default="train", help="Split of a data set on the Hub.")


class Source(NamedTuple):
    """A corpus: the block that reads its documents, and a JSON description that a folder of shards keeps."""

    reader: "BaseDiskReader"
    description: dict[str, Any]


def open_source(arguments: CorpusArguments) -> Source:
    """Make the block that reads the documents; raise if the tasks cannot share them."""
    from datatrove.pipeline.readers import HuggingFaceDatasetReader, JsonlReader, ParquetReader

    from ..corpus import JsonlRangeReader

    path = Path(arguments.dataset_name)
    if path.is_file():
        if path.suffix.lower() != ".jsonl":
            raise ValueError(f"{path} is no .jsonl file, and a task reads whole files: give a folder of many of them.")
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
        raise ValueError(f"{path} holds files of {kinds or 'none'} of the kinds {list(readers)}: one is wanted.")
    files = found[kinds[0]]
    if len(files) < arguments.tasks:
        raise ValueError(
            f"{path} has {len(files)} files, and a task reads whole files: take --tasks {len(files)} at most, or cut "
            "the files up."
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
    texts_per_task = -(-INT8_TEXTS // len(chosen_tasks))
    texts: list[str] = []
    for task in chosen_tasks:
        documents = reader.run(rank=task, world_size=tasks)
        texts += [document.text for document in islice(documents, texts_per_task)]
    return texts


@contextlib.contextmanager
def progress_shown(folder: Path, tasks: int) -> Iterator[None]:
    """Show a progress bar of the documents in the shards, by all processes, with their rate."""
    done = threading.Event()
    start = time.time()

    def update(progress: tqdm) -> None:
        rows, finished = count_documents(folder, tasks, since=start)
        progress.set_postfix_str(f"{finished} of {tasks} tasks finished", refresh=False)
        progress.update(rows - progress.n)

    def keep_updating(progress: tqdm) -> None:
        while not done.wait(PROGRESS_INTERVAL):
            update(progress)

    begun = count_documents(folder, tasks)[0]
    with tqdm(desc="Embedding", unit=" documents", initial=begun, smoothing=0) as progress:
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
    arguments, given = parse_arguments(parser)
    if arguments.dataset_name is None:
        parser.error("--dataset_name must be given: a .jsonl file, a folder, or a data set on the Hub")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # each core has a process already

    from datatrove.executor import LocalPipelineExecutor

    from ..corpus import EmbedDocuments

    folder = Path(arguments.output)
    tasks = arguments.tasks
    source = open_source(arguments)
    columns = {"text_column": arguments.text_column, "id_column": arguments.id_column}
    block = EmbedDocuments(
        folder,
        model=given.model_name_or_path,
        max_length=given.max_length,
        long_documents=given.long_documents,
        precision=given.precision,
        calibration_texts=calibration_texts(source.reader, tasks) if given.precision == "int8" else None,
        dtype=arguments.dtype,
        keep_texts=arguments.keep_texts,
        label_key=arguments.label_column,
        source=source.description | columns,
    )
    block.begin(tasks)  # errors of the encoder or the folder show before any task is started
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    documents_before, _ = count_documents(folder, tasks)
    start = time.monotonic()
    with progress_shown(folder, tasks):
        executor = LocalPipelineExecutor(
            [source.reader, block],
            tasks=tasks,
            workers=arguments.workers or min(cores, tasks),
            logging_dir=str(folder / "logs"),
            skip_completed=False,  # datatrove's own marks stay when a shard is deleted
        )
        executor.run()
    documents, finished = count_documents(folder, tasks)
    seconds = time.monotonic() - start
    if finished < tasks:
        raise ValueError(f"{tasks - finished} of {tasks} tasks did not finish: {folder / 'logs'} has the errors.")
    if not documents:
        raise ValueError(f"No row has a text in {arguments.text_column!r}: name the column, and take a new folder.")
    new_documents = documents - documents_before
    rate = f"{new_documents:,} of them now, {new_documents / seconds:,.0f} a second"
    print(f"{documents:,} documents in {tasks} shards: {folder}. {rate}.")
    return {"output": arguments.output, "documents": documents, "shards": tasks}


def run() -> None:
    """Run the command."""
    run_script(main, "The shards that are finished are kept: the same command again makes the others.")
