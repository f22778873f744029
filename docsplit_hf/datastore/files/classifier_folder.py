"""Folders and repositories with a classifier and its datastore: saving, checksums, and upload."""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ...content_hash import sha256_of_file
from ...encoders.checkpoints.atomic_replacement import (
    MODEL_FILES,
    finish_replacement,
    model_files,
    replaced_at_once,
)
from ...self_contained.save_code import code_files
from ...text.sources import refuse_mistyped_path
from .manifest import MANIFEST, DatastoreError, data_files, read_manifest

FOLDER = "datastore"  # in the folder or repository of a model
CARD = "README.md"
CONFIG = "config.json"
TOKENIZER = re.compile(r".*token.*\.json|vocab\.\w+|merges\.txt|.*\.model")
REMEDY = (
    "Load the weights with KNNClassifier.from_pretrained, give the pipeline its examples again, and save all of it "
    "with pipe.save_pretrained; or copy the whole folder again."
)


@contextlib.contextmanager
def saved_together(folder: str | Path) -> Iterator[Path]:
    """Replace the classifier and the datastore in a folder at once; other files stay."""
    with replaced_at_once(folder, f"{FOLDER}/{MANIFEST}", _files_of_before) as staging:
        if (Path(folder) / FOLDER).is_dir():
            finish_replacement(Path(folder) / FOLDER)  # an unfinished save of the datastore alone must not come later
        yield staging


def classifier_checksums(folder: Path) -> dict[str, str]:
    """SHA-256, by name, of the files of a model that its answers depend on; empty without a model."""
    if not (folder / CONFIG).is_file():
        return {}
    tokenizer = [path.name for path in folder.iterdir() if TOKENIZER.fullmatch(path.name)]
    return {name: sha256_of_file(folder / name) for name in sorted({*model_files(folder), *tokenizer})}


def check_classifier(name_or_folder: str | Path, revision: str | None = None, token: str | bool | None = None) -> None:
    """Refuse a classifier that the datastore beside it was not saved with, if the datastore names one."""
    folder = local_folder(name_or_folder, f"{FOLDER}/{MANIFEST}", revision, token)
    named = read_manifest(folder / FOLDER)["classifier"]
    if named:
        folder = local_folder(name_or_folder, list(named), revision, token)
    for name, sha256 in named.items():
        path = folder / name
        if not path.is_file():
            raise DatastoreError(f"{path} is missing, and the classifier was saved with it. {REMEDY}")
        if sha256_of_file(path) != sha256:
            raise DatastoreError(
                f"{path} is not the file that was saved with the datastore beside it: it was changed, damaged, or "
                f"comes from another save. {REMEDY}"
            )
    for name in model_files(folder) if named else ():
        if name not in named:
            raise DatastoreError(f"{folder / name} was not saved with the datastore beside it: delete it. {REMEDY}")


def upload(
    repo_id: str, save: Callable[[Path, str], None], commit_message: str, code: Sequence[str] = (), **kwargs: Any
) -> Any:
    """Push the files that ``save(folder, full name)`` writes, replacing the datastore and ``code`` there."""
    from huggingface_hub import HfApi

    api = HfApi(token=kwargs.pop("token", None))
    repo_id = api.create_repo(repo_id, private=kwargs.pop("private", None), exist_ok=True).repo_id

    def is_there(name: str) -> bool:
        return api.file_exists(repo_id, name, revision=kwargs.get("revision"))

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save(folder, repo_id)
        if (folder / CARD).exists() and is_there(CARD):
            (folder / CARD).unlink()
        replaced = [f"{FOLDER}/*", *(code if code and is_there(code[0]) else ())]
        return api.upload_folder(
            repo_id=repo_id,
            folder_path=folder,
            commit_message=commit_message,
            delete_patterns=kwargs.pop("delete_patterns", replaced),
            **kwargs,
        )


def local_folder(
    name_or_folder: str | Path, files: str | list[str], revision: str | None = None, token: str | bool | None = None
) -> Path:
    """Return a local folder as it is, or download some files of a repository on the Hub."""
    if Path(name_or_folder).is_dir():
        return Path(name_or_folder)
    from huggingface_hub import snapshot_download

    refuse_mistyped_path(str(name_or_folder))
    return Path(snapshot_download(str(name_or_folder), revision=revision, token=token, allow_patterns=files))


def _files_of_before(folder: Path) -> list[str]:
    """Files that a save replaces or deletes: those that answers depend on."""
    try:
        # A manifest from a stranger could name any file of the folder.
        known = read_manifest(folder / FOLDER)["classifier"]
        named = [name for name in known if MODEL_FILES.fullmatch(name) or TOKENIZER.fullmatch(name)]
    except (FileNotFoundError, DatastoreError):  # its files will not be read
        named = []
    data = (f"{FOLDER}/{name}" for name in (MANIFEST, *data_files(folder / FOLDER)))
    return [*named, *model_files(folder), *data, *code_files(folder)]
