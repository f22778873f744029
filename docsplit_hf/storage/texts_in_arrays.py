"""The ids, texts and labels of a datastore as arrays beside its exported model, so that answers do without pyarrow."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path

import numpy as np

from ..arrays.index import EXACT, IndexOptions
from ..arrays.row_table import TEXT_COLUMNS
from ..arrays.snapshot import FittedState, Snapshot
from ..arrays.text_table import TextColumn, TextTable
from .classifier_folder import FOLDER
from .datastore_files import (
    ROLE_PREFIXES,
    check_sha256,
    examples_of,
    fitted_state,
    index_source_sha256,
    read_keys,
    read_passages,
    read_tensors,
)
from .manifest import Manifest, naming_file_in_errors, read_manifest
from .snapshot_index import update_index

ROLES = ("rows", "document_rows", "vocabulary")  # the files whose content the arrays have
LABELS = "labels"
VOCABULARY = "vocabulary"


def source_of_texts(folder: Path) -> dict[str, str]:
    """The SHA-256 by role of the files whose content ``write_texts`` writes, of the datastore in a folder."""
    files = read_manifest(folder / FOLDER)["files"]
    return {role: files[role]["sha256"] for role in ROLES if role in files}


def write_texts(path: Path, snapshot: Snapshot) -> None:
    """Write ids, texts and labels of examples, ids and texts of documents, and the vocabulary."""
    from safetensors.numpy import save_file

    arrays = {LABELS: snapshot.labels}
    for prefix, rows in zip(ROLE_PREFIXES, (snapshot, snapshot.documents), strict=True):
        if rows is not None:
            for name in TEXT_COLUMNS:
                arrays |= TextColumn.of(rows.rows[name].to_pylist()).to_arrays(prefix + name)
    if snapshot.fitted is not None:
        arrays |= TextColumn.of(snapshot.fitted.vocabulary).to_arrays(VOCABULARY)
    save_file(arrays, path)


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
    texts = read_tensors(path)
    paths = {role: folder / FOLDER / entry["name"] for role, entry in manifest["files"].items()}
    for role, entry in manifest["files"].items():
        if role not in ROLES:
            check_sha256(paths[role], entry)
    with naming_file_in_errors(path):
        examples = _examples(manifest, paths, texts)
        documents = None if manifest["documents"] is None else _documents(examples, manifest, paths, texts)
        vocabulary = TextColumn.from_arrays(texts, VOCABULARY).to_pylist() if manifest["fitted"] else []
    fitted: FittedState | None = None
    if manifest["fitted"]:
        fitted = fitted_state(paths["fitted"], manifest["fitted"], vocabulary)
    if documents is not None:
        documents = update_index(documents, True, index_source_sha256(manifest, "document_"))
    examples = update_index(examples, True, index_source_sha256(manifest, ""))
    return replace(examples, documents=documents, fitted=fitted)


def _examples(manifest: Manifest, paths: dict[str, Path], texts: dict[str, np.ndarray]) -> Snapshot:
    keys, probe = read_keys(paths["keys"], manifest, manifest["rows"])
    rows = _table(texts, "", manifest["rows"])
    labels = texts.get(LABELS, np.zeros(0, np.int64))
    names = len(manifest["label_names"])
    shape = (manifest["rows"], names) if manifest["multi_label"] else (manifest["rows"],)
    if labels.shape != shape or (labels.size and not 0 <= labels.min() <= labels.max() < max(names, 2)):
        raise ValueError(f"its labels, of the shape {labels.shape}, are not those of {names} names")
    return examples_of(manifest, paths, keys, probe, labels, rows)


def _documents(
    examples: Snapshot, manifest: Manifest, paths: dict[str, Path], texts: dict[str, np.ndarray]
) -> Snapshot:
    count = manifest["documents"]["rows"]
    keys, _ = read_keys(paths["document_keys"], manifest, count)
    rows = _table(texts, "document_", count)
    passages = read_passages(paths.get("document_passage_keys"), manifest, rows, manifest["document_passages"])
    return replace(
        examples,
        keys=keys,
        labels=np.zeros((count, 0), dtype=bool),
        rows=rows,
        label_names=(),
        next_id=manifest["documents"]["next_id"],
        probe=None,
        passages=passages,
    )


def _table(texts: dict[str, np.ndarray], prefix: str, count: int) -> TextTable:
    columns = {name: TextColumn.from_arrays(texts, prefix + name) for name in TEXT_COLUMNS}
    wrong = [name for name, column in columns.items() if len(column) != count]
    if wrong:
        raise ValueError(f"it has {len(columns[wrong[0]])} rows of {wrong[0]}, not {count}")
    return TextTable(columns)
