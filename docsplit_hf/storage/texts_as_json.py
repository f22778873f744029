"""The ids, texts and labels of a datastore as JSON beside its exported model, so that answers do without pyarrow."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..arrays.index import EXACT, IndexOptions
from ..arrays.row_table import TEXT_COLUMNS, TextColumn, TextTable
from ..arrays.snapshot import Snapshot
from .classifier_folder import FOLDER
from .datastore_files import (
    ROLE_PREFIXES,
    check_sha256,
    documents_of,
    examples_of,
    fitted_state,
    read_document_keys,
    read_keys,
    with_indexes,
)
from .manifest import Manifest, naming_file_in_errors, read_manifest

ROLES = ("rows", "document_rows", "vocabulary")  # the files whose content the JSON has
LABELS = "labels"
VOCABULARY = "vocabulary"


def source_of_texts(folder: Path) -> dict[str, str]:
    """The SHA-256 by role of the files whose content ``write_texts`` writes, of the datastore in a folder."""
    files = read_manifest(folder / FOLDER)["files"]
    return {role: files[role]["sha256"] for role in ROLES if role in files}


def write_texts(path: Path, snapshot: Snapshot) -> None:
    """Write ids, texts and labels of examples, ids and texts of documents, and the vocabulary."""
    columns: dict[str, Any] = {LABELS: snapshot.labels.tolist()}
    for prefix, rows in zip(ROLE_PREFIXES, (snapshot, snapshot.documents), strict=True):
        if rows is not None:
            columns |= {prefix + name: rows.rows[name].to_pylist() for name in TEXT_COLUMNS}
    if snapshot.fitted is not None:
        columns[VOCABULARY] = snapshot.fitted.vocabulary
    path.write_text(json.dumps(columns, ensure_ascii=False), encoding="utf-8")


def load_with_texts(folder: Path, path: Path) -> Snapshot:
    """Load the datastore in a folder, with the ids, texts and labels that ``write_texts`` wrote of it.

    Raises:
        DatastoreError: If a file is damaged.
        ModuleNotFoundError: If the datastore has an index, and FAISS is not installed.
    """
    manifest = read_manifest(folder / FOLDER)
    factory = IndexOptions(**manifest["index"]).factory
    if factory != EXACT and importlib.util.find_spec("faiss") is None:
        raise ModuleNotFoundError(f"{folder} is searched by FAISS ({factory}): pip install faiss-cpu.")
    paths = {role: folder / FOLDER / entry["name"] for role, entry in manifest["files"].items()}
    for role, entry in manifest["files"].items():
        if role not in ROLES:
            check_sha256(paths[role], entry)
    with naming_file_in_errors(path):
        columns = json.loads(path.read_bytes())
        keys, probe = read_keys(paths["keys"], manifest, manifest["rows"])
        rows = _table(columns, "", manifest["rows"])
        examples = examples_of(manifest, paths, keys, probe, _labels(columns, manifest), rows)
        documents = None
        if manifest["documents"] is not None:
            rows = _table(columns, "document_", manifest["documents"]["rows"])
            documents = documents_of(examples, manifest, paths, read_document_keys(paths, manifest), rows)
        fitted = None
        if manifest["fitted"] is not None:
            fitted = fitted_state(paths["fitted"], manifest["fitted"], _column(columns, VOCABULARY))
    return with_indexes(replace(examples, documents=documents, fitted=fitted), manifest)


def _column(columns: dict[str, Any], name: str) -> list[Any]:
    """A column of the file."""
    if not isinstance(columns.get(name), list):
        raise ValueError(f"it has no list {name!r}")
    return columns[name]


def _labels(columns: dict[str, Any], manifest: Manifest) -> np.ndarray:
    """The encoded labels of the examples."""
    names = len(manifest["label_names"])
    shape = (manifest["rows"], names) if manifest["multi_label"] else (manifest["rows"],)
    labels = np.array(_column(columns, LABELS), dtype=bool if manifest["multi_label"] else np.int64)
    if manifest["rows"] == 0:
        labels = labels.reshape(shape)
    if labels.shape != shape or (labels.size and not 0 <= labels.min() <= labels.max() < max(names, 2)):
        raise ValueError(f"its labels, of the shape {labels.shape}, are not those of {names} names")
    return labels


def _table(columns: dict[str, Any], prefix: str, count: int) -> TextTable:
    """The columns of examples or documents."""
    own = {name: TextColumn(_column(columns, prefix + name)) for name in TEXT_COLUMNS}
    wrong = [name for name, column in own.items() if len(column) != count]
    if wrong:
        raise ValueError(f"it has {len(own[wrong[0]])} rows of {wrong[0]}, not {count}")
    return TextTable(own)
