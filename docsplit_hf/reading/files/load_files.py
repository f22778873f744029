"""Load a folder of files as a data set."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...content_hash import sha256_of_parts
from ..characters import replace_lone_surrogates
from .cache import unfinished
from .failure_lists import line_of, report_failures
from .failures import FailedFile
from .finding import find_files, relative_name
from .options import FileOptions
from .reader import read_files

if TYPE_CHECKING:
    from datasets import Dataset, Features

ROWS_PER_BATCH = 64


def default_cache_dir() -> Path:
    """The folder ``docsplit_hf/files`` below ``HF_HOME``."""
    from huggingface_hub import constants

    return Path(constants.HF_HOME) / "docsplit_hf" / "files"


def load_files(
    source: str | Path | Sequence[str | Path],
    options: FileOptions | None = None,
    *,
    labels: bool | None = None,
    processes: int | None = None,
    cache_dir: str | Path | None = None,
    failed_file: str | Path | None = None,
    show_progress: bool = True,
) -> Dataset:
    """Load files as a data set with a row for each file.

    Args:
        source: A folder, which is read with its sub-folders, a pattern such as ``"inbox/**/*.pdf"``, or a list of
            files.
        options: Limits, cleaning and OCR.
        labels: Whether the first sub-folder of each file is its label. None: if all files of a folder are in at least
            two sub-folders.
        processes: Number of processes that read. None: one per core.
        cache_dir: Folder of the texts of files that were read before. None: ``docsplit_hf/files`` below ``HF_HOME``.
        failed_file: A CSV file to write, with the files that were not read, the reasons and the remedies.
        show_progress: Whether to show a progress bar.

    Returns:
        A data set on the disk with the columns ``text``; ``file``, the path below the folder, or as it was given;
        ``places``, a list of ``kind``, ``name``, ``start`` and ``end``; and ``label``, if sub-folders are labels. Files
        that fail have no row; they are counted in the log by reason.

    Raises:
        FileNotFoundError: If there is no file.
        ValueError: If no file can be read, or ``labels`` is true and a file is in no sub-folder.
    """
    import datasets
    from datasets.arrow_writer import ArrowWriter

    root = Path(source) if isinstance(source, str | Path) and os.path.isdir(source) else None
    paths = find_files(source) if isinstance(source, str | Path) else [Path(path) for path in source]
    names = [relative_name(path, root) for path in paths]
    has_labels = _has_labels(names, root, labels)
    cache_folder = Path(cache_dir) if cache_dir is not None else default_cache_dir()
    folder = cache_folder / "tables"
    folder.mkdir(parents=True, exist_ok=True)
    temporary = unfinished(folder / f"{id(paths):x}.arrow")
    failures: list[FailedFile] = []
    digests: list[bytes] = []
    try:
        features = _features(has_labels)
        with ArrowWriter(path=str(temporary), features=features, writer_batch_size=ROWS_PER_BATCH) as writer:
            results = read_files(paths, options, processes, cache_folder, show_progress)
            for name, result in zip(names, results, strict=True):
                if isinstance(result, FailedFile):
                    failures.append(result._replace(file=name))
                    continue
                places = [place._asdict() for place in result.places]
                row = {"text": result.text, "file": replace_lone_surrogates(name), "places": places}
                if has_labels:
                    row["label"] = row["file"].partition("/")[0]
                digests.append(sha256_of_parts([repr((row["file"], places)).encode(), result.text.encode()]).encode())
                writer.write(row)
            writer.finalize()
        # The table is named after its content, and there only when it is complete.
        finished = folder / f"{sha256_of_parts([str(features).encode(), *digests])[:32]}.arrow"
        os.replace(temporary, finished)
    finally:
        temporary.unlink(missing_ok=True)
    report_failures(failures, len(paths), failed_file)
    if len(failures) == len(paths):
        raise ValueError(f"None of {len(paths)} files can be read. The first: {line_of(failures[0])}")
    return datasets.Dataset.from_file(str(finished))


def _features(has_labels: bool) -> Features:
    """The columns of a table of files."""
    import datasets

    string = datasets.Value("string")
    number = datasets.Value("int64")
    places = datasets.List({"kind": string, "name": string, "start": number, "end": number})
    columns = {"text": datasets.Value("large_string"), "file": string, "places": places}
    return datasets.Features({**columns, "label": string} if has_labels else columns)


def _has_labels(names: Sequence[str], root: Path | None, labels: bool | None) -> bool:
    """Whether the first sub-folders are labels."""
    outside = [name for name in names if "/" not in name]
    if labels is None:
        return root is not None and not outside and len({name.partition("/")[0] for name in names}) > 1
    if labels and (root is None or outside):
        example = outside[0] if outside else names[0]
        raise ValueError(f"labels=True needs a folder with a sub-folder for each label, and {example} is in none.")
    return labels
