"""Manifest of a datastore's folder: a description with checksums. Each field is checked when it is read."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypedDict

from ..arrays.index import IndexOptions
from ..arrays.row_table import has_origins
from ..arrays.snapshot import Snapshot
from ..content_hash import sha256_of_parts
from .inside_folder import is_plain

MANIFEST = "manifest.json"
FORMAT = "docsplit_hf datastore"
VERSION = 5
VERSION_WITHOUT_FILES = 4  # of datastores whose texts come from no files, so that earlier releases read them
METRIC = "squared_l2"
# By role. A manifest can only name these files, without a folder.
_SUFFIXES = {
    "keys": ".safetensors", "document_keys": ".safetensors", "fitted": ".safetensors",
    "passage_keys": ".safetensors", "document_passage_keys": ".safetensors",
    "rows": ".parquet", "document_rows": ".parquet", "vocabulary": ".parquet",
}  # fmt: skip
FILE_NAMES = {role: re.compile(rf"{role}-([0-9a-f]{{16}}){re.escape(suffix)}") for role, suffix in _SUFFIXES.items()}
_FIELDS = {
    "format": str, "version": int, "rows": int, "dimension": int, "dtype": str, "metric": str, "multi_label": bool,
    "label_names": list, "next_id": int, "index": dict, "files": dict, "classifier": dict, "sha256": str,
}  # fmt: skip
REMEDY = "Copy or download the datastore again, or build it again."


class FileEntry(TypedDict):
    """A data file: its name, its size in bytes, and the SHA-256 of its content."""

    name: str
    bytes: int
    sha256: str


class Manifest(TypedDict, total=False):
    """Fields of a manifest. ``render_manifest`` adds ``sha256``, the checksum of the other fields."""

    format: str
    version: int
    rows: int
    dimension: int
    dtype: str
    metric: str
    multi_label: bool
    label_names: list[str]
    next_id: int
    index: dict[str, Any]  # the fields of IndexOptions
    passages: int | None  # number of passages; None if each row has one
    documents: dict[str, int] | None  # the number of rows, and the next automatic id
    document_passages: int | None
    fitted: dict[str, Any] | None  # settings of the fitted state: JSON, not interpreted here
    classifier: dict[str, str]  # checksums of its files, by name
    files: dict[str, FileEntry]  # by role
    sha256: str


class DatastoreError(ValueError):
    """The files of a datastore are damaged, incomplete or of another format."""


@contextlib.contextmanager
def naming_file_in_errors(path: Path, remedy: str = REMEDY) -> Iterator[None]:
    """Turn a ``ValueError`` of the block into a ``DatastoreError`` that names the file."""
    try:
        yield
    except DatastoreError:
        raise
    except ValueError as error:
        raise DatastoreError(f"{path}: {error} {remedy}") from error


def make_manifest(snapshot: Snapshot, classifier: Mapping[str, str], files: dict[str, FileEntry]) -> Manifest:
    """Describe a snapshot. ``classifier``: checksums of the files of its classifier."""
    documents = snapshot.documents
    has_files = any(state is not None and has_origins(state.rows) for state in (snapshot, documents))
    return {
        "format": FORMAT,
        "version": VERSION if has_files else VERSION_WITHOUT_FILES,
        "rows": len(snapshot.keys),
        "dimension": snapshot.keys.shape[1],
        "dtype": snapshot.keys.dtype.name,
        "metric": METRIC,
        "multi_label": snapshot.multi_label,
        "label_names": list(snapshot.label_names),
        "next_id": snapshot.next_id,
        "index": asdict(snapshot.options),
        "passages": _passage_count(snapshot),
        "documents": documents and {"rows": len(documents.keys), "next_id": documents.next_id},
        "document_passages": None if documents is None else _passage_count(documents),
        "fitted": snapshot.fitted and snapshot.fitted.settings,
        "classifier": dict(classifier),
        "files": files,
    }


def _passage_count(snapshot: Snapshot) -> int | None:
    return None if snapshot.passages is None else len(snapshot.passages.embeddings)


def render_manifest(manifest: Manifest) -> bytes:
    """Convert a manifest to its only valid form: JSON in ASCII, with the checksum as the last field."""
    rest = {name: value for name, value in manifest.items() if name != "sha256"}
    return _to_json({**rest, "sha256": sha256_of_parts([_to_json(rest)])})


def file_name(role: str, sha256: str) -> str:
    """Name a data file by its role and content."""
    return f"{role}-{sha256[:16]}{_SUFFIXES[role]}"


def data_files(folder: Path) -> list[str]:
    """Return the names of the data files in a folder, also those that belong to older datastores."""
    names = [path.name for path in folder.glob("*-*")]
    return [name for name in names if any(pattern.fullmatch(name) for pattern in FILE_NAMES.values())]


def read_manifest(folder: Path) -> Manifest:
    """Read a manifest, and check its checksum, then each field."""
    path = folder / MANIFEST
    if not path.is_file():
        raise FileNotFoundError(
            f"There is no datastore in {folder}: save one with KNNDatastore.save_pretrained. (KNNDatastore.from_shards "
            "opens a folder of shards.)"
        )
    content = path.read_bytes()
    try:
        manifest = json.loads(content, parse_constant=_refuse_constant)
        rendered = render_manifest(manifest) if isinstance(manifest, dict) else b""
    except (ValueError, RecursionError) as error:
        raise DatastoreError(f"{path} is damaged, it is not JSON: {error}. {REMEDY}") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise DatastoreError(f"{path} is not the manifest of a datastore, or damaged. {REMEDY}")
    version = manifest.get("version")
    if isinstance(version, int) and version not in (VERSION, VERSION_WITHOUT_FILES):
        advice = "upgrade docsplit_hf" if version > VERSION else "build the datastore again"
        raise DatastoreError(
            f"{path} has format {version}, but this docsplit_hf reads {VERSION_WITHOUT_FILES} and {VERSION}: {advice}."
        )
    # The bytes are compared, not the values, so that any changed bit is found.
    if rendered != content:
        raise DatastoreError(f"{path} is damaged: it does not match its checksum. {REMEDY}")
    for name, kind in _FIELDS.items():
        require(type(manifest.get(name)) is kind, path, f"{name} is {manifest.get(name)!r}, not {kind.__name__}")
    _check_values(path, manifest)
    _check_files(path, manifest)
    return manifest


def _check_values(path: Path, manifest: dict[str, Any]) -> None:
    """Check the values of the other fields, which are JSON from outside."""
    names = manifest["label_names"]
    require(manifest["metric"] == METRIC, path, f"the metric is {manifest['metric']!r}, not {METRIC!r}")
    require(manifest["dtype"] in ("float32", "float16"), path, f"dtype is {manifest['dtype']!r}")
    for name, minimum in (("rows", 0), ("dimension", 1), ("next_id", 0)):
        require(manifest[name] >= minimum, path, f"{name} is {manifest[name]}")
    require(all(isinstance(name, str) for name in names), path, "a label name is not a string")
    require(len(set(names)) == len(names), path, "a label name occurs twice")
    require(set(manifest["index"]) == {"factory", "nprobe", "rerank"}, path, f"index is {manifest['index']}")
    for name, sha256 in manifest["classifier"].items():
        is_name = isinstance(sha256, str) and "/" not in name and is_plain(name)
        require(is_name, path, f"a file of the classifier is {name!r}")
    documents = manifest.get("documents", ...)
    if documents is not None:
        field_types = _field_types(documents)
        require(field_types == {"rows": int, "next_id": int}, path, f"documents is {documents!r}")
        require(min(documents.values()) >= 0, path, f"documents is {documents!r}")
    for name, rows in (("passages", manifest["rows"]), ("document_passages", documents and documents["rows"])):
        count = manifest.get(name, ...)
        is_larger = type(count) is int and rows is not None and count > rows > 0
        require(count is None or is_larger, path, f"{name} is {count!r}, of {rows} rows")
    fitted = manifest.get("fitted", ...)
    require(fitted is None or isinstance(fitted, dict), path, f"fitted is {fitted!r}")
    with naming_file_in_errors(path):
        IndexOptions(**manifest["index"])


def _check_files(path: Path, manifest: dict[str, Any]) -> None:
    """Check the entries of the files, which are JSON from outside."""
    files = manifest["files"]
    expected = {"keys", "rows"}
    if manifest["documents"] is not None:
        expected |= {"document_keys", "document_rows"}
    if manifest["fitted"] is not None:
        expected |= {"fitted", "vocabulary"}
    if manifest["passages"] is not None:
        expected.add("passage_keys")
    if manifest["document_passages"] is not None:
        expected.add("document_passage_keys")
    require(set(files) == expected, path, f"files are {sorted(files)}, not {sorted(expected)}")
    for role, entry in files.items():
        require(
            _field_types(entry) == {"name": str, "bytes": int, "sha256": str}, path, f"the entry of {role} is {entry!r}"
        )
        match = FILE_NAMES[role].fullmatch(entry["name"])
        is_valid_name = match is not None and match[1] == entry["sha256"][:16]
        require(is_valid_name, path, f"the file of {role} is named {entry['name']!r}, not by its role and checksum")


def _field_types(entry: Any) -> dict[str, type]:
    """Return the types of the fields of a JSON object; empty for other JSON."""
    return {name: type(value) for name, value in entry.items()} if isinstance(entry, dict) else {}


def require(condition: bool, path: Path, fault: str, remedy: str = REMEDY) -> None:
    """Raise an error that names the file and describes the fault, unless the condition holds."""
    if not condition:
        raise DatastoreError(f"{path}: {fault}. {remedy}")


def _refuse_constant(name: str) -> None:
    """Raise for NaN and infinity, which Python reads although JSON has neither."""
    raise ValueError(f"it contains {name}, which JSON does not have")


def _to_json(value: Any) -> bytes:
    return (json.dumps(value, indent=2) + "\n").encode("ascii")
