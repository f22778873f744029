"""Load a folder of files as a data set."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...content_hash import cache_folder, sha256_of_parts
from .cache import unfinished
from .failure_lists import line_of, report_failures
from .failures import FailedFile
from .finding import files_of, named_file
from .options import FileOptions
from .reader import read_files

if TYPE_CHECKING:
    from datasets import Dataset, Features

ROWS_PER_BATCH = 64


def load_files(
    source: str | Path | Sequence[str | Path],
    options: FileOptions | None = None,
    *,
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
        processes: Number of processes that read. None: one per core.
        cache_dir: Folder of the texts of files that were read before. None: ``docsplit_hf/files`` below ``HF_HOME``.
        failed_file: A CSV file to write, with the files that were not read, the reasons and the remedies.
        show_progress: Whether to show a progress bar.

    Returns:
        A data set on the disk with the columns ``text``; ``file``, the path below the folder, or as it was given;
        ``places``, a list of ``kind``, ``name``, ``start`` and ``end``; and ``label``, the first sub-folder of a folder
        that holds the file, or None. Files that fail have no row; they are counted in the log by reason.

    Raises:
        FileNotFoundError: If there is no file.
        ValueError: If no file can be read.
    """
    import datasets
    from datasets.arrow_writer import ArrowWriter

    is_folder = isinstance(source, str | Path) and os.path.isdir(source)
    files = files_of(source) if isinstance(source, str | Path) else [named_file(Path(path)) for path in source]
    cache = cache_folder("files") if cache_dir is None else Path(cache_dir)
    folder = cache / "tables"
    folder.mkdir(parents=True, exist_ok=True)
    temporary = unfinished(folder / f"{id(files):x}.arrow")
    failures: list[FailedFile] = []
    digests: list[bytes] = []
    try:
        features = _features()
        with ArrowWriter(path=str(temporary), features=features, writer_batch_size=ROWS_PER_BATCH) as writer:
            results = read_files([file.path for file in files], options, processes, cache, show_progress)
            for name, result in zip((file.name for file in files), results, strict=True):
                if isinstance(result, FailedFile):
                    failures.append(result._replace(file=name))
                    continue
                places = [place._asdict() for place in result.places]
                label = name.partition("/")[0] if is_folder and "/" in name else None
                digests.append(sha256_of_parts([repr((name, label, places)).encode(), result.text.encode()]).encode())
                writer.write({"text": result.text, "file": name, "places": places, "label": label})
            writer.finalize()
        # The table is named after its content, and there only when it is complete.
        finished = folder / f"{sha256_of_parts([str(features).encode(), *digests])[:32]}.arrow"
        os.replace(temporary, finished)
    finally:
        temporary.unlink(missing_ok=True)
    report_failures(failures, len(files), failed_file)
    if len(failures) == len(files):
        raise ValueError(f"None of {len(files)} files can be read. The first: {line_of(failures[0])}")
    return datasets.Dataset.from_file(str(finished))


def _features() -> Features:
    """The columns of a table of files."""
    import datasets

    string = datasets.Value("string")
    number = datasets.Value("int64")
    places = datasets.List({"kind": string, "name": string, "start": number, "end": number})
    return datasets.Features(
        {"text": datasets.Value("large_string"), "file": string, "places": places, "label": string}
    )
