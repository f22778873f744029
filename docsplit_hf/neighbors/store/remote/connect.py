"""Connecting: the datastore in a collection, which is made if it is not there and its dimension is known."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..keys.key_matrix import as_matrix
from ..snapshot import empty_snapshot
from .about import About, read_about, write_about, write_labels
from .address import find_token, parse_address
from .collection import EXAMPLES, Collection, check_installed
from .remote_datastore import RemoteDatastore

if TYPE_CHECKING:
    from ..datastore import KNNDatastore
    from ..snapshot import Snapshot

logger = logging.getLogger(__name__)


def connect(
    as_local: Callable[[Snapshot], KNNDatastore],
    address: str | Path,
    name: str | None,
    token: str | None,
    token_variable: str | None,
    timeout: float,
    index: str,
    dimension: int | None,
    label_names: Sequence[str],
    multi_label: bool | None,
    probe: Any,
) -> RemoteDatastore:
    """Connect as ``KNNDatastore.connect`` says; ``as_local`` makes a local datastore of a snapshot."""
    opened, name = parse_address(address, name)
    check_installed(opened)
    if opened.endswith(".db") and not (parent := Path(opened).absolute().parent).is_dir():
        raise ValueError(f"There is no folder {str(parent)!r} for {opened!r}: make it, or correct the address.")
    collection = Collection(opened, name, find_token(token, token_variable), timeout)
    if probe is not None:
        probe = as_matrix(probe, "probe", dimension)
        dimension = probe.shape[1]
    there = collection.dimension()
    if there is None and dimension is None:
        raise ValueError(f"{collection!r} is not there. To make it, pass dimension, that of the keys to come.")
    if dimension not in (None, there) and there is not None:
        raise ValueError(
            f"{collection!r} has keys of dimension {there}, not {dimension}: take another collection, or the encoder "
            "that it was built with."
        )
    if there is None:
        collection.create(dimension, index)
        logger.info("Made %r, for keys of dimension %d.", collection, dimension)
    about = read_about(collection, there or dimension)
    if about is None:  # also where the making was interrupted
        empty = empty_snapshot(there or dimension, label_names, bool(multi_label), probe=probe)
        new = About(there or dimension, empty.label_names, multi_label, empty.probe, "new")
        write_labels(collection, new, new.label_names, 0)
        write_about(collection, new)
        about = read_about(collection, new.dimension)
    elif multi_label is not None and about.multi_label not in (None, multi_label):
        has = "several labels" if about.multi_label else "one label"
        raise ValueError(f"The rows of {collection!r} have {has} each: leave out multi_label={multi_label}.")
    elif multi_label is not None and about.multi_label is None:
        about = replace(about, multi_label=multi_label)
        write_about(collection, about)
    if about.probe is None and probe is not None and not collection.count(EXAMPLES):  # made by hand, before it
        about = replace(about, probe=empty_snapshot(about.dimension, (), False, probe=probe).probe)
        write_about(collection, about)
    return RemoteDatastore(collection, about, as_local)
