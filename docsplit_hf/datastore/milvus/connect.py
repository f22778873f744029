"""Connect to a remote datastore: parse its address, and open its collection, or create it."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ..changes import empty_snapshot
from ..keys import as_matrix
from .collection import EXAMPLES, Collection, check_installed
from .remote_datastore import RemoteDatastore
from .rows import About, read_about, write_about, write_labels

logger = logging.getLogger(__name__)

SCHEME = "milvus://"
_SERVER = ("http://", "https://", "tcp://")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")


def connect_datastore(
    address: str | Path,
    collection: str | None = None,
    *,
    token: str | None = None,
    token_variable: str | None = None,
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
        token_variable: Name of an environment variable with the token, in place of ``token``.
        timeout: Timeout of a request with all its repetitions, in seconds.
        index: Index of a new collection: ``"AUTOINDEX"``, ``"FLAT"`` (exact), ``"HNSW"``, ``"IVF_FLAT"``,
            ``"DISKANN"``.
        dimension, label_names, multi_label, probe: Properties of a new collection, as for ``empty``. None: the
            dimension of the probe, and whether the first labels are lists.

    Returns:
        The datastore.

    Raises:
        ModuleNotFoundError: If pymilvus is not installed.
        ValueError: If the address, the name or the token's variable is wrong, or the collection has other properties.
        RemoteDatastoreError: An ``OSError``, if Milvus cannot be reached, or refuses.
    """
    opened, name = parse_address(address, collection)
    check_installed(opened)
    parent = Path(opened).absolute().parent
    if opened.endswith(".db") and not parent.is_dir():
        raise ValueError(f"There is no folder {str(parent)!r} for {opened!r}: make it, or correct the address.")
    collection = Collection(opened, name, find_token(token, token_variable), timeout)
    if probe is not None:
        probe = as_matrix(probe, "probe", dimension)
        dimension = probe.shape[1]
    existing_dimension = collection.dimension()
    if existing_dimension is None:
        if dimension is None:
            raise ValueError(f"{collection!r} is not there. To make it, pass dimension, that of the keys to come.")
        collection.create(dimension, index)
        logger.info("Made %r, for keys of dimension %d.", collection, dimension)
    elif dimension not in (None, existing_dimension):
        raise ValueError(
            f"{collection!r} has keys of dimension {existing_dimension}, not {dimension}: take another collection, or "
            "the encoder that it was built with."
        )
    dimension = existing_dimension or dimension
    new = empty_snapshot(dimension, label_names, bool(multi_label), probe=probe)
    about = read_about(collection, dimension)
    if about is None:  # a new collection, or one whose creation was interrupted
        about = About(dimension, new.label_names, multi_label, new.probe)
        write_labels(collection, about, new.label_names, 0)
        write_about(collection, about)
        about = read_about(collection, dimension)
    if multi_label is not None and about.multi_label not in (None, multi_label):
        has = "several labels" if about.multi_label else "one label"
        raise ValueError(f"The rows of {collection!r} have {has} each: leave out multi_label={multi_label}.")
    written = about
    if multi_label is not None and about.multi_label is None:
        about = replace(about, multi_label=multi_label)
    if about.probe is None and probe is not None and not collection.count(EXAMPLES):  # created without a probe
        about = replace(about, probe=new.probe)
    if about is not written:
        write_about(collection, about)
    return RemoteDatastore(collection, about)


def is_remote(name: object) -> bool:
    """Whether a datastore's name is an address, not a folder or repository."""
    return isinstance(name, str) and name.startswith((SCHEME, *_SERVER))


def parse_address(address: str | Path, collection: str | None = None) -> tuple[str, str]:
    """Split an address into a URL or a folder, for pymilvus, and the name of the collection."""
    address = os.fspath(address)
    if "@" in urlsplit(address).netloc:  # the message leaves it out, since it holds a password
        raise ValueError("The address names a user or a token before the '@': leave them out, and pass token.")
    if address.startswith(SCHEME):
        place, _, named = address.removeprefix(SCHEME).rstrip("/").rpartition("/")
        if not place or collection not in (None, named):
            raise ValueError(f"{address!r} is no address of a datastore: write milvus://HOST:19530/COLLECTION.")
        address = place if place.endswith(".db") else f"http://{place}"
        collection = named
    if collection is None:
        raise ValueError(f"Which collection of {address!r}? Pass its name, or write {SCHEME}HOST:19530/COLLECTION.")
    if not isinstance(collection, str) or not _NAME.fullmatch(collection):
        raise ValueError(f"{collection!r} is no name of a collection: take letters, digits and '_', no digit first.")
    is_server = address.startswith(_SERVER) and not urlsplit(address).path.strip("/")
    if not is_server and (address.startswith(_SERVER) or not address.endswith(".db")):
        raise ValueError(
            f"{address!r} is neither an address (http://HOST:19530, without the collection) nor a folder of "
            "milvus-lite, which ends in .db."
        )
    return address, collection


def find_token(token: str | None, token_variable: str | None) -> str:
    """The given token, or the value of the named environment variable; empty without both."""
    if token_variable is None:
        return token or ""
    if token is not None:
        raise ValueError("Pass token or token_variable, not both.")
    if not os.environ.get(token_variable):
        raise ValueError(f"The environment variable {token_variable!r}, named by token_variable, is not set.")
    return os.environ[token_variable]
