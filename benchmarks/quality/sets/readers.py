"""Readers of common file formats: tables, jsonl, parallel files of lines, folders of texts."""

from __future__ import annotations

import csv
import gzip
import io
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePosixPath

from benchmarks.quality.sets.records import Clone, Row, Splits, decode

Read = Callable[[Clone], Splits]
Column = str | int  # its name in the first line, or its number
Names = Mapping[str, str] | Callable[[str], str | None]  # labels by what stands in the file; others are left out

csv.field_size_limit(sys.maxsize)


def table(
    train: str | Sequence[str],
    test: str | Sequence[str] | None = None,
    *,
    text: Column | Sequence[Column],
    label: Column | Sequence[Column],
    pair: Column | None = None,
    group: Column | None = None,
    names: Names | None = None,
    label_separator: str = " > ",
    separator: str = ",",
    quoted: bool = True,
    quote: str = '"',
    encoding: str | None = None,
) -> Read:
    """Read files of csv or tsv; a path that ends with "/" stands for all files of a folder.

    Several columns of text are joined by lines, and several of labels by ``label_separator``.
    """

    def read_rows(clone: Clone, paths: str | Sequence[str]) -> list[Row]:
        rows = []
        for path in _all_paths(clone, paths):
            quoting = csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE
            content = io.StringIO(clone.text_of(path, encoding).replace("\0", ""), newline="")
            lines = list(csv.reader(content, delimiter=separator, quotechar=quote, quoting=quoting))
            columns = [text] if isinstance(text, str | int) else list(text)
            label_columns = [label] if isinstance(label, str | int) else list(label)
            wanted = [*columns, *label_columns, *(column for column in (pair, group) if column is not None)]
            header = lines[0]
            if any(isinstance(column, str) for column in wanted):
                lines = lines[1:]
            places = {column: header.index(column) if isinstance(column, str) else column for column in wanted}
            for line in lines:
                if len(line) <= max(places.values()):
                    continue
                name = _named(label_separator.join(line[places[column]].strip() for column in label_columns), names)
                if name is None:
                    continue
                rows.append(
                    Row(
                        text="\n".join(line[places[column]] for column in columns),
                        label=name,
                        text_pair=None if pair is None else line[places[pair]],
                        group=None if group is None else line[places[group]],
                    )
                )
        return rows

    def read(clone: Clone) -> Splits:
        return Splits(train=read_rows(clone, train), test=None if test is None else read_rows(clone, test))

    return read


def jsonl(
    train: str | Sequence[str],
    test: str | Sequence[str] | None = None,
    *,
    text: str,
    label: str,
    pair: str | None = None,
    group: str | None = None,
    names: Names | None = None,
) -> Read:
    """Read files of jsonl, or of one JSON list; ``names`` chooses and names labels."""

    def read_rows(clone: Clone, paths: str | Sequence[str]) -> list[Row]:
        rows = []
        for path in _all_paths(clone, paths):
            content = clone.text_of(path)
            if content.lstrip().startswith("["):
                items = json.loads(content)
            else:
                items = [json.loads(line) for line in content.splitlines() if line.strip()]
            for item in items:
                name = _named(str(item[label]), names)
                if name is None:
                    continue
                rows.append(
                    Row(
                        text=item[text],
                        label=name,
                        text_pair=None if pair is None else item[pair],
                        group=None if group is None else str(item[group]),
                    )
                )
        return rows

    def read(clone: Clone) -> Splits:
        return Splits(train=read_rows(clone, train), test=None if test is None else read_rows(clone, test))

    return read


def texts_and_labels(
    train: Sequence[tuple[str, str]],
    test: Sequence[tuple[str, str]] | None = None,
    *,
    names: Names | None = None,
) -> Read:
    """Read pairs of files: a text a line, and the label of each in the same line."""

    def read_rows(clone: Clone, files: Sequence[tuple[str, str]]) -> list[Row]:
        rows = []
        for texts, labels in files:
            for text, label in zip(clone.lines_of(texts), clone.lines_of(labels), strict=True):
                name = _named(label.strip(), names)
                if name is not None:
                    rows.append(Row(text=text, label=name))
        return rows

    def read(clone: Clone) -> Splits:
        return Splits(train=read_rows(clone, train), test=None if test is None else read_rows(clone, test))

    return read


def file_of_each_label(
    train: Mapping[str, str],
    test: Mapping[str, str] | None = None,
    *,
    parallel: bool = False,
    encoding: str | None = None,
) -> Read:
    """Read a file of lines for each label; in parallel files the same line is a version of one text."""

    def read_rows(clone: Clone, files: Mapping[str, str]) -> list[Row]:
        rows = []
        for path, label in files.items():
            for number, line in enumerate(clone.lines_of(path, encoding)):
                rows.append(Row(text=line, label=label, group=str(number) if parallel else None))
        return rows

    def read(clone: Clone) -> Splits:
        return Splits(train=read_rows(clone, train), test=None if test is None else read_rows(clone, test))

    return read


def line_with_label(
    train: str | Sequence[str],
    test: str | Sequence[str] | None = None,
    *,
    separator: str | None = None,
    names: Names | None = None,
    label_is_last: bool = False,
) -> Read:
    """Read lines that begin or end with their label."""

    def read_rows(clone: Clone, paths: str | Sequence[str]) -> list[Row]:
        rows = []
        for path in _all_paths(clone, paths):
            for line in clone.lines_of(path):
                if label_is_last:
                    parts = line.rstrip().rsplit(separator, 1)[::-1]
                else:
                    parts = line.strip().split(separator, 1)
                if len(parts) < 2:
                    continue
                name = _named(parts[0], names)
                if name is not None:
                    rows.append(Row(text=parts[1], label=name))
        return rows

    def read(clone: Clone) -> Splits:
        return Splits(train=read_rows(clone, train), test=None if test is None else read_rows(clone, test))

    return read


def folders(
    train: str,
    test: str | None = None,
    *,
    label_of: Callable[[str], str | None] | None = None,
    group_of: Callable[[str], str] | None = None,
    encoding: str | None = None,
) -> Read:
    """Read a file for each text; its folder is its label, unless ``label_of`` gives another: None leaves it out."""

    def read_rows(clone: Clone, folder: str) -> list[Row]:
        rows = []
        for path, content in clone.files(folder).items():
            name = PurePosixPath(path).parent.name if label_of is None else label_of(path)
            if name is not None:
                group = None if group_of is None else group_of(path)
                rows.append(Row(text=decode(content, encoding), label=name, group=group))
        return rows

    def read(clone: Clone) -> Splits:
        return Splits(train=read_rows(clone, train), test=None if test is None else read_rows(clone, test))

    return read


def prepared(
    label: str = "label",
    names: Names | None = None,
    change: Callable[[str], str] | None = None,
    pair_file: str | None = None,
) -> Read:
    """Read a folder that is no clone: train.jsonl.gz and test.jsonl.gz, with "text" or "text_a" and "text_b".

    ``pair_file`` has the texts of both, if the rows have no more than their "id_a" and "id_b".
    """

    def read_file(clone: Clone, name: str) -> list[dict[str, str]]:
        with gzip.open(clone.folder / name, "rt", encoding="utf-8") as lines:
            return [json.loads(line) for line in lines]

    def read_rows(clone: Clone, part: str) -> list[Row]:
        known = {} if pair_file is None else {item["id"]: item["text"] for item in read_file(clone, pair_file)}
        rows = []
        for item in read_file(clone, f"{part}.jsonl.gz"):
            pair = None
            if pair_file is not None:
                text = known[item["id_a"]]
                pair = known[item["id_b"]]
            elif "text_a" in item:
                text = item["text_a"]
                pair = item["text_b"]
            else:
                text = item["text"]
            if change is not None:
                text = change(text)
                pair = None if pair is None else change(pair)
            name = _named(item[label], names)
            if name is not None:
                rows.append(Row(text=text, label=name, text_pair=pair))
        return rows

    def read(clone: Clone) -> Splits:
        return Splits(train=read_rows(clone, "train"), test=read_rows(clone, "test"))

    return read


def _named(label: str, names: Names | None) -> str | None:
    """The name of a label, or None for rows that are left out."""
    if names is None:
        return label
    if isinstance(names, Mapping):
        return names.get(label)
    return names(label)


def _all_paths(clone: Clone, paths: str | Sequence[str]) -> list[str]:
    """Paths, with those of all files in place of a folder's."""
    found = []
    for path in [paths] if isinstance(paths, str) else paths:
        found.extend(clone.paths(path) if path.endswith("/") else [path])
    return found
