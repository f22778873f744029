"""Search by squared L2 distance, exact and approximate, as functions of arrays and FAISS indexes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import faiss

EXACT = "Flat"
BLOCK_BYTES = 64 * 2**20  # of float32, for what is converted or gathered at a time
SPARE_CANDIDATES = 16  # beyond k: for batches FAISS computes |q|^2 - 2qx + |x|^2, whose rounding may swap the last ones
FEWEST_ROWS = 1_000  # searched exactly in less than a millisecond
ROWS_PER_CENTROID = 39  # FAISS's own lower bound for k-means; below it, it prints warnings and the lists are no good
TRAINING_ROWS_PER_CENTROID = 256  # FAISS's k-means uses no more
TRAINING_ROWS = 65_536  # for what has no centroids, as scalar quantizers

# The families that are tested here. FAISS takes more, but ends the process for some (HNSW0, RR0, PQ8x0), and takes
# minutes to train others (OPQ), which exact re-ranking makes needless.
_NUMBER = "[1-9][0-9]{0,5}"
_CODES = rf"Flat|SQ4|SQ6|SQ8|SQfp16|SQbf16|PQ{_NUMBER}(x([4-9]|1[0-2]))?(fs)?"
_GRAPH = "HNSW([4-9]|[1-9][0-9]|1[0-9]{2})"
_FACTORY = re.compile(rf"(PCAR?{_NUMBER},)?(IVF{_NUMBER}(_{_GRAPH})?,({_CODES})|{_GRAPH}(,({_CODES}))?|{_CODES})")


@dataclass(frozen=True)
class IndexOptions:
    """What a datastore is searched with.

    Args:
        factory: ``"Flat"``, exact search in the keys themselves; or a string of ``faiss.index_factory`` of the
            families ``IVF<lists>,<codes>``, ``HNSW<links>`` and ``<codes>`` alone, where codes are ``Flat``,
            ``PQ<bytes>``, ``SQ8``, ``SQfp16`` and their like, maybe after ``PCA<dimensions>,``.
            FAISS trains PQ fastest by far with 8 dimensions a byte: ``PQ48`` for 384 of them.
        nprobe: How many lists an IVF index looks into for a query. None: an eighth of them, at least 8.
        rerank: Fetch ``rerank * k`` candidates from the index and keep those k that are nearest by the stored keys.
            None: 4 with PQ codes, whose order is rough, else 1. Distances are exact in any case.

    Raises:
        ValueError: If the factory string is none of these, a number is below 1, or ``nprobe`` comes without an IVF.

    Example:

        >>> IndexOptions("IVF64,PQ16", nprobe=16, rerank=4).factory
        'IVF64,PQ16'
    """

    factory: str = EXACT
    nprobe: int | None = None
    rerank: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.factory, str) or not _FACTORY.fullmatch(self.factory):
            raise ValueError(
                f"Unknown index {self.factory!r}: choose 'Flat' (exact), or of faiss.index_factory "
                "'IVF<lists>,<codes>', 'HNSW<links>' or '<codes>', with codes as Flat, PQ64, SQ8 or SQfp16, for "
                "example 'IVF1024,PQ64'."
            )
        for name in ("nprobe", "rerank"):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < 1):
                raise ValueError(f"{name} must be an integer of at least 1, or None, got {value!r}.")
        if self.nprobe and "IVF" not in self.factory:
            raise ValueError(
                f"nprobe={self.nprobe} is for IVF indexes, and {self.factory!r} has no lists: leave it out."
            )

    def candidates(self, k: int) -> int:
        """How many candidates are fetched from an index for k neighbors.

        Args:
            k: The number of neighbors.

        Returns:
            The number of candidates.

        Example:

            >>> IndexOptions("IVF64,PQ16").candidates(10), IndexOptions("IVF64,Flat").candidates(10)
            (40, 10)
        """
        return k * (self.rerank or (4 if "PQ" in self.factory else 1))


def exact_search(queries: np.ndarray, keys: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The nearest keys, by comparing with all of them.

    Args:
        queries: float32 ``(Q, D)``.
        keys: float32 ``(N, D)``, searched where they lie; or float16, converted 64 MiB at a time.
        k: From 1 to N.

    Returns:
        Squared L2 distances, float32 ``(Q, k)``, ascending, and the keys' rows, int64 ``(Q, k)``. Of equal distances
        the lower row comes first.

    Example:

        >>> keys = np.array([[0.0], [3.0], [1.0]], dtype=np.float32)
        >>> exact_search(np.array([[2.5]], dtype=np.float32), keys, k=2)
        (array([[0.25, 2.25]], dtype=float32), array([[1, 2]]))
    """
    import faiss

    count = min(k + SPARE_CANDIDATES, len(keys))
    step = len(keys) if keys.dtype == np.float32 else max(BLOCK_BYTES // (4 * keys.shape[1]), 1)
    distances = np.empty((len(queries), 0), dtype=np.float32)
    rows = np.empty((len(queries), 0), dtype=np.int64)
    for start in range(0, len(keys), step):
        block = keys[start : start + step].astype(np.float32, copy=False)
        found, found_rows = faiss.knn(queries, block, min(count, len(block)))
        distances, rows = np.hstack([distances, found]), np.hstack([rows, found_rows + start])
        if rows.shape[1] > count:
            nearest = np.argpartition(distances, count - 1, axis=1)[:, :count]
            distances, rows = np.take_along_axis(distances, nearest, 1), np.take_along_axis(rows, nearest, 1)
    return nearest_candidates(queries, keys, rows, k)


def nearest_candidates(
    queries: np.ndarray, keys: np.ndarray, candidates: np.ndarray, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """The nearest of given candidates, by the stored keys: ``sum((q - x)^2)``, so that a key is at 0 from itself.

    Args:
        queries: float32 ``(Q, D)``.
        keys: float32 or float16 ``(N, D)``.
        candidates: int64 ``(Q, M)``, rows of the keys, each at most once for a query; -1 for none.
        k: From 1 to M.

    Returns:
        As for ``exact_search``; row -1 at an infinite distance where a query has fewer than k candidates.

    Example:

        >>> keys = np.array([[0.0], [3.0], [1.0]], dtype=np.float32)
        >>> nearest_candidates(keys[:1], keys, np.array([[1, 2, -1]]), k=2)[1]
        array([[2, 1]])
    """
    distances = np.empty(candidates.shape, dtype=np.float32)
    step = max(BLOCK_BYTES // (4 * keys.shape[1] * candidates.shape[1]), 1)
    for start in range(0, len(queries), step):
        block = slice(start, start + step)
        difference = keys[candidates[block]].astype(np.float32, copy=False)  # (q, M, D), a copy
        difference -= queries[block, None]
        distances[block] = np.einsum("qmd,qmd->qm", difference, difference)
    distances[candidates < 0] = np.inf
    order = np.lexsort((candidates, distances))[:, :k]
    return np.take_along_axis(distances, order, axis=1), np.take_along_axis(candidates, order, axis=1)


def fewest_rows(factory: str, dimension: int) -> int:
    """How many rows an index needs to be of use; fewer are better searched exactly.

    Args:
        factory: As in ``IndexOptions``.
        dimension: D of the keys.

    Returns:
        39 for each centroid that k-means has to find, and at least 1,000 and D.

    Raises:
        ValueError: If FAISS makes no such index for keys of this dimension.

    Example:

        >>> fewest_rows("IVF64,Flat", dimension=32), fewest_rows("HNSW32", dimension=32)
        (2496, 1000)
    """
    return max(ROWS_PER_CENTROID * _centroids(_new_index(factory, dimension)), FEWEST_ROWS, dimension)


def build_index(keys: np.ndarray, factory: str) -> faiss.Index:
    """Train an index on a sample, always the same, and fill it with all keys.

    Args:
        keys: float32 or float16 ``(N, D)``.
        factory: As in ``IndexOptions``.

    Returns:
        The index; its rows are those of the keys. It is not to be changed any more.

    Raises:
        ValueError: If FAISS cannot train such an index on these keys.

    Example:

        >>> keys = np.random.default_rng(0).standard_normal((700, 8), dtype=np.float32)
        >>> build_index(keys, "IVF16,Flat").ntotal
        700
    """
    index = _new_index(factory, keys.shape[1])
    for part in _parts(index):
        if hasattr(part, "do_polysemous_training"):
            part.do_polysemous_training = False  # minutes of sorting codes, for a kind of search that is not used here
    size = min(TRAINING_ROWS_PER_CENTROID * _centroids(index) or TRAINING_ROWS, len(keys))
    sample = np.sort(np.random.default_rng(0).choice(len(keys), size, replace=False))
    try:
        index.train(keys[sample].astype(np.float32, copy=False))
        step = max(BLOCK_BYTES // (4 * keys.shape[1]), 1)
        for start in range(0, len(keys), step):
            index.add(keys[start : start + step].astype(np.float32, copy=False))
    except RuntimeError as error:
        raise ValueError(
            f"FAISS cannot build the index {factory!r} on {len(keys)} keys of dimension {keys.shape[1]}: "
            f"{_reason(error)}. Choose another one."
        ) from error
    return index


def set_nprobe(index: faiss.Index, nprobe: int | None) -> None:
    """Set how many lists an IVF index looks into; other indexes have none.

    Args:
        index: The index.
        nprobe: As in ``IndexOptions``.

    Example:

        >>> keys = np.random.default_rng(0).standard_normal((700, 8), dtype=np.float32)
        >>> index = build_index(keys, "IVF16,Flat")
        >>> set_nprobe(index, None)
        >>> index.nprobe
        8
    """
    import faiss

    lists = faiss.try_extract_index_ivf(index)
    if lists is not None:
        lists.nprobe = min(nprobe or max(lists.nlist // 8, 8), lists.nlist)


def approximate_search(index: faiss.Index, queries: np.ndarray, k: int) -> np.ndarray:
    """Rows that an index takes for the nearest. An IVF index looks into more lists where ``nprobe`` hold too few rows.

    Args:
        index: The index.
        queries: float32 ``(Q, D)``.
        k: At least 1.

    Returns:
        int64 ``(Q, k)``, nearest first; -1 where the index found too few.

    Example:

        >>> keys = np.random.default_rng(0).standard_normal((700, 8), dtype=np.float32)
        >>> approximate_search(build_index(keys, "IVF16,Flat"), keys[:2], k=700).min()
        np.int64(0)
    """
    import faiss

    rows = index.search(queries, k)[1]
    lists = faiss.try_extract_index_ivf(index)
    nprobe = 0 if lists is None else lists.nprobe
    while lists is not None and nprobe < lists.nlist and (short := np.flatnonzero(rows[:, -1] < 0)).size:
        nprobe = min(4 * nprobe, lists.nlist)
        # Given with the search, as other threads search the same index.
        parameters = faiss.SearchParametersIVF(nprobe=nprobe)
        if isinstance(index, faiss.IndexPreTransform):
            parameters = faiss.SearchParametersPreTransform(index_params=parameters)
        rows[short] = index.search(queries[short], k, params=parameters)[1]
    return rows


def _new_index(factory: str, dimension: int) -> faiss.Index:
    import faiss

    try:
        return faiss.index_factory(dimension, factory)
    except RuntimeError as error:
        raise ValueError(
            f"FAISS makes no index {factory!r} for keys of dimension {dimension}: {_reason(error)}. "
            "The number after PQ must divide the dimension."
        ) from error


def _parts(index: faiss.Index) -> list[Any]:
    """An index and what it is made of, each as the class that it is."""
    import faiss

    parts = [faiss.downcast_index(index)]
    for part in parts:  # what is appended is looked at in its turn
        if isinstance(part, faiss.IndexPreTransform):
            parts.append(faiss.downcast_index(part.index))
        elif isinstance(part, faiss.IndexHNSW):
            parts.append(faiss.downcast_index(part.storage))
    return parts


def _centroids(index: faiss.Index) -> int:
    """The most centroids that a k-means of the index has to find; 0 where there is none."""
    import faiss

    parts = _parts(index)
    found = [part.nlist for part in parts if isinstance(part, faiss.IndexIVF)]
    found += [part.pq.ksub for part in parts if hasattr(part, "pq")]
    return max(found, default=0)


def _reason(error: RuntimeError) -> str:
    """The end of FAISS's message, without functions and files."""
    return " ".join(str(error).split("failed: ")[-1].split(" at /project/")[-1].split()).rstrip(".")
