"""Texts that were removed from a classifier leave what is kept beside its files: cached and exported rows."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from .manifest import DatastoreError, Manifest, read_manifest
from .tables import cached_rows, rows_sha256

EXPORTED = "exported"  # the folder of an exported model, beside the datastore
TEXTS = "texts.json"  # its copy of ids, texts and labels
UNFINISHED_EXPORT = ".export-"  # the beginning of the name of a folder in which an export is made


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
        for place in (EXPORTED, f"{UNFINISHED_EXPORT}*/{EXPORTED}"):  # the second is of an export that was killed
            for texts in datastore.parent.glob(f"{place}/texts.*"):  # exports of earlier versions have another format
                texts.unlink(missing_ok=True)


def _manifest_of(datastore: Path) -> Manifest | None:
    """The manifest of a datastore; None without one."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError, DatastoreError):
        return read_manifest(datastore)
    return None
