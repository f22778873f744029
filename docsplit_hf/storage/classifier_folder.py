"""Save, check and upload a classifier with its datastore, and forget what is kept of removed texts beside them."""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ..content_hash import sha256_of_file
from ..reading.files.finding import refuse_mistyped_path
from .atomic_replacement import model_files, replaced_at_once
from .manifest import MANIFEST, DatastoreError, Manifest, data_files, read_manifest
from .tables import cached_rows, rows_sha256

FOLDER = "datastore"  # within the folder or repository of a classifier
CARD = "README.md"
CONFIG = "config.json"
EXPORTED = "exported"  # the folder of an exported model, beside the datastore
TEXTS = "texts.json"  # its copy of ids, texts and labels
UNFINISHED_EXPORT = ".export-"  # the beginning of the name of a folder in which an export is made
TOKENIZER = re.compile(r".*token.*\.json|vocab\.\w+|merges\.txt|.*\.model")
REMEDY = (
    "Load the weights with KNNClassifier.from_pretrained, give the pipeline its examples again, and save all of it "
    "with pipe.save_pretrained; or copy the whole folder again."
)


@contextlib.contextmanager
def saved_together(folder: str | Path) -> Iterator[Path]:
    """Replace the classifier and the datastore in a folder in one step; other files stay."""
    datastore = Path(folder, FOLDER)
    with (
        forgetting_cached_rows(datastore),
        replaced_at_once(folder, lambda _: [f"{FOLDER}/{name}" for name in data_files(datastore)]) as staging,
    ):
        yield staging


def classifier_checksums(folder: Path) -> dict[str, str]:
    """SHA-256 by name of the model files that answers depend on; empty without a model."""
    if not (folder / CONFIG).is_file():
        return {}
    tokenizer = [path.name for path in folder.iterdir() if TOKENIZER.fullmatch(path.name)]
    return {name: sha256_of_file(folder / name) for name in sorted({*model_files(folder), *tokenizer})}


def check_classifier(name_or_folder: str | Path, revision: str | None) -> None:
    """Raise if the classifier is not the one saved with the datastore; the datastore may name none."""
    folder = local_folder(name_or_folder, f"{FOLDER}/{MANIFEST}", revision, token=None)
    checksums = read_manifest(folder / FOLDER)["classifier"]
    if not checksums:
        return
    folder = local_folder(name_or_folder, list(checksums), revision, token=None)
    for name, sha256 in checksums.items():
        path = folder / name
        if not path.is_file():
            raise DatastoreError(f"{path} is missing, but the classifier was saved with it. {REMEDY}")
        if sha256_of_file(path) != sha256:
            raise DatastoreError(
                f"{path} is not the file that was saved with the datastore beside it: it was changed, damaged, or "
                f"comes from another save. {REMEDY}"
            )
    for name in model_files(folder):
        if name not in checksums:
            raise DatastoreError(f"{folder / name} was not saved with the datastore beside it: delete it. {REMEDY}")


def push_saved(repo_id: str, save: Callable[[Path, str], None], commit_message: str, **kwargs: Any) -> Any:
    """Push the files that ``save(folder, full name)`` writes; they replace the datastore there."""
    from huggingface_hub import HfApi

    api = HfApi(token=kwargs.pop("token", None))
    repo_id = api.create_repo(repo_id, private=kwargs.pop("private", None), exist_ok=True).repo_id
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save(folder, repo_id)
        if (folder / CARD).exists() and api.file_exists(repo_id, CARD, revision=kwargs.get("revision")):
            (folder / CARD).unlink()
        return api.upload_folder(
            repo_id=repo_id,
            folder_path=folder,
            commit_message=commit_message,
            delete_patterns=kwargs.pop("delete_patterns", [f"{FOLDER}/*"]),
            **kwargs,
        )


def local_folder(
    name_or_folder: str | Path, files: str | list[str], revision: str | None, token: str | bool | None
) -> Path:
    """Return a local folder, or download files of a repository on the Hub."""
    if Path(name_or_folder).is_dir():
        return Path(name_or_folder)
    from huggingface_hub import snapshot_download

    refuse_mistyped_path(str(name_or_folder))
    return Path(snapshot_download(str(name_or_folder), revision=revision, token=token, allow_patterns=files))


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
