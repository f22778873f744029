"""Texts that were removed from a classifier leave what is kept beside its files: cached rows, and the log of edits."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Container, Iterator
from pathlib import Path
from typing import Any

from .inside_folder import open_plain
from .manifest import DatastoreError, Manifest, read_manifest
from .tables import cached_rows, rows_sha256

EDIT_LOG = "edits.jsonl"  # in the folder of a classifier that is edited by docsplit serve
EXPORTED = "exported"  # the folder of an exported model, beside the datastore
TEXTS = "texts.json"  # its copy of ids, texts and labels
TEXT_FIELDS = ("text", "text_pair")


@contextlib.contextmanager
def forgetting_cached_rows(datastore: Path) -> Iterator[None]:
    """Delete copies of the rows of a datastore, if other rows are saved within the context.

    They are in this machine's cache, and beside an exported model, which reads the new rows themselves from then on.
    """
    before = _manifest_of(datastore)
    yield
    after = _manifest_of(datastore)
    if before is not None and after is not None and before["files"] != after["files"]:
        if rows_sha256(before) != rows_sha256(after):
            cached_rows(rows_sha256(before)).unlink(missing_ok=True)
        for texts in datastore.with_name(EXPORTED).glob("texts.*"):  # exports of earlier versions have another format
            texts.unlink(missing_ok=True)


def forget_edits(folder: Path, ids: Container[str]) -> None:
    """Overwrite the texts of examples in the log of edits whose ids are not among those that are left.

    The bytes are overwritten in place, so that a server can go on appending.
    """
    path = folder / EDIT_LOG
    if not path.is_file():
        return
    with open(open_plain(path, os.O_RDWR), "r+b") as file:
        lines = file.readlines()
        position = 0
        for line in lines:
            content = json.loads(line).get("content", {"added": ()}) if line.endswith(b"\n") else {"added": ()}
            overwritten = _without_texts(line, [example for example in content["added"] if example["id"] not in ids])
            if overwritten != line:
                file.seek(position)
                file.write(overwritten)
            position += len(line)
        file.flush()
        os.fsync(file.fileno())


def _without_texts(line: bytes, examples: list[dict[str, Any]]) -> bytes:
    """Replace the texts of examples in a line of the log by as many letters x."""
    for example in examples:
        for name in TEXT_FIELDS:
            if example[name]:
                before = f"{json.dumps(name)}: ".encode()
                text = json.dumps(example[name], ensure_ascii=False).encode()
                line = line.replace(before + text, before + b'"' + b"x" * (len(text) - 2) + b'"')
    return line


def _manifest_of(datastore: Path) -> Manifest | None:
    """The manifest of a datastore; None without one."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError, DatastoreError):
        return read_manifest(datastore)
    return None
