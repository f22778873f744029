"""The classifier that lies beside a datastore: saved together with it, all at once, and known to it by checksums."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

from ....models.checkpoints.atomic_replacement import model_files, replaced_at_once, sha256_of
from ...self_contained.save_code import code_files
from ..datastore_error import DatastoreError
from .hub_folder import FOLDER, local_folder
from .manifest import MANIFEST, data_files, read_manifest

CONFIG = "config.json"
TOKENIZER = re.compile(r".*token.*\.json|vocab\.\w+|merges\.txt|.*\.model")
REMEDY = (
    "Load the weights with KNNClassifier.from_pretrained, give the pipeline its examples again, and save all of it "
    "with pipe.save_pretrained; or copy the whole folder again."
)


@contextlib.contextmanager
def saved_together(folder: str | Path) -> Iterator[Path]:
    """Write a classifier with its datastore in place of the one in a folder: all of it at once, or nothing.

    The datastore is to be written last, so that its manifest knows the files of the classifier. Other files in the
    folder, such as the checkpoints of a run, stay.
    """
    with replaced_at_once(folder, f"{FOLDER}/{MANIFEST}", _files_of_before) as staging:
        yield staging


def classifier_checksums(folder: Path) -> dict[str, str]:
    """The SHA-256 of each file of a model that its answers depend on, by name; none if there is no model."""
    if not (folder / CONFIG).is_file():
        return {}
    tokenizer = [path.name for path in folder.iterdir() if TOKENIZER.fullmatch(path.name)]
    return {name: sha256_of(folder / name) for name in sorted({*model_files(folder), *tokenizer})}


def check_classifier(name_or_folder: str | Path, revision: str | None = None, token: str | bool | None = None) -> None:
    """Refuse a classifier other than the one that the datastore beside it was saved with, if it names one."""
    folder = local_folder(name_or_folder, f"{FOLDER}/{MANIFEST}", revision, token)
    named = read_manifest(folder / FOLDER)["classifier"]
    if named:
        folder = local_folder(name_or_folder, list(named), revision, token)
    for name, sha256 in named.items():
        path = folder / name
        if not path.is_file():
            raise DatastoreError(f"{path} is missing, and the classifier was saved with it. {REMEDY}")
        if sha256_of(path) != sha256:
            raise DatastoreError(
                f"{path} is not the file that was saved with the datastore beside it: it was changed, damaged, or "
                f"comes from another save. {REMEDY}"
            )
    for name in model_files(folder) if named else ():
        if name not in named:
            raise DatastoreError(f"{folder / name} was not saved with the datastore beside it: delete it. {REMEDY}")


def _files_of_before(folder: Path) -> list[str]:
    """What a save replaces or deletes: all that answers depend on."""
    try:
        named = list(read_manifest(folder / FOLDER)["classifier"])
    except (FileNotFoundError, DatastoreError):  # nothing of it is going to be read
        named = []
    data = (f"{FOLDER}/{name}" for name in (MANIFEST, *data_files(folder / FOLDER)))
    return [*named, *model_files(folder), *data, *code_files(folder)]
