"""Load a folder of files as a data set."""

from __future__ import annotations

import csv
import logging
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...content_hash import sha256_of_parts
from ..characters import replace_lone_surrogates
from ..spreadsheet_cells import harmless_cell
from .collected import collect
from .failures import FailedFile
from .finding import find_files
from .options import FileOptions
from .parts import add_changes
from .places import Changes
from .reader import read_files
from .unfinished import unfinished

if TYPE_CHECKING:
    from datasets import Dataset

logger = logging.getLogger(__name__)

ROWS_PER_BATCH = 64
SHOWN_FAILURES = 5


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

    root = Path(source) if isinstance(source, str | Path) and os.path.isdir(source) else None
    paths = find_files(source) if isinstance(source, str | Path) else [Path(path) for path in source]
    names = [relative_name(path, root) for path in paths]
    has_labels = _has_labels(names, root, labels)
    cache_folder = Path(cache_dir) if cache_dir is not None else default_cache_dir()
    table = _Table(cache_folder / "tables", has_labels)
    failures: list[FailedFile] = []
    changes = Changes()
    with table:
        results = read_files(paths, options, processes, cache_folder, show_progress)
        for name, result in zip(names, results, strict=True):
            if isinstance(result, FailedFile):
                failures.append(result._replace(file=name))
            else:
                changes = add_changes(changes, result.changes)
                table.add(replace_lone_surrogates(name), result.text, [place._asdict() for place in result.places])
    report_failures(failures, len(paths), failed_file)
    _report_changes(changes)
    if len(failures) == len(paths):
        raise ValueError(f"None of {len(paths)} files can be read. The first: {_line(failures[0])}")
    return datasets.Dataset.from_file(str(table.path))


def relative_name(path: Path, root: Path | None) -> str:
    """The path of a file below a folder, with slashes; as it was given if there is no folder."""
    return path.as_posix() if root is None else path.relative_to(root).as_posix()


def report_failures(failures: Sequence[FailedFile], count: int, failed_file: str | Path | None = None) -> None:
    """Log the number of failures by reason, and write them into a CSV file where one is asked for."""
    collect(failures)
    if failed_file is not None:
        write_failures(failures, failed_file)
    if not failures:
        return
    by_reason = Counter(failure.reason for failure in failures)
    counts = "\n".join(
        f"  {number} {reason}. {next(failure.remedy for failure in failures if failure.reason == reason)}"
        for reason, number in by_reason.most_common()
    )
    shown = "\n".join(f"  {_line(failure)}" for failure in failures[:SHOWN_FAILURES])
    shown = replace_lone_surrogates(shown)  # of names that are no UTF-8, which no terminal could show
    rest = f"\n  ... all in {failed_file}" if failed_file is not None and len(failures) > SHOWN_FAILURES else ""
    logger.warning(f"{len(failures)} of {count} files are not read:\n{counts}\nFor example:\n{shown}{rest}")


def write_failures(failures: Sequence[FailedFile], path: str | Path) -> None:
    """Write failures into a CSV file, in which no cell is run as a formula by a spreadsheet; a link is replaced."""
    Path(path).unlink(missing_ok=True)
    with open(path, "x", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(FailedFile._fields)
        for failure in failures:
            writer.writerow([harmless_cell(replace_lone_surrogates(value)) for value in failure])


class _Table:
    """An Arrow file of rows, named after its content, which is there only when it is complete."""

    def __init__(self, folder: Path, has_labels: bool) -> None:
        import datasets
        import pyarrow as pa

        place = {
            "kind": datasets.Value("string"),
            "name": datasets.Value("string"),
            "start": datasets.Value("int64"),
            "end": datasets.Value("int64"),
        }
        features = {"text": datasets.Value("large_string"), "file": datasets.Value("string")}
        features["places"] = datasets.List(place)
        if has_labels:
            features["label"] = datasets.Value("string")
        folder.mkdir(parents=True, exist_ok=True)
        self.schema = datasets.Features(features).arrow_schema
        self.has_labels = has_labels
        self.path = unfinished(folder / f"{id(self):x}.arrow")
        self.folder = folder
        self.rows: list[dict] = []
        self.digests: list[bytes] = []
        self.writer = pa.RecordBatchStreamWriter(str(self.path), self.schema)

    def __enter__(self) -> _Table:
        """Begin."""
        return self

    def add(self, file: str, text: str, places: list[dict[str, str | int]]) -> None:
        """Add a row."""
        row = {"text": text, "file": file, "places": places}
        if self.has_labels:
            row["label"] = file.partition("/")[0]
        self.digests.append(sha256_of_parts([repr((file, places)).encode(), text.encode()]).encode())
        self.rows.append(row)
        if len(self.rows) >= ROWS_PER_BATCH:
            self._write()

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        """Name the file after its content, or delete it after an error."""
        if kind is None:
            self._write()
        self.writer.close()
        if kind is not None:
            self.path.unlink()
            return
        name = sha256_of_parts([str(self.schema).encode(), *self.digests])[:32]
        finished = self.folder / f"{name}.arrow"
        os.replace(self.path, finished)
        self.path = finished

    def _write(self) -> None:
        """Write the rows that wait."""
        import pyarrow as pa

        if self.rows:
            self.writer.write_batch(pa.RecordBatch.from_pylist(self.rows, schema=self.schema))
            self.rows = []


def _has_labels(names: Sequence[str], root: Path | None, labels: bool | None) -> bool:
    """Whether the first sub-folders are labels."""
    outside = [name for name in names if "/" not in name]
    if labels is None:
        return root is not None and not outside and len({name.partition("/")[0] for name in names}) > 1
    if labels and (root is None or outside):
        example = outside[0] if outside else names[0]
        raise ValueError(f"labels=True needs a folder with a sub-folder for each label, and {example} is in none.")
    return labels


def _report_changes(changes: Changes) -> None:
    """Log what was changed in the texts."""
    counts = {name: value for name, value in changes._asdict().items() if name != "left_out" and value}
    if counts:
        logger.info(f"Changed in the texts: {', '.join(f'{n:,} {name}' for name, n in counts.items())}.")


def _line(failure: FailedFile) -> str:
    """A failure in a line."""
    detail = f" ({failure.detail})" if failure.detail else ""
    return f"{failure.file}: {failure.reason}{detail}"
