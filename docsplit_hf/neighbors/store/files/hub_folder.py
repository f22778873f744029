"""A folder with a datastore in it, on the Hub: pushed there, and fetched."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ....text.sources import refuse_mistyped_path

FOLDER = "datastore"  # in the folder or repository of a model
CARD = "README.md"


def upload(
    repo_id: str,
    save: Callable[[Path, str], None],
    commit_message: str,
    code: Sequence[str] = (),
    **kwargs: Any,
) -> Any:
    """Push what ``save(folder, full name)`` writes, in one commit, in place of the datastore that is there.

    Other files stay, and so does the model card, if there is one: it may have been written by hand. ``code``: patterns
    of the files of a self-contained classifier, which are replaced too if the first of them is there.
    """
    from huggingface_hub import HfApi

    api = HfApi(token=kwargs.pop("token", None))
    repo_id = api.create_repo(repo_id, private=kwargs.pop("private", None), exist_ok=True).repo_id
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save(folder, repo_id)
        if (folder / CARD).exists() and api.file_exists(repo_id, CARD, revision=kwargs.get("revision")):
            (folder / CARD).unlink()
        replaced = [f"{FOLDER}/*"]  # files of the datastore that was there before
        if code and api.file_exists(repo_id, code[0], revision=kwargs.get("revision")):
            replaced += code
        return api.upload_folder(
            repo_id=repo_id,
            folder_path=folder,
            commit_message=commit_message,
            delete_patterns=replaced,
            **kwargs,
        )


def local_folder(
    name_or_folder: str | Path, files: str | list[str], revision: str | None = None, token: str | bool | None = None
) -> Path:
    """The folder with some files of a repository on the Hub; a folder on this machine is that folder."""
    if Path(name_or_folder).is_dir():
        return Path(name_or_folder)
    from huggingface_hub import snapshot_download

    refuse_mistyped_path(str(name_or_folder))
    return Path(snapshot_download(str(name_or_folder), revision=revision, token=token, allow_patterns=files))
