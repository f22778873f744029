"""Recall and time of a datastore that is spread over shards, with searches in parallel and merged answers.

    python -m benchmarks.scale.merge_simulation

400,000 keys as in ten_million.py are spread over 1 to 32 shards at random, and each shard has an index of its own
(IVF with as many lists as the square root of its rows, one list in 16 searched, at least 8; int8 codes). Two questions:

- Recall of the 64 nearest, and the slowest shard. A query waits for all shards: its time is the longest of as many
  single searches as there are shards, drawn at random from those that were measured here, one after the other, on one
  thread. Networks are left out.
- How many answers each shard must send. The 64 nearest of all are spread as a binomial distribution: the least number
  with which 99.9 % of them are among those that were sent, in closed form.
"""

import argparse
import math
import time

import faiss
import numpy as np
from scipy.stats import binom

from benchmarks.scale.ten_million import DIMENSION, K, Source
from docsplit_hf.training.markdown import table

QUERIES = 300
DRAWS = 100_000  # of the slowest of several searches


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=400_000, help="Keys in all. Default: %(default)s.")
    parser.add_argument("--shards", type=int, nargs="+", default=[1, 2, 4, 8, 16, 32], help="Default: 1 to 32.")
    options = parser.parse_args()
    faiss.omp_set_num_threads(1)
    source = Source()
    rng = np.random.default_rng(0)
    keys = source.embeddings(part=0, count=options.rows)[0].astype(np.float32)
    queries = source.embeddings(part=1, count=QUERIES)[0].astype(np.float32)
    exact = faiss.IndexFlatL2(DIMENSION)
    exact.add(keys)
    _, truth = exact.search(queries, K)
    rows = []
    for count in options.shards:
        seconds, recall, merging = searched_in_shards(keys, queries, truth, rng.integers(count, size=len(keys)), count)
        slowest = rng.choice(seconds, size=(DRAWS, count)).max(1)
        cells = [f"{1e3 * np.quantile(times, q):.2f} ms" for times in (seconds, slowest) for q in (0.5, 0.99)]
        rows.append((str(count), f"{recall:.3f}", *cells, f"{1e3 * merging:.2f} ms", str(enough(count))))
    names = ("a shard, p50", "a shard, p99", "slowest shard, p50", "slowest shard, p99", "merging")
    print(table(("shards", f"recall@{K}", *names, "answers of each"), rows))


def searched_in_shards(
    keys: np.ndarray, queries: np.ndarray, truth: np.ndarray, shard_of: np.ndarray, count: int
) -> tuple[np.ndarray, float, float]:
    """Seconds of each search of each shard, recall after merging, and mean seconds of merging one query's answers."""
    seconds = []
    distances = []
    found = []
    for shard in range(count):
        rows = np.flatnonzero(shard_of == shard)
        lists = 2 ** round(math.log2(math.sqrt(len(rows))))
        index = faiss.index_factory(DIMENSION, f"IVF{lists},SQ8")
        index.train(keys[rows])
        index.add(keys[rows])
        index.nprobe = max(lists // 16, 8)
        index.search(queries[:20], K)
        for query in queries:
            start = time.perf_counter()
            near, local = index.search(query[None], K)
            seconds.append(time.perf_counter() - start)
            distances.append(near[0])
            found.append(rows[local[0]])
    start = time.perf_counter()
    merged_distances = by_query(distances, count, len(queries))
    merged_rows = by_query(found, count, len(queries))
    places = np.argpartition(merged_distances, K - 1, axis=1)[:, :K]
    nearest = np.take_along_axis(merged_rows, places, axis=1)
    merging = (time.perf_counter() - start) / len(queries)
    recall = np.mean([len(set(one) & set(other)) / K for one, other in zip(nearest, truth, strict=True)])
    return np.array(seconds), float(recall), merging


def by_query(answers: list[np.ndarray], shards: int, queries: int) -> np.ndarray:
    """The answers of all shards to each query, ``(Q, shards * K)``; given shard by shard, ``(K,)`` for each query."""
    return np.stack(answers).reshape(shards, queries, K).swapaxes(0, 1).reshape(queries, -1)


def enough(shards: int) -> int:
    """The least answers of each shard that lose at most one in a thousand of the nearest, on average.

    A shard holds X of the K nearest, binomial with p = 1 / shards; with n answers it loses max(X - n, 0).
    """
    held = np.arange(K + 1)
    chances = binom.pmf(held, K, 1 / shards)
    lost = [shards * (chances * np.maximum(held - n, 0)).sum() / K for n in range(K + 1)]
    return next(n for n, share in enumerate(lost) if share <= 0.001)


if __name__ == "__main__":
    main()
