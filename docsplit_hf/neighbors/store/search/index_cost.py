"""What an index will cost, said before it is built: from its sizes, and a measurement of a hundredth of a second."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass

import numpy as np

from .index import BLOCK_BYTES, new_index, parts_of, training_rows

logger = logging.getLogger(__name__)

LONG = 60.0  # seconds
# FAISS: iterations of its k-means for lists, and for codes; the largest precomputed table; how much slower than a plain
# product of matrices short ones are, of codes, and vectors that a graph jumps to; how many it looks at for each link.
LIST_ITERATIONS, CODE_ITERATIONS, LARGEST_TABLE = 10, 25, 2**31
SLOWER_CODES, SLOWER_GRAPH, VISITED_PER_LINK = 3, 8, 40


@dataclass(frozen=True)
class IndexCost:
    """``disk``: bytes of the index in a file; ``memory``: once it is there; ``building``: at most, meanwhile."""

    disk: int
    memory: int
    building: int
    seconds: float


def estimate_cost(factory: str, rows: int, dimension: int) -> IndexCost:
    """What an index of so many keys costs. The time is right within a factor of two, but of graphs (HNSW) a guess."""
    import faiss

    index = new_index(factory, dimension)
    entry, fixed, table, train, add = 0, 0, 0, 0.0, 0.0
    sample, width = training_rows(index, rows), dimension
    for part in parts_of(index):
        width = part.d if not isinstance(part, faiss.IndexPreTransform) else width
        pq = getattr(part, "pq", None)
        codes = 2 * width * (pq.ksub if pq is not None else 0) * SLOWER_CODES
        if isinstance(part, faiss.IndexIVF):
            entry, fixed = part.code_size + 8, 4 * width * part.nlist
            train += LIST_ITERATIONS * sample * part.nlist * 2 * width
            links = getattr(faiss.downcast_index(part.quantizer), "hnsw", None)
            visited = part.nlist if links is None else links.efSearch * 2 * SLOWER_GRAPH
            add += 2 * width * visited
            if isinstance(part, faiss.IndexIVFPQ) and 4 * part.nlist * pq.M * pq.ksub <= LARGEST_TABLE:
                table = 4 * part.nlist * pq.M * pq.ksub
        elif isinstance(part, faiss.IndexHNSW):
            links = part.hnsw.nb_neighbors(0)
            entry += 4 * links + 16
            add += 2 * width * links * VISITED_PER_LINK * SLOWER_GRAPH / 4
        elif not isinstance(part, faiss.IndexPreTransform):
            entry += part.sa_code_size()
        train += CODE_ITERATIONS * min(sample, 2**16) * codes
        add += codes
    disk = rows * entry + fixed
    # Lists grow by doubling; of the sample, k-means and codes have copies of their own.
    building = 2 * rows * entry + fixed + table + 3 * 4 * sample * dimension + 2 * BLOCK_BYTES
    return IndexCost(disk, disk + table, building, (train + rows * add) / _products_per_second(dimension))


def log_cost(factory: str, rows: int, dimension: int) -> None:
    """Say what an index will cost: a warning if it takes minutes."""
    cost = estimate_cost(factory, rows, dimension)
    duration = f"{cost.seconds:.0f} s" if cost.seconds < 2 * LONG else f"{cost.seconds / 60:.0f} minutes"
    logger.log(
        logging.WARNING if cost.seconds > LONG else logging.INFO,
        "Building the index %r of %s rows: about %s, up to %s MB of memory, then %s MB, and %s MB on the disk.",
        factory, f"{rows:,}", duration, *(f"{size / 1e6:,.0f}" for size in (cost.building, cost.memory, cost.disk)),
    )  # fmt: skip


def _products_per_second(dimension: int) -> float:
    """Floating point operations of a product of matrices, as it runs here and now."""
    left, right = np.ones((1024, dimension), np.float32), np.ones((dimension, 1024), np.float32)
    best = np.inf
    for _ in range(4):
        start = time.perf_counter()
        left @ right
        best = min(best, time.perf_counter() - start)
    return 2 * left.size * right.shape[1] / best
