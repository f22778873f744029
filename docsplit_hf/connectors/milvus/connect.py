"""Connect to a remote datastore: parse its address, then open or create its collection."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ...arrays.changes import empty_snapshot
from ...arrays.keys import as_matrix
from .collection import Collection, check_installed
from .remote_datastore import RemoteDatastore
from .rows import CollectionDescription, read_description, write_description, write_labels

logger = logging.getLogger(__name__)

SCHEME = "milvus://"
_SERVER = ("http://", "https://", "tcp://")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")


def connect_datastore(
    address: str | Path,
    collection: str | None = None,
    *,
    token: str | None = None,
    timeout: float = 30.0,
    index: str = "AUTOINDEX",
    dimension: int | None = None,
    label_names: Sequence[str] = (),
    multi_label: bool | None = None,
    probe: Any = None,
) -> RemoteDatastore:
    """Connect to a datastore in a collection of Milvus, or create the collection (the extra ``milvus``).

    Args:
        address: ``"http://HOST:19530"``; or a folder of milvus-lite with a name that ends in ``.db``; or, with the
            collection, ``"milvus://HOST:19530/COLLECTION"``.
        collection: The name of the collection. If it does not exist, it is created; this needs the dimension.
        token: Token for a server with authentication; it is kept in memory only.
        timeout: Timeout of a request including retries, in seconds.
        index: Index of a new collection: ``"AUTOINDEX"``, ``"FLAT"`` (exact), ``"HNSW"``, ``"IVF_FLAT"``,
            ``"DISKANN"``.
        dimension, label_names, multi_label, probe: Properties of a new collection, as for ``empty``. None: the
            dimension of the probe, and whether the first labels are lists.

    Returns:
        The datastore.

    Raises:
        ModuleNotFoundError: If pymilvus is not installed.
        ValueError: If the address or the name is wrong, or the collection has other properties.
        RemoteDatastoreError: An ``OSError``, if Milvus cannot be reached, or refuses.
    """
    server_or_folder, name = parse_address(address, collection)
    check_installed(server_or_folder)
    parent = Path(server_or_folder).absolute().parent
    if server_or_folder.endswith(".db") and not parent.is_dir():
        raise ValueError(
            f"There is no folder {str(parent)!r} for {server_or_folder!r}: create it, or correct the address."
        )
    collection = Collection(server_or_folder, name, token or "", timeout)
    if probe is not None:
        probe = as_matrix(probe, "probe", dimension)
        dimension = probe.shape[1]
    existing_dimension = collection.dimension()
    if existing_dimension is None:
        if dimension is None:
            raise ValueError(
                f"{collection!r} does not exist. To create it, pass dimension, the dimension of the embeddings."
            )
        collection.create(dimension, index)
        logger.info("Created %r for embeddings of dimension %d.", collection, dimension)
    elif dimension not in (None, existing_dimension):
        raise ValueError(
            f"{collection!r} has embeddings of dimension {existing_dimension}, not {dimension}: use another "
            "collection, or the encoder that it was built with."
        )
    dimension = existing_dimension or dimension
    new = empty_snapshot(dimension, label_names, bool(multi_label), probe=probe)
    description = read_description(collection, dimension)
    if description is None:  # a new collection, or one whose creation was interrupted
        description = CollectionDescription(
            dimension=dimension, label_names=new.label_names, multi_label=multi_label, probe=new.probe
        )
        write_labels(collection, description, new.label_names, 0)
        write_description(collection, description)
        description = read_description(collection, dimension)
    if multi_label is not None and description.multi_label not in (None, multi_label):
        labels = "several labels" if description.multi_label else "one label"
        raise ValueError(f"The rows of {collection!r} have {labels} each: leave out multi_label={multi_label}.")
    return RemoteDatastore(collection, description)


def parse_address(address: str | Path, collection: str | None = None) -> tuple[str, str]:
    """Split an address into a URL or a folder, for pymilvus, and the name of the collection."""
    address = os.fspath(address)
    if "@" in urlsplit(address).netloc:  # the message leaves it out, since it holds a password
        raise ValueError("The address has a user or a token before the '@': leave it out, and pass token instead.")
    if address.startswith(SCHEME):
        location, _, name = address.removeprefix(SCHEME).rstrip("/").rpartition("/")
        if not location or collection not in (None, name):
            raise ValueError(f"{address!r} is not the address of a datastore: write milvus://HOST:19530/COLLECTION.")
        address = location if location.endswith(".db") else f"http://{location}"
        collection = name
    if collection is None:
        raise ValueError(f"{address!r} has no collection: pass its name, or write {SCHEME}HOST:19530/COLLECTION.")
    if not isinstance(collection, str) or not _NAME.fullmatch(collection):
        raise ValueError(
            f"{collection!r} is not a valid name of a collection: use letters, digits and '_', and do not "
            "start with a digit."
        )
    is_server = address.startswith(_SERVER) and not urlsplit(address).path.strip("/")
    if not is_server and (address.startswith(_SERVER) or not address.endswith(".db")):
        raise ValueError(
            f"{address!r} is neither an address (http://HOST:19530, without the collection) nor a folder of "
            "milvus-lite, which ends in .db."
        )
    return address, collection
