"""load_documents: texts from the Hub, from files, or from a folder, as a data set with train and test."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .paths import refuse_mistyped_path

if TYPE_CHECKING:
    from datasets import Dataset, IterableDataset

STREAM_BUFFER = 1_000  # documents
FILE_FORMATS = {".jsonl": "json", ".json": "json", ".csv": "csv", ".parquet": "parquet", ".txt": "text"}


def load_documents(
    source: str,
    config_name: str | None = None,
    split: str = "train",
    streaming: bool = False,
    test_size: int = 500,
    seed: int = 0,
) -> dict[str, Dataset | IterableDataset]:
    """Load unlabelled documents from wherever they are.

    Args:
        source: A data set on the Hub; a ``.jsonl``, ``.json``, ``.csv``, ``.parquet`` or ``.txt`` file (also
            compressed with gzip); or a folder. A ``.txt`` file is a document a line when given by itself, and one
            document when it lies in a folder, where ``.txt`` files are looked for at any depth.
        config_name: The configuration of a data set on the Hub.
        split: The split of it.
        streaming: Read as you go instead of downloading and converting first. The training documents are shuffled
            through a buffer of 1,000, so that a batch does not hold neighbors only; each data loader worker shuffles
            what it reads, so their order depends on the number of workers.
        test_size: Documents to hold out: drawn at random, but at most a tenth of all; from a stream, the first ones,
            which are read at once. 0 holds none out.
        seed: Decides which documents are held out, and the order of a stream.

    Returns:
        ``train`` and, with ``test_size`` above 0, ``test``, which is a ``Dataset`` in any case.

    Raises:
        FileNotFoundError: If the source looks like a path and there is nothing there, or a folder holds no text.
        ValueError: If the file's format is unknown, or there are too few documents to hold any out.

    Example:

        >>> import pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> for i in range(20):
        ...     _ = (folder / f"{i}.txt").write_text(f"Document {i}. It has two sentences.")
        >>> documents = load_documents(str(folder))
        >>> {name: len(split) for name, split in documents.items()}
        {'train': 18, 'test': 2}
    """
    import datasets

    path = Path(source)
    if path.is_dir():
        texts = sorted(str(file) for file in path.rglob("*.txt"))
        if not texts:
            raise FileNotFoundError(f"The folder {source} holds no .txt file. Give a file, or a data set on the Hub.")
        loaded = datasets.load_dataset(
            "text", data_files=texts, sample_by="document", split="train", streaming=streaming
        )
    elif path.is_file():
        suffix = Path(path.stem).suffix if path.suffix == ".gz" else path.suffix
        if suffix not in FILE_FORMATS:
            raise ValueError(
                f"The format of {source} is unknown. Known endings: {sorted(FILE_FORMATS)}, also with .gz."
            )
        loaded = datasets.load_dataset(FILE_FORMATS[suffix], data_files=str(path), split="train", streaming=streaming)
    else:
        refuse_mistyped_path(source)
        if path.suffix in {*FILE_FORMATS, ".gz"}:
            raise FileNotFoundError(f"There is no file {source!r}.")
        loaded = datasets.load_dataset(source, config_name, split=split, streaming=streaming)
    return _hold_out(loaded, test_size, seed)


def _hold_out(dataset: Dataset | IterableDataset, test_size: int, seed: int) -> dict[str, Dataset | IterableDataset]:
    import datasets

    if isinstance(dataset, datasets.IterableDataset):
        held_out = list(dataset.take(test_size))
        if len(held_out) < test_size:
            raise ValueError(
                f"The stream ends after {len(held_out)} documents, and test_size={test_size} would hold out all of "
                f"them: lower test_size (to {len(held_out) // 10}, say), or do without streaming."
            )
        # By content, not by position: each data loader worker skips in its own shards.
        train = dataset.filter(_NotAmong({_fingerprint(row) for row in held_out})) if held_out else dataset
        splits = {"train": train.shuffle(seed=seed, buffer_size=STREAM_BUFFER)}
        return {**splits, "test": datasets.Dataset.from_list(held_out)} if held_out else splits
    if test_size == 0:
        return datasets.DatasetDict({"train": dataset})
    if len(dataset) < 20:
        raise ValueError(
            f"{len(dataset)} documents are too few to hold any out for evaluation: give more, or set test_size=0. "
            "(A .txt file is a document a line; the .txt files in a folder are a document each.)"
        )
    return dataset.train_test_split(test_size=min(test_size, len(dataset) // 10), seed=seed)


def _fingerprint(row: dict[str, Any]) -> bytes:
    return hashlib.blake2b(repr(sorted(row.items())).encode("utf-8", "surrogatepass"), digest_size=16).digest()


class _NotAmong:
    """Whether a row is none of those with the given fingerprints."""

    def __init__(self, fingerprints: set[bytes]) -> None:
        self.fingerprints = fingerprints

    def __call__(self, row: dict[str, Any]) -> bool:
        return _fingerprint(row) not in self.fingerprints
