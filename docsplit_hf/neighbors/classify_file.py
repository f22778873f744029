"""Classifying all texts of a file into another file, whatever interrupts it."""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tqdm.auto import tqdm

from ..content_hash import sha256_of_file, sha256_of_parts
from ..models.checkpoints.atomic_replacement import locked, open_or_make
from ..models.checkpoints.fingerprint import encoder_fingerprint
from ..models.inference.backends import precision_settings
from ..models.inference.text_warnings import cut_texts_summed_up
from ..text.file_formats import find_text_files
from .prediction import NO_CONTENT
from .row_files import BLOCK, Row, blocks_of, check_output, check_rows, read_rows, to_json, write_rows
from .suggestions import SUGGESTED

if TYPE_CHECKING:
    from .pipeline import KNNClassifierPipeline

logger = logging.getLogger(__name__)


class PredictionFiles(NamedTuple):
    """The file with the texts to classify, and the file for the answers."""

    source: Path  # a file or a folder, as read_rows takes it
    target: Path  # .csv, .jsonl or .parquet
    text_column: str = "text"
    text_pair_column: str | None = None
    csv_separator: str | None = None
    encoding: str | None = None
    safe_csv: bool = False  # whether the answers are to be harmless in a spreadsheet

    @property
    def columns(self) -> list[str]:
        """The columns that are read."""
        return [self.text_column] + ([self.text_pair_column] if self.text_pair_column else [])

    def rows(self) -> Iterator[Row]:
        """The rows of the file."""
        return read_rows(self.source, self.text_column, self.csv_separator, self.encoding)

    @property
    def partial(self) -> Path:
        """The file for the answers so far."""
        return self.target.with_name(f"{self.target.name}.partial")


class Outcome(NamedTuple):
    """How many rows were written."""

    rows: int
    without_text: int
    resumed: int  # answered by a run before
    rejected: int


def look_through(files: PredictionFiles, overwrite: bool = False) -> tuple[list[str], int]:
    """Read all rows once: the columns, and how many rows. Unusable files are refused before anything is computed."""
    check_output(files.target, files.safe_csv)
    if files.target.exists() and (not overwrite or files.target.samefile(files.source)):
        replace = "" if overwrite else ", or replace it (--overwrite_output_dir)"
        raise ValueError(f"{files.target} is there already: choose another file for the answers{replace}.")
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


def classify_file(
    pipe: KNNClassifierPipeline,
    files: PredictionFiles,
    top_k: int | None = None,
    return_neighbors: int = 0,
    show_progress: bool = True,
    overwrite: bool = False,
    **options: Any,
) -> Outcome:
    """Classify all texts of a file, and write the answers beside its columns: one row for each row, in order.

    256 texts at a time are read, classified and kept in ``<target>.partial``, so memory is bounded, and a run that was
    killed goes on where it was, to the same file byte for byte. A partial file of another input, classifier or other
    options is not used, which is logged. Only one run may write there at a time.

    The new columns are ``label`` and ``score``; ``neighbors``, ``explanation``, ``novelty``, ``read``, ``documents``
    and ``labels`` where the answers have them; with ``top_k`` a list of labels with their scores and neighbors, best
    first. A column of the file with one of these names is called ``input_<name>``. An empty text gets neither label nor
    score; a rejected one has a score, and where it has no content, a ``reason``. ``options`` are
    further arguments of a call of the pipeline.
    """
    columns, count = look_through(files, overwrite)
    asked_for = {"top_k": top_k, "return_neighbors": return_neighbors}
    options |= {name: value for name, value in asked_for.items() if value}
    options |= {"show_progress": show_progress}  # within a block of texts, which may be long
    parameters = _parameters(pipe, options)
    added = ["label", "score", *_more_columns(pipe, parameters)]
    files.partial.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(locked(files.partial, wait=False))  # the lock of a killed run is gone
        except BlockingIOError as error:
            raise ValueError(f"{files.partial} is in use by another run: wait, or name another file.") from error
        reading = (files.text_column, files.text_pair_column, files.csv_separator, files.encoding)
        made_with = [_fingerprint(pipe), _checksum(files.source), *reading, parameters]
        done = _start(files.partial, to_json(made_with), count)
        with (
            open(files.partial, "a", encoding="utf-8") as partial,
            cut_texts_summed_up(),  # closed last, so that the line does not break the progress bar
            tqdm(total=count, initial=done, desc="Classifying", unit="text", disable=not show_progress) as bar,
        ):
            for block in blocks_of(itertools.islice(files.rows(), done, None)):
                answers = _answers(pipe, block, files.columns, options, "reject" in parameters)
                partial.writelines(f"{to_json(answer)}\n" for answer in answers)
                partial.flush()
                bar.update(len(block))
        renamed = _renamed(columns, added)

        def merged() -> Iterator[Row]:
            for row, answer in zip(files.rows(), _kept_answers(files.partial), strict=True):
                yield {renamed[name]: value for name, value in row.items()} | answer

        write_rows(files.target, merged, [*renamed.values(), *added], files.safe_csv)
        without_text = sum(answer["score"] is None for answer in _kept_answers(files.partial))
        rejected = parameters.get("reject_label")
        without_answer = sum(answer["label"] in (None, rejected) for answer in _kept_answers(files.partial))
        files.partial.unlink()
    return Outcome(count, without_text, done, without_answer - without_text)


def _more_columns(pipe: KNNClassifierPipeline, parameters: dict[str, Any]) -> list[str]:
    if "top_k" in parameters:
        return ["top_k"]
    shown = {"return_neighbors": "neighbors", "explain": "explanation", "return_novelty": "novelty"}
    shown |= {"return_read": "read", "return_documents": "documents"}
    columns = ["reason"] if "reject" in parameters else []
    columns += [column for option, column in shown.items() if parameters.get(option)]
    store = pipe.datastore
    return columns + (["labels"] if store is not None and store.multi_label and store.fitted is not None else [])


def _parameters(pipe: KNNClassifierPipeline, options: dict[str, Any]) -> dict[str, Any]:
    """The options of a call, and the defaults that the pipeline was made with."""
    given = {name: value for name, value in options.items() if name not in ("batch_size", "num_workers")}
    # Private in transformers 5.23: Pipeline has no public way to ask for the defaults that it was made with.
    parameters = {"batch_size": options.get("batch_size") or pipe._batch_size}
    parameters |= pipe._forward_params | pipe._sanitize_parameters(**given)[1]
    parameters["max_length"] = parameters.get("max_length") or pipe.embedder.max_length
    parameters.pop("show_progress", None)
    return dict(sorted(parameters.items()))  # in whatever order they were given


def _fingerprint(pipe: KNNClassifierPipeline) -> str:
    """The SHA-256 of all that answers depend on: model, tokenizer, precision, examples, documents, fitted experts."""
    precision = precision_settings(pipe.model.encoder) if pipe.embedder.is_local else {}
    parts = [encoder_fingerprint(pipe.model, pipe.tokenizer, **precision).encode()]
    if (examples := pipe.datastore) is not None:
        parts.append(examples.content_sha256.encode())
        if (fitted := examples.fitted) is not None:
            settings = {name: value for name, value in fitted.settings.items() if name != SUGGESTED}
            parts.append(json.dumps([settings, fitted.vocabulary], sort_keys=True).encode())
            for name, array in sorted(fitted.arrays.items()):  # a file has an order of its own
                parts += [f"{name} {array.shape}".encode(), array]
    return sha256_of_parts(parts)


def _checksum(source: Path) -> str:
    if source.is_file():
        return sha256_of_file(source)
    names = [(file.relative_to(source).as_posix(), sha256_of_file(file)) for file in sorted(find_text_files(source))]
    return sha256_of_parts([to_json(names).encode()])


def _start(partial: Path, made_with: str, rows: int) -> int:
    """Begin the partial file, or cut one that is there after its last whole block; gives how many answers it holds."""
    header = f"{made_with}\n".encode()
    with open(open_or_make(partial), "r+b") as file:
        before = file.readline()
        if before == header:
            done, position = 0, len(header)
            end = position
            for number, line in enumerate(file, start=1):
                position += len(line)
                if number % BLOCK == 0 and line.endswith(b"\n"):
                    done, end = number, position
            if done <= rows:
                file.truncate(end)
                logger.info("%s holds %d answers: going on after them.", partial, done)
                return done
            logger.warning("%s holds %d answers, and there are %d rows: starting over.", partial, done, rows)
        elif before:
            logger.warning("%s comes from another input, classifier or options: starting over.", partial)
    partial.write_bytes(header)
    return 0


def _answers(
    pipe: KNNClassifierPipeline, block: list[Row], columns: list[str], options: dict[str, Any], with_reason: bool
) -> list[Row]:
    """An answer for each row; without a label where there is no text, ``with_reason`` with the reason."""
    given = [tuple(row.get(name) for name in columns) for row in block]
    usable = [all(isinstance(text, str) and text.strip() for text in texts) for texts in given]
    inputs = [dict(zip(("text", "text_pair"), texts, strict=False)) for texts in itertools.compress(given, usable)]
    found = iter(pipe(inputs, **options))
    nothing = {"label": None, "score": None}
    if with_reason:
        nothing["reason"] = NO_CONTENT
    answers = [next(found) if is_usable else nothing for is_usable in usable]
    return [
        answer
        if isinstance(answer, dict)
        else {name: answer[0][name] for name in ("label", "score")} | {"top_k": answer}
        for answer in answers
    ]


def _renamed(columns: list[str], added: list[str]) -> dict[str, str]:
    """What each column of the input is called in the output."""
    names: dict[str, str] = {}
    for column in columns:
        name = column
        while name in added or (name != column and name in columns):
            name = f"input_{name}"
        names[column] = name
    if changed := [f"{column!r} is {name!r}" for column, name in names.items() if name != column]:
        logger.warning("Columns of the input are renamed beside the answers: %s.", ", ".join(changed))
    return names


def _kept_answers(partial: Path) -> Iterator[Row]:
    with open(partial, encoding="utf-8") as file:
        next(file)
        yield from map(json.loads, file)
