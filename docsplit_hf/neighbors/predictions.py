"""classify_file: a classifier's answers to all texts of a file, in a file, whatever interrupts it."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from tqdm.auto import tqdm

from ..models.checkpoints.checksum import sha256_of
from ..models.checkpoints.fingerprint import encoder_fingerprint
from ..models.inference.batched_inference import input_length
from ..models.inference.cut_texts import cut_texts_summed_up
from ..text.files import find_text_files
from .prediction_files import BLOCK, Row, blocks_of, check_output, check_rows, read_rows, to_json, write_rows

if TYPE_CHECKING:
    from .pipeline import KNNClassifierPipeline

logger = logging.getLogger(__name__)


class Texts(NamedTuple):
    """Texts that are to be classified, and where the answers go.

    Args:
        source: A file or a folder, as ``read_rows`` takes it.
        target: The file for the answers: ``.csv``, ``.jsonl`` or ``.parquet``.
        text_column: The column with the texts.
        text_pair_column: The column with the second texts, for pairs.
        csv_separator: What separates the columns of a ``.csv`` file, as in ``load_file``.
        encoding: Of text files, as in ``load_file``.
    """

    source: Path
    target: Path
    text_column: str = "text"
    text_pair_column: str | None = None
    csv_separator: str | None = None
    encoding: str | None = None

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


class Content(NamedTuple):
    """The columns of what is to be classified, in order, and the number of its rows."""

    columns: list[str]
    rows: int


class Outcome(NamedTuple):
    """How many rows were written, how many of them have no text, and how many a run before had answered."""

    rows: int
    without_text: int
    resumed: int


def look_through(texts: Texts, overwrite: bool = False) -> Content:
    """Read all rows once: what cannot be read, and what has no such column, is found before anything is computed.

    Args:
        texts: What to classify.
        overwrite: Whether the file for the answers may be there.

    Returns:
        The columns and the number of rows.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it cannot be read, is empty or lacks a column, or the answers cannot be written.

    Example:

        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "new.jsonl").write_text('{"body": "One."}' + chr(10) + '{"id": 7, "body": ""}')
        >>> look_through(Texts(folder / "new.jsonl", folder / "answers.csv", "body"))
        Content(columns=['body', 'id'], rows=2)
    """
    source, target = texts.source, texts.target
    check_output(target)
    if target.exists() and (not overwrite or target.samefile(source)):
        raise ValueError(f"{target} is there already: choose another file for the answers, or move it away.")
    columns: dict[str, None] = {}
    rows = 0
    for row in texts.rows():
        columns.update(dict.fromkeys(row))
        rows += 1
    for column in texts.columns:
        if column not in columns:
            found = f"only {list(columns)}" if rows else "and no row"
            raise ValueError(f"There is no column {column!r} in {source}, {found}: choose text_column.")
    check_rows(target, texts.rows, list(columns))
    return Content(list(columns), rows)


def classify_file(
    pipe: KNNClassifierPipeline,
    texts: Texts,
    top_k: int | None = None,
    return_neighbors: int = 0,
    show_progress: bool = True,
    overwrite: bool = False,
    **options: Any,
) -> Outcome:
    """Classify all texts of a file, and write the answers beside its columns: a row for each row, in order.

    Texts are read, classified and kept 256 at a time, in ``<target>.partial`` until all are there; so memory is
    bounded, and a run that was killed goes on where it was, to the same file byte for byte. What another file, another
    classifier or other options left there is not used, which is logged.

    The new columns are ``label`` and ``score``, the best label; ``neighbors`` with ``return_neighbors``; and ``top_k``
    with ``top_k``: a list of labels with their scores, best first, each with those of the neighbors that speak for it.
    A column of the file that has one of these names is called ``input_<name>``. What is no text, or white space, gets
    no label.

    Args:
        pipe: The classifier.
        texts: What to classify.
        top_k: How many labels to give for each text. None: the pipeline's default, or the best alone.
        return_neighbors: How many of the nearest examples to give for each text. 0: the pipeline's default, or none.
        show_progress: Whether to show a progress bar.
        overwrite: Whether the file for the answers may be there.
        **options: Further arguments of a call of the pipeline, such as ``bf16`` and ``max_length``.

    Returns:
        How many rows there are, how many of them have no text, and how many were resumed.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it cannot be read, is empty or lacks a column, or the answers cannot be written, or another run
            is writing them.
    """
    content = look_through(texts, overwrite)
    options |= ({"top_k": top_k} if top_k else {}) | (
        {"return_neighbors": return_neighbors} if return_neighbors else {}
    )
    parameters = _parameters(pipe, options)
    added = ["label", "score"]
    added += ["top_k"] if "top_k" in parameters else ["neighbors"] if parameters.get("return_neighbors") else []
    partial = texts.partial
    partial.parent.mkdir(parents=True, exist_ok=True)
    with _only_run(partial):
        made_with = [_fingerprint(pipe), _checksum(texts.source), *texts[2:], parameters]
        done = _start(partial, to_json(made_with), content.rows)
        with (
            open(partial, "a", encoding="utf-8") as file,
            cut_texts_summed_up(),  # closed last, so that the line does not break the progress bar
            tqdm(total=content.rows, initial=done, desc="Classifying", unit="text", disable=not show_progress) as bar,
        ):
            rest = itertools.islice(texts.rows(), done, None)
            for block in blocks_of(rest):
                file.writelines(f"{to_json(answer)}\n" for answer in _answers(pipe, block, texts.columns, options))
                file.flush()
                bar.update(len(block))
        renamed = _renamed(content.columns, added)
        write_rows(texts.target, lambda: _merged(texts, partial, renamed), [*renamed.values(), *added])
        without_text = sum(answer["label"] is None for answer in _kept_answers(partial))
        partial.unlink()
    return Outcome(content.rows, without_text, done)


def _parameters(pipe: KNNClassifierPipeline, options: dict[str, Any]) -> dict[str, Any]:
    """What a call with these options does: they, and the defaults that the pipeline was made with."""
    given = {name: value for name, value in options.items() if name not in ("batch_size", "num_workers")}
    parameters = {"batch_size": options.get("batch_size") or pipe._batch_size}
    parameters |= pipe._preprocess_params | pipe._forward_params | pipe._postprocess_params
    for part in pipe._sanitize_parameters(**given):
        parameters |= part
    parameters["max_length"] = parameters.get("max_length") or input_length(pipe.model, pipe.tokenizer)
    parameters.pop("show_progress", None)
    return dict(sorted(parameters.items()))  # in whatever order they were given


def _fingerprint(pipe: KNNClassifierPipeline) -> str:
    """The SHA-256 of all that answers depend on: the model, its tokenizer and calibration, and the examples."""
    store = pipe.datastore
    digest = hashlib.sha256(encoder_fingerprint(pipe.model, pipe.tokenizer).encode())
    if store is not None:
        for array in (store.keys, store.labels):
            digest.update(np.ascontiguousarray(array))
        digest.update(json.dumps([store.label_names, store.ids, store.texts, store.text_pairs, store.index]).encode())
    return digest.hexdigest()


def _checksum(source: Path) -> str:
    if source.is_file():
        return sha256_of(source)
    names = [(file.relative_to(source).as_posix(), sha256_of(file)) for file in sorted(find_text_files(source))]
    return hashlib.sha256(to_json(names).encode()).hexdigest()


@contextlib.contextmanager
def _only_run(partial: Path) -> Iterator[None]:
    """Keep other runs off the file of answers; a killed one is out."""
    try:
        import fcntl
    except ImportError:  # Windows: let only one run write to a file at a time
        yield
        return
    with open(partial, "ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_free = os.fstat(file.fileno()).st_nlink > 0  # else a run has ended since it was opened
        except BlockingIOError:
            is_free = False
        except OSError as error:
            is_free = True
            logger.warning("%s cannot be locked (%s): let only one run write there at a time.", partial, error)
        if not is_free:
            raise ValueError(f"{partial} is in use by another run: wait for it, or name another file for the answers.")
        yield


def _start(partial: Path, made_with: str, rows: int) -> int:
    """Begin the file of answers, or cut one that is there behind its last whole block; gives how many it holds."""
    header = f"{made_with}\n".encode()
    partial.touch()
    with open(partial, "r+b") as file:
        before = file.readline()
        if before == header:
            ends, position = [len(header)], len(header)
            for number, line in enumerate(file, start=1):
                position += len(line)
                if number % BLOCK == 0 and line.endswith(b"\n"):
                    ends.append(position)
            done = BLOCK * (len(ends) - 1)
            if done <= rows:
                file.truncate(ends[-1])
                logger.info("%s holds %d answers: going on behind them.", partial, done)
                return done
            logger.warning("%s holds %d answers, and there are %d rows: starting anew.", partial, done, rows)
        elif before:
            logger.warning("%s is of another input, classifier or other options: starting anew.", partial)
    partial.write_bytes(header)
    return 0


def _answers(pipe: KNNClassifierPipeline, block: list[Row], columns: list[str], options: dict[str, Any]) -> list[Row]:
    """An answer for each row, in the form in which it is kept; without a label where there is no text."""
    usable = [all(isinstance(row.get(name), str) and row[name].strip() for name in columns) for row in block]
    inputs = [
        dict(zip(("text", "text_pair"), (row[name] for name in columns), strict=False))
        for row, is_usable in zip(block, usable, strict=True)
        if is_usable
    ]
    found = iter(pipe(inputs, **options))
    return [_answer(next(found)) if is_usable else {"label": None, "score": None} for is_usable in usable]


def _answer(given: Any) -> Row:
    if isinstance(given, dict):
        return given
    return {"label": given[0]["label"], "score": given[0]["score"], "top_k": given}


def _renamed(columns: list[str], added: list[str]) -> dict[str, str]:
    """What each column of the input is called in the output."""
    names: dict[str, str] = {}
    for column in columns:
        name = column
        while name in added or (name != column and name in columns):
            name = f"input_{name}"
        names[column] = name
    if changed := [f"{column!r} is {name!r}" for column, name in names.items() if name != column]:
        logger.warning("Columns of the input are called otherwise beside the answers: %s.", ", ".join(changed))
    return names


def _kept_answers(partial: Path) -> Iterator[Row]:
    with open(partial, encoding="utf-8") as file:
        next(file)
        yield from map(json.loads, file)


def _merged(texts: Texts, partial: Path, renamed: dict[str, str]) -> Iterator[Row]:
    for row, answer in zip(texts.rows(), _kept_answers(partial), strict=True):
        yield {renamed[name]: value for name, value in row.items()} | answer
