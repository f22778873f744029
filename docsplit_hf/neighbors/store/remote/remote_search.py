"""Searching a collection: candidates from Milvus, then the nearest of them as a local datastore finds them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..keys import as_queries
from ..passage_table import check_passages
from .collection import FIELDS, MOST_FOUND, PK, Collection
from .rows import DOCUMENT, all_keys

if TYPE_CHECKING:
    from ....models.inference.long_documents import Passages
    from ..snapshot import Neighbors, Snapshot

SPARE = 16  # candidates beyond k: a server's own distances are off by rounding
PER_PASSAGE = 4  # candidates for each row that is wanted: what is near by one passage need not be by several


def remote_search(
    collection: Collection,
    partition: str,
    dimension: int,
    decoded: Callable[[list[dict[str, Any]]], Snapshot],
    queries: Any,
    k: int,
    passages: Passages | None,
) -> Neighbors:
    """The nearest documents of a partition. Each query is compared with the candidates of all of them, exactly."""
    if not isinstance(k, (int, np.integer)) or isinstance(k, bool) or not 1 <= k <= MOST_FOUND - SPARE:
        raise ValueError(f"k must be an integer from 1 to {MOST_FOUND - SPARE:,}, got {k!r}.")
    queries = as_queries(queries, "queries", dimension)
    asked = check_passages(passages, queries)
    vectors, counts = (queries, np.ones(len(queries), np.int64)) if asked is None else (asked.keys, asked.counts)
    wanted = min((k if asked is None else PER_PASSAGE * k) + SPARE, MOST_FOUND)
    near = _candidates(collection, partition, np.asarray(vectors, dtype=np.float32), counts, wanted)
    firsts = collection.get([f"{document}p0" for document in near], FIELDS)
    there = {row[PK] for row in firsts}
    others = collection.get([key for key in all_keys(firsts) if key not in there], FIELDS)
    return decoded([*firsts, *others]).search(queries, int(k), passages)


def _candidates(
    collection: Collection, partition: str, vectors: np.ndarray, counts: np.ndarray, wanted: int
) -> list[str]:
    """What the keys of near documents begin with: as many for each query as are wanted, if there are so many."""
    found: dict[str, None] = {}
    ends, pending, limit = np.cumsum(counts), np.arange(len(counts)), wanted
    while len(pending):
        places = np.concatenate([np.arange(ends[query] - counts[query], ends[query]) for query in pending])
        hits = collection.search(partition, vectors[places], limit)
        short = []
        for query in pending:
            own, full = {}, False
            for _ in range(counts[query]):
                keys = next(hits)
                full |= len(keys) == limit
                own |= dict.fromkeys(key[:DOCUMENT] for key in keys)
            found |= own
            if full and len(own) < wanted and limit < MOST_FOUND:  # many passages of a few documents are near
                short.append(query)
        pending, limit = np.array(short, dtype=np.int64), min(4 * limit, MOST_FOUND)
    return list(found)
