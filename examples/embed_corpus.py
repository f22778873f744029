"""Embed a corpus of any size into a folder of shards, by many tasks.

    docsplit embed-corpus --dataset_name documents.jsonl --output shards --tasks 64

The same command again goes on where it was stopped: shards that are finished are kept, all others are made anew.
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
from typing import Any

from encoder_arguments import DRAWN, EncoderArguments
from tqdm.auto import tqdm
from transformers import HfArgumentParser
from transformers.hf_argparser import HfArg

import docsplit_hf.corpus  # noqa: F401  it says how datatrove is installed, where it is not
from docsplit_hf.content_hash import sha256_of_parts
from docsplit_hf.shards import count_documents
from docsplit_hf.text.sources import refuse_mistyped_path
from docsplit_hf.training.command_line import parse_arguments, run_script

LOOK_EVERY = 0.5  # seconds


@dataclass
class CorpusArguments:
    """What to embed, where to, and by how many tasks."""

    dataset_name: str | None = HfArg(
        default=None,
        help="A .jsonl file, which is shared out; a folder of .jsonl (also .gz, .zst) or .parquet files, each of which "
        "one task reads; or a data set on the Hub. Must be given.",
    )
    output: str = HfArg(default="shards", help="The folder for the shards.")
    text_column: str = HfArg(default="text", help="The column with the texts.")
    id_column: str = HfArg(default="id", help="The column with ids, if there is one. Else an id says where a row was.")
    label_column: str | None = HfArg(default=None, help="The column with labels, if there is one.")
    tasks: int = HfArg(
        default=16, help="The number of shards, and of what is lost when killed. As many as cores, or more."
    )
    workers: int | None = HfArg(default=None, help="Tasks at a time. Default: as many as there are cores.")
    dtype: str = HfArg(
        default="float16", help="Of the embeddings on the disk.", metadata={"choices": ["float16", "float32"]}
    )
    keep_texts: bool = HfArg(default=True, help="Keep the texts in the shards, beside the embeddings.")
    dataset_config_name: str | None = HfArg(default=None, help="Configuration of a data set on the Hub.")
    dataset_split: str = HfArg(default="train", help="Split of a data set on the Hub.")


def make_reader(arguments: CorpusArguments) -> tuple[Any, dict[str, Any]]:
    """The block that reads the documents, and what it reads, as a folder of shards remembers it."""
    from datatrove.pipeline.readers import HuggingFaceDatasetReader, JsonlReader, ParquetReader

    from docsplit_hf.corpus import JsonlRangeReader

    path, options = Path(arguments.dataset_name), {"text_key": arguments.text_column, "id_key": arguments.id_column}
    if path.is_file():
        if path.suffix.lower() != ".jsonl":
            raise ValueError(f"{path} is no .jsonl file, and a task reads whole files: give a folder of many of them.")
        return JsonlRangeReader(path, **options), describe_files([path])
    refuse_mistyped_path(arguments.dataset_name)
    if not path.is_dir():
        loading = {"name": arguments.dataset_config_name, "split": arguments.dataset_split}
        reader = HuggingFaceDatasetReader(arguments.dataset_name, loading, streaming=True, **options)
        return reader, {"path": arguments.dataset_name, **loading}
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
    return readers[kinds[0]](str(path), glob_pattern=f"*{kinds[0]}*", **options), describe_files(files)


def describe_files(files: list[Path]) -> dict[str, Any]:
    """How many files there are, and a checksum of their names and sizes."""
    names = "".join(f"{file.name} {file.stat().st_size}\n" for file in files)
    return {"files": len(files), "sha256": sha256_of_parts([names.encode()])}


def calibration_texts(reader: Any, tasks: int) -> list[str]:
    """The first texts of tasks from all over the corpus."""
    asked = range(0, tasks, max(1, tasks // DRAWN))
    each = -(-DRAWN // len(asked))
    read = (islice(reader.run(rank=task, world_size=tasks), each) for task in asked)
    return [document.text for documents in read for document in documents]


@contextlib.contextmanager
def progress_shown(folder: Path, tasks: int) -> Iterator[None]:
    """A bar of the documents in the shards, whichever process writes them, with their rate."""
    done, start = threading.Event(), time.time()

    def look(progress: tqdm) -> None:
        rows, finished = count_documents(folder, tasks, since=start)
        progress.set_postfix_str(f"{finished} of {tasks} tasks finished", refresh=False)
        progress.update(rows - progress.n)

    def keep_looking(progress: tqdm) -> None:
        while not done.wait(LOOK_EVERY):
            look(progress)

    begun = count_documents(folder, tasks)[0]
    with tqdm(desc="Embedding", unit=" documents", initial=begun, smoothing=0) as progress:
        thread = threading.Thread(target=keep_looking, args=[progress], daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
            look(progress)


def main() -> dict[str, Any]:
    parser = HfArgumentParser((CorpusArguments, EncoderArguments), description=__doc__.split("\n")[0])
    arguments, given = parse_arguments(parser)
    if arguments.dataset_name is None:
        parser.error("--dataset_name must be given: a .jsonl file, a folder, or a data set on the Hub")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # there are as many processes as cores

    from datatrove.executor import LocalPipelineExecutor

    from docsplit_hf.corpus import EmbedDocuments

    folder, tasks = Path(arguments.output), arguments.tasks
    reader, source = make_reader(arguments)
    source |= {"text_column": arguments.text_column, "id_column": arguments.id_column}
    texts = None
    if given.precision == "int8":
        texts = calibration_texts(reader, tasks)
    options = {name: getattr(given, name) for name in ("max_length", "long_documents", "precision")}
    options |= {"model": given.model_name_or_path, "dtype": arguments.dtype, "keep_texts": arguments.keep_texts}
    options |= {"label_key": arguments.label_column, "source": source}
    block = EmbedDocuments(folder, calibration_texts=texts, **options)
    block.begin(tasks)  # what is wrong with the encoder or the folder shows before any task is started
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    workers, before, start = arguments.workers or min(cores, tasks), count_documents(folder, tasks)[0], time.monotonic()
    with progress_shown(folder, tasks):
        # The shards say which tasks are finished, and may have been deleted: not datatrove's own marks.
        run = {"tasks": tasks, "workers": workers, "logging_dir": str(folder / "logs"), "skip_completed": False}
        LocalPipelineExecutor([reader, block], **run).run()
    (documents, finished), seconds = count_documents(folder, tasks), time.monotonic() - start
    if finished < tasks:
        raise ValueError(f"{tasks - finished} of {tasks} tasks did not finish: {folder / 'logs'} says why.")
    if not documents:
        raise ValueError(f"No row has a text in {arguments.text_column!r}: name the column, and take a new folder.")
    rate = f"{documents - before:,} of them now, {(documents - before) / seconds:,.0f} a second"
    print(f"{documents:,} documents in {tasks} shards: {folder}. {rate}.")
    return {"output": arguments.output, "documents": documents, "shards": tasks}


if __name__ == "__main__":
    run_script(main, "The shards that are finished are kept: the same command again makes the others.")
