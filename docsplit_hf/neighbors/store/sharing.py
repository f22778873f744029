"""Saving a datastore, loading it, and sharing it on the Hub."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...models.checkpoints.replacement import finish_replacement
from .changes import Buffers, holding_index, with_index
from .classifier_files import classifier_checksums
from .datastore_files import read_datastore, write_datastore
from .hub_folder import FOLDER, local_folder, upload
from .index import EXACT
from .index_cache import load_index, store_index
from .snapshot import Snapshot

if TYPE_CHECKING:
    from typing import Self


class SharedDatastore:
    """What ``KNNDatastore`` knows of files and the Hub: its state out to them, and a new datastore in from them."""

    _state: Snapshot

    def save_pretrained(self, folder: str | Path) -> None:
        """Save to ``<folder>/datastore/``, in place of the datastore that is there.

        A process that is killed meanwhile leaves the old one or the new one, whole. If a classifier lies in the folder,
        the datastore belongs to it from then on, and to no other. The index is not saved with it, but kept in the cache
        of this machine.

        Args:
            folder: The folder of a model, or any other.
        """
        state = self._state
        manifest = write_datastore(Path(folder) / FOLDER, state, classifier_checksums(Path(folder)))
        if state.index is not None and state.outside_index == 0:
            store_index(state.index, manifest["files"]["keys"]["sha256"], state.options.factory)

    @classmethod
    def from_pretrained(
        cls, name_or_folder: str | Path, revision: str | None = None, token: str | bool | None = None
    ) -> Self:
        """Load a datastore, and check all of it.

        An index other than ``"Flat"`` is built here, or taken from the cache of this machine, never from the folder.

        Args:
            name_or_folder: A folder that ``save_pretrained`` saved to, or a repository on the Hub.
            revision: The branch, tag or commit on the Hub.
            token: For a private repository.

        Returns:
            The datastore.

        Raises:
            FileNotFoundError: If there is no datastore.
            DatastoreError: If the files are damaged or do not fit together; it is a ``ValueError``.
        """
        folder = local_folder(name_or_folder, f"{FOLDER}/*", revision, token)
        if Path(name_or_folder).is_dir():
            finish_replacement(folder)
        snapshot, manifest = read_datastore(folder / FOLDER)
        factory = snapshot.options.factory
        if factory == EXACT:
            return cls._of(snapshot)
        sha256 = manifest["files"]["keys"]["sha256"]
        index = load_index(sha256, factory, *snapshot.keys.shape)
        if index is not None:
            return cls._of(holding_index(snapshot, index))
        snapshot = with_index(snapshot, rebuild=True)
        if snapshot.index is not None:
            store_index(snapshot.index, sha256, factory)
        return cls._of(snapshot)

    def push_to_hub(self, repo_id: str, commit_message: str = "Upload a datastore", **kwargs: Any) -> Any:
        """Push to ``datastore/`` of a repository, in place of the datastore that is there, in one commit.

        Args:
            repo_id: The repository, made if it is not there.
            commit_message: The message of the commit.
            **kwargs: ``private`` and ``token`` as for ``HfApi.create_repo``, further ones as for
                ``HfApi.upload_folder``.

        Returns:
            What ``HfApi.upload_folder`` returns.
        """
        return upload(repo_id, lambda folder, _: self.save_pretrained(folder), commit_message, **kwargs)

    @classmethod
    def _of(cls, snapshot: Snapshot) -> Self:
        datastore = cls.__new__(cls)
        datastore._start(snapshot)
        return datastore

    def _start(self, snapshot: Snapshot) -> None:
        self._writing = threading.Lock()
        self._state, self._buffers = snapshot, Buffers(snapshot)
