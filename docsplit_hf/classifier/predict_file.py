"""Classification of all texts of a file, or all files of a folder, into another file; interrupted runs are resumed."""

from __future__ import annotations

import functools
import itertools
import json
import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tqdm.auto import tqdm

from ..content_hash import sha256_of_json, sha256_of_parts
from ..fitting.ensemble.fitted_ensemble import SUGGESTED_SETTING
from ..fitting.prediction import NO_CONTENT, failed_file_of
from ..reading.files.failure_lists import FAILED_LIST, write_failures
from ..reading.files.finding import FileInput, files_of
from ..reading.inputs import read_inputs
from ..reading.source import find_text_files, kind_of
from ..reading.text_warnings import sum_up_warnings
from ..storage.atomic_replacement import locked, open_or_make
from ..storage.inside_folder import open_plain
from .answering import CallOptions, checked_options
from .row_files import (
    ROWS_AT_A_TIME,
    Row,
    blocks_of,
    check_output,
    check_rows,
    read_rows,
    refuse_missing_source,
    to_json,
    write_rows,
)
from .sorting.sorted_files import MANIFEST, REPORTS, SortedFile, check_not_inside, page_of
from .sorting.sorted_folder import Sorted, SortedFolder, sha256_of_present, sort_files

if TYPE_CHECKING:
    from .exported_classifier import ExportedClassifier
    from .pipeline import KNNClassifierPipeline

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class PredictionFiles:
    """File with the texts to classify, or folder with the files to classify, and file for the answers."""

    source: Path  # a file, a folder of .txt files or of documents, or a pattern of files
    target: Path  # .csv, .jsonl or .parquet
    text_column: str = "text"
    text_pair_column: str | None = None
    csv_separator: str | None = None
    encoding: str | None = None
    safe_csv: bool = False  # whether to make formulas harmless in spreadsheets
    sorted_folder: Path | None = None  # folder to sort the files into, by label
    dry_run: bool = False  # whether to plan only where files would be sorted

    @functools.cached_property
    def has_documents(self) -> bool:
        """Whether the source has documents (PDF, Word, ...): each is a row, whose text is not written."""
        return kind_of(self.source) == "documents" or (self.sorted_folder is not None and self.source.is_dir())

    @functools.cached_property
    def documents(self) -> list[FileInput]:
        """The documents, found once: those that come later are left to a later run."""
        return files_of(self.source)

    @property
    def columns(self) -> list[str]:
        """Names of the columns with texts."""
        return [self.text_column] + ([self.text_pair_column] if self.text_pair_column else [])

    def rows(self) -> Iterator[Row]:
        """Read the rows of the file; of documents, which are read when they are classified, rows without columns."""
        rows = read_rows(self.source, self.text_column, self.csv_separator, self.encoding)
        return ({} for _ in self.documents) if self.has_documents else rows

    @property
    def partial(self) -> Path:
        """File for the answers so far."""
        return self.target.with_name(f"{self.target.name}.partial")


class Outcome(NamedTuple):
    """Numbers of rows."""

    rows: int  # written
    without_text: int  # rows without a text, which get no label
    resumed: int  # rows answered by an earlier run
    rejected: int  # rows with a rejected text
    failed: int = 0  # files that could not be read
    sorted_files: Sorted | None = None  # the files that were sorted into a folder
    planned: list[SortedFile] | None = None  # with ``dry_run``: where each file would go


def check_files(files: PredictionFiles, overwrite: bool = False) -> tuple[list[str], int]:
    """Read all rows once, so that unusable files raise before anything is computed.

    Args:
        files: The files.
        overwrite: Whether existing answers may be replaced.

    Returns:
        The columns and the number of rows.

    Raises:
        ValueError: If the answers cannot be written, or a column is missing.
    """
    check_output(files.target, files.safe_csv)
    if files.sorted_folder is not None:
        if not files.has_documents:
            refuse_missing_source(files.source)
            raise ValueError(
                f"{files.sorted_folder} is a folder, into which files are sorted, and {files.source} is a table: name "
                "a .csv, .jsonl or .parquet file."
            )
        check_not_inside(files.sorted_folder, files.source)
        # The reports beside a manifest are those of the last run.
        if not overwrite and not files.partial.exists() and not (files.sorted_folder / MANIFEST).exists():
            for name in REPORTS:
                _refuse_existing(files.target.with_name(name))
    elif not overwrite or files.target.resolve() == files.source.resolve():
        _refuse_existing(files.target)
    if files.has_documents:
        return [], len(files.documents)
    columns: dict[str, None] = {}
    rows = 0
    for row in files.rows():
        columns.update(dict.fromkeys(row))
        rows += 1
    for column in files.columns:
        if column not in columns:
            found = f"only {list(columns)}" if rows else "and no row"
            raise ValueError(f"There is no column {column!r} in {files.source}, {found}: choose text_column.")
    check_rows(files.target, files.rows, list(columns))
    return list(columns), rows


def _refuse_existing(target: Path) -> None:
    """Raise ValueError if a file that would be written is there already."""
    if target.exists():
        raise ValueError(
            f"{target} is there already: move it away, delete it, or name another place for the answers "
            "(--predict_output)."
        )


def classify_file(
    pipe: KNNClassifierPipeline | ExportedClassifier,
    files: PredictionFiles,
    show_progress: bool = True,
    overwrite: bool = False,
    **options: Any,
) -> Outcome:
    """Classify all texts of a file, and write its rows with the answers as further columns, in the same order.

    Texts are read and classified 256 at a time, and answers are stored in ``<target>.partial``. Memory is bounded, and
    the next run continues an interrupted one, with the same result to the byte. A partial file of another input,
    classifier or other options is ignored, which is logged. Only one run may write to a target at a time.

    The new columns are ``label`` and ``score``; ``neighbors``, ``explanation``, ``novelty``, ``read``, ``documents``,
    ``path``, ``labels`` and ``labels_per_class`` if the answers have them; with ``top_k`` a list of labels with their
    scores and neighbors, best first. A column of the file with one of these names becomes ``input_<name>``. An empty
    text gets neither label nor score; a rejected one gets a score, and a ``reason`` if it has no content.

    With ``dry_run`` of the files, documents are answered and nothing is sorted; the run that sorts them uses these
    answers.

    Of documents, the columns are ``file``, ``label``, ``score``, ``page`` and ``reason``, and those of the options.
    Documents that cannot be read have neither label nor score, and are listed in ``failed.csv`` beside the answers.

    Args:
        pipe: The pipeline, or an exported classifier.
        files: The files.
        show_progress: Whether to show a progress bar.
        overwrite: Whether existing answers may be replaced.
        **options: Options of a call of the pipeline.

    Returns:
        The numbers of rows.

    Raises:
        ValueError: If the files cannot be used, or another run is writing the same answers.
    """
    columns, rows = check_files(files, overwrite)
    call_options: CallOptions = {**options, "show_progress": show_progress}  # of each block, which may have long texts
    parameters = pipe.default_options() | checked_options(**options)
    files.partial.parent.mkdir(parents=True, exist_ok=True)
    refusal = f"{files.partial} is in use by another run: wait, or name another file."
    with locked(files.partial, refusal):  # the lock of an interrupted run is released
        reading = (files.text_column, files.text_pair_column, files.csv_separator, files.encoding)
        made_with = to_json([_fingerprint(pipe), _checksum(files), *reading, dict(sorted(parameters.items()))])
        done = _start(files.partial, made_with, rows)
        with (
            open(open_plain(files.partial, os.O_WRONLY | os.O_APPEND), "a", encoding="utf-8") as partial,
            sum_up_warnings(),  # exited after the progress bar, so that its message does not break the bar
            tqdm(total=rows, initial=done, desc="Classifying", unit="text", disable=not show_progress) as bar,
        ):
            rest = itertools.islice(files.rows(), done, None)
            for block in blocks_of(read_inputs(files.documents[done:]) if files.has_documents else rest):
                for answer in _answers(pipe, files, block, call_options, "reject" in parameters):
                    partial.write(f"{to_json(answer)}\n")
                partial.flush()
                bar.update(len(block))
        return _finish(files, columns, rows, done)


def _finish(files: PredictionFiles, columns: list[str], rows: int, resumed: int) -> Outcome:
    """Write the answers in the partial file, and sort the files; or plan where they would be sorted."""
    found: set[str] = set()
    without_text = 0
    without_label = 0
    for answer in _kept_answers(files.partial):
        found |= answer.keys()
        without_text += answer["score"] is None
        without_label += answer["label"] is None
    outcome = Outcome(
        rows=rows,
        without_text=0 if files.has_documents else without_text,
        resumed=resumed,
        rejected=without_label - without_text,
        failed=without_text if files.has_documents else 0,
    )
    paths = [document.path for document in files.documents] if files.has_documents else []
    if files.dry_run:  # the answers stay in the partial file, for the run that sorts the files
        planned = SortedFolder(files.sorted_folder).plan(paths, _kept_answers(files.partial))
        return outcome._replace(planned=list(planned.values()))
    _write_answers(files, columns, found)
    if files.has_documents:
        outcome = outcome._replace(sorted_files=_finish_documents(files, paths))
    files.partial.unlink()
    return outcome


def _finish_documents(files: PredictionFiles, paths: list[Path]) -> Sorted | None:
    """List the files that could not be read, and sort files into folders, if that is wanted."""
    failures = [failed_file_of(answer) for answer in _kept_answers(files.partial) if answer["score"] is None]
    reports = [files.target.name]
    if failures:
        write_failures(failures, files.target.with_name(FAILED_LIST))
        reports.append(FAILED_LIST)
    if files.sorted_folder is None:
        return None
    return sort_files(_kept_answers(files.partial), paths, files.sorted_folder, reports)


# The columns of answers in their order, if any answer has them; a list of answers, with ``top_k``, is one column.
ANSWER_COLUMNS = (
    "file", "label", "score", "page", "reason", "top_k", "neighbors", "explanation", "novelty", "read", "documents",
    "path", "labels", "labels_per_class",
)  # fmt: skip


def _write_answers(files: PredictionFiles, columns: list[str], found: set[str]) -> None:
    """Write the rows of the file with the answers of the partial file, which have the parts ``found``."""
    always = {"file", "label", "score", "page", "reason"} if files.has_documents else {"label", "score"}
    wanted = always | ({"top_k"} if "top_k" in found else found)
    added = [column for column in ANSWER_COLUMNS if column in wanted]
    renamed = _renamed(columns, added)

    def merged() -> Iterator[Row]:
        for row, answer in zip(files.rows(), _kept_answers(files.partial), strict=True):
            page = {"page": page_of(answer)} if files.has_documents else {}
            shown = {name: answer.get(name) for name in added} | page
            yield {renamed[name]: value for name, value in row.items()} | shown

    write_rows(files.target, merged, [*renamed.values(), *added], files.safe_csv)


def _fingerprint(pipe: KNNClassifierPipeline | ExportedClassifier) -> str:
    """SHA-256 of everything that answers depend on: model, tokenizer, precision, datastore and fitted experts."""
    parts = [pipe.encoder_sha256().encode(), pipe.datastore.content_sha256.encode()]
    fitted = pipe.datastore.fitted
    if fitted is not None:
        settings = {name: value for name, value in fitted.settings.items() if name != SUGGESTED_SETTING}
        parts.append(json.dumps([settings, fitted.vocabulary], sort_keys=True).encode())
        for name, array in sorted(fitted.arrays.items()):  # a loaded file may have another order of arrays
            parts += [f"{name} {array.shape}".encode(), array]
    return sha256_of_parts(parts)


def _checksum(files: PredictionFiles) -> str:
    """SHA-256 of a file, or of the files of a folder."""
    source = files.source
    if files.has_documents:
        paths = {document.name: document.path for document in files.documents}
    elif source.is_dir():
        paths = {file.relative_to(source).as_posix(): file for file in find_text_files(source)}
    else:
        paths = {"": source}
    return sha256_of_json({name: sha256_of_present(path) for name, path in paths.items()})


def _start(partial: Path, made_with: str, rows: int) -> int:
    """Start a partial file, or cut an existing one after its last complete block; return its number of answers."""
    header = f"{made_with}\n".encode()
    with open(open_or_make(partial), "r+b") as file:
        before = file.readline()
        if before == header:
            done = 0
            position = len(header)
            end = position
            for number, line in enumerate(file, start=1):
                position += len(line)
                is_complete = number % ROWS_AT_A_TIME == 0 or number == rows
                if is_complete and line.endswith(b"\n"):
                    done = number
                    end = position
            if done <= rows:
                file.truncate(end)
                logger.info("%s has %d answers: continuing after them.", partial, done)
                return done
            logger.warning("%s has %d answers, but there are %d rows: starting over.", partial, done, rows)
        elif before:
            logger.warning("%s comes from another input, classifier or options: starting over.", partial)
        file.seek(0)
        file.truncate()
        file.write(header)
    return 0


def _answers(
    pipe: KNNClassifierPipeline | ExportedClassifier,
    files: PredictionFiles,
    block: list[Any],
    options: CallOptions,
    with_reason: bool,
) -> list[Row]:
    """Answer each document or row; rows without a text get no label, and a reason if ``with_reason``."""
    inputs = block
    is_usable = [True] * len(block)
    if not files.has_documents:
        given = [tuple(row.get(name) for name in files.columns) for row in block]
        is_usable = [all(isinstance(text, str) and text.strip() for text in texts) for texts in given]
        usable = itertools.compress(given, is_usable)
        inputs = [dict(zip(("text", "text_pair"), texts, strict=False)) for texts in usable]
    found = iter(pipe(inputs, **options))
    rows = []
    for is_answered in is_usable:
        answer = next(found) if is_answered else {"label": None, "score": None, "reason": NO_CONTENT}
        row = {**answer[0], "top_k": answer} if isinstance(answer, list) else dict(answer)
        if with_reason:
            row.setdefault("reason", None)
        elif not files.has_documents:
            row.pop("reason", None)
        rows.append(row)
    return rows


def _renamed(columns: list[str], added: list[str]) -> dict[str, str]:
    """Map the columns of the input to their names in the output."""
    names: dict[str, str] = {}
    for column in columns:
        name = column
        while name in added or (name != column and name in columns):
            name = f"input_{name}"
        names[column] = name
    if changed := [f"{column!r} is {name!r}" for column, name in names.items() if name != column]:
        logger.warning("Columns of the input are renamed, as the answers have the same names: %s.", ", ".join(changed))
    return names


def _kept_answers(partial: Path) -> Iterator[Row]:
    """Read the answers in a partial file."""
    with open(partial, encoding="utf-8") as file:
        next(file)
        yield from map(json.loads, file)
