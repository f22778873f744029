"""LocalCopy: all rows of a collection, in this process; fetched once, and kept up to date."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from ..datastore import KNNDatastore
from .about import About, read_changed, write_changed
from .collection import DOCUMENTS, EXAMPLES, FIELDS, PK, REST, Collection
from .rows import DOCUMENT, to_snapshot

logger = logging.getLogger(__name__)

MOST_COPIED = 2**31  # bytes of keys


class LocalCopy:
    """A local datastore of all rows."""

    def __init__(self, collection: Collection) -> None:
        self.datastore: KNNDatastore | None = None
        self._collection = collection
        self._change = ""  # the last one that it has

    def is_current(self) -> bool:
        """Whether it is there, and nobody else has changed the collection since."""
        return self.datastore is not None and read_changed(self._collection) == self._change

    def fetch(self, about: About) -> None:
        """Fetch all rows; what was fitted stays."""
        collection, change = self._collection, read_changed(self._collection)
        count = sum(collection.count(partition) for partition in (EXAMPLES, DOCUMENTS, REST))
        if (size := 4 * count * about.dimension) > MOST_COPIED:
            raise ValueError(
                f"This needs all rows, and the keys of {collection!r} have {size / 2**30:.1f} GiB, more than "
                f"{MOST_COPIED / 2**30:g}: build a KNNDatastore of fewer examples for it."
            )
        rest = list(collection.rows(REST, FIELDS))
        examples, documents = (
            [*collection.rows(kind, FIELDS), *(row for row in rest if row[PK][0] == kind[0])]
            for kind in (EXAMPLES, DOCUMENTS)
        )
        snapshot, unlabeled = to_snapshot(examples, about), to_snapshot(documents, about, labeled=False)
        fetched = len(snapshot.keys) + len(unlabeled.keys)
        logger.info("Fetched %d rows from %r.", fetched, collection)
        if lost := len({row[PK][:DOCUMENT] for row in (*examples, *documents)}) - fetched:
            logger.warning("%d rows were written in part, and are left out: repeat the add that failed.", lost)
        fitted = None if self.datastore is None else self.datastore.fitted
        whole = replace(snapshot, documents=unlabeled if len(unlabeled.keys) else None, fitted=fitted)
        self.datastore, self._change = KNNDatastore.of(whole), change

    @contextlib.contextmanager
    def change(self, about: About, change: Callable[[KNNDatastore], Any]) -> Iterator[None]:
        """Change the collection within; then the copy in the same way, and tell all others."""
        before, self._change = self._change, ""  # what fails half-way leaves a copy that is fetched again
        yield
        is_known = self.datastore is not None and read_changed(self._collection) == before
        token = write_changed(self._collection, about)
        if is_known:
            change(self.datastore)
            self._change = token
