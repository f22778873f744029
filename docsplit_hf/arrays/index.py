"""Approximate search by squared L2 distance with FAISS indexes."""

from __future__ import annotations

import logging
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .keys import BLOCK_BYTES, as_float32

if TYPE_CHECKING:
    import faiss

logger = logging.getLogger(__name__)

EXACT = "Flat"
MIN_INDEXED_ROWS = 1_000  # exact search of fewer takes less than a millisecond
ROWS_PER_CENTROID = 39  # lower bound of FAISS for k-means; with fewer rows it warns, and search is worse
TRAINING_ROWS_PER_CENTROID = 64  # more take longer to train, without a gain
MIN_TRAINING_ROWS = 65_536  # if there are as many
# With 16 lists, 99 % of fitted answers have the label of exact search (benchmarks/scale/fitted_answers.py).
MIN_SEARCHED_LISTS = 16
SEARCHED_LIST_DIVISOR = 8  # an eighth of all lists is searched
LIST_GROWTH = 4  # factor for the searched lists if they have too few rows
PQ_RERANK = 4  # candidates per result where PQ codes are searched, unless rerank is given

# The tested families. FAISS accepts more, but some end the process (HNSW0, RR0, PQ8x0), and others train for minutes
# without a gain over exact re-ranking (OPQ).
_NUMBER = "[1-9][0-9]{0,5}"
_CODES = rf"Flat|SQ4|SQ6|SQ8|SQfp16|SQbf16|PQ{_NUMBER}(x([4-9]|1[0-2]))?(fs)?"
_GRAPH = "HNSW([4-9]|[1-9][0-9]|1[0-9]{2})"
_FACTORY = re.compile(rf"(PCAR?{_NUMBER},)?(IVF{_NUMBER}(_{_GRAPH})?,({_CODES})|{_GRAPH}(,({_CODES}))?|{_CODES})")


@dataclass(frozen=True)
class IndexOptions:
    """Settings of the search: ``index``, ``nprobe`` and ``rerank`` of ``KNNDatastore``."""

    factory: str = EXACT
    nprobe: int | None = None
    rerank: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.factory, str) or not _FACTORY.fullmatch(self.factory):
            raise ValueError(
                f"Unknown index {self.factory!r}: choose 'Flat' (exact), or a factory string of FAISS: "
                "'IVF<lists>,<codes>', 'HNSW<links>' or '<codes>', with codes such as Flat, PQ64, SQ8 or SQfp16, for "
                "example 'IVF1024,PQ64'."
            )
        for name in ("nprobe", "rerank"):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < 1):
                raise ValueError(f"{name} must be an integer of at least 1, or None, got {value!r}.")
        if self.nprobe and "IVF" not in self.factory:
            raise ValueError(
                f"nprobe={self.nprobe} needs an IVF index, but {self.factory!r} has no lists: leave nprobe out."
            )

    def candidates(self, k: int) -> int:
        """Number of candidates fetched from an index for k results."""
        return k * (self.rerank or (PQ_RERANK if "PQ" in self.factory else 1))


def fewest_rows(factory: str, dimension: int) -> int:
    """Return the minimum number of rows for an index: 39 per centroid of its k-means, and at least 1,000 and D."""
    return max(ROWS_PER_CENTROID * _centroids(new_index(factory, dimension)), MIN_INDEXED_ROWS, dimension)


def build_index(keys: np.ndarray, factory: str) -> faiss.Index:
    """Train an index on a fixed sample, and fill it."""
    start = time.perf_counter()
    index = new_index(factory, keys.shape[1])
    for part in _parts_of(index):
        if hasattr(part, "do_polysemous_training"):
            part.do_polysemous_training = False  # takes minutes, and is for a search that is not used
    try:
        size = min(max(TRAINING_ROWS_PER_CENTROID * _centroids(index), MIN_TRAINING_ROWS), len(keys))
        sample = np.sort(np.random.default_rng(0).choice(len(keys), size, replace=False))
        index.train(as_float32(keys[sample]))
        fill_index(index, keys, 0)
    except RuntimeError as error:
        raise ValueError(
            f"FAISS cannot build the index {factory!r} on {len(keys)} keys of dimension {keys.shape[1]}: "
            f"{_reason(error)}. Choose another one."
        ) from error
    logger.info("Built the index %r of %d rows in %.1f s.", factory, len(keys), time.perf_counter() - start)
    return index


def fill_index(index: faiss.Index, keys: np.ndarray, start: int) -> None:
    """Add the keys from ``start`` on."""
    step = max(BLOCK_BYTES // (4 * keys.shape[1]), 1)
    for first in range(start, len(keys), step):
        index.add(as_float32(keys[first : first + step]))


def set_nprobe(index: faiss.Index, nprobe: int | None) -> None:
    """Set the number of lists that an IVF index searches; other indexes have no lists."""
    import faiss

    lists = faiss.try_extract_index_ivf(index)
    if lists is not None:
        lists.nprobe = min(nprobe or max(lists.nlist // SEARCHED_LIST_DIVISOR, MIN_SEARCHED_LISTS), lists.nlist)


def approximate_search(index: faiss.Index, queries: np.ndarray, k: int) -> np.ndarray:
    """Search an index: rows, int64 ``(Q, k)``, -1 where all lists have fewer than k rows.

    If the searched lists have fewer than k rows, more lists are searched.
    """
    import faiss

    rows = index.search(queries, k)[1]
    lists = faiss.try_extract_index_ivf(index)
    nprobe = 0 if lists is None else lists.nprobe
    incomplete = np.flatnonzero(rows[:, -1] < 0)
    while lists is not None and nprobe < lists.nlist and incomplete.size:
        nprobe = min(LIST_GROWTH * nprobe, lists.nlist)
        # Set for this search only, because other threads search the same index.
        parameters = faiss.SearchParametersIVF(nprobe=nprobe)
        if isinstance(index, faiss.IndexPreTransform):
            parameters = faiss.SearchParametersPreTransform(index_params=parameters)
        rows[incomplete] = index.search(queries[incomplete], k, params=parameters)[1]
        incomplete = np.flatnonzero(rows[:, -1] < 0)
    return rows


def new_index(factory: str, dimension: int) -> faiss.Index:
    import faiss

    try:
        return faiss.index_factory(dimension, factory)
    except RuntimeError as error:
        raise ValueError(
            f"FAISS cannot make the index {factory!r} for keys of dimension {dimension}: {_reason(error)}. The number "
            "after PQ must divide the dimension."
        ) from error


def _parts_of(index: faiss.Index) -> list[Any]:
    """An index and its nested indexes, each downcast to its class."""
    import faiss

    parts = [faiss.downcast_index(index)]
    for part in parts:  # also visits the parts appended here
        if isinstance(part, faiss.IndexPreTransform):
            parts.append(faiss.downcast_index(part.index))
        elif isinstance(part, faiss.IndexHNSW):
            parts.append(faiss.downcast_index(part.storage))
    return parts


def _centroids(index: faiss.Index) -> int:
    """The largest number of centroids of a k-means in the index; 0 without k-means."""
    import faiss

    parts = _parts_of(index)
    found = [part.nlist for part in parts if isinstance(part, faiss.IndexIVF)]
    found += [part.pq.ksub for part in parts if hasattr(part, "pq")]
    return max(found, default=0)


def _reason(error: RuntimeError) -> str:
    """Return the end of FAISS's message, without names of functions and files."""
    return " ".join(str(error).split("failed: ")[-1].split(" at /project/")[-1].split()).rstrip(".")
