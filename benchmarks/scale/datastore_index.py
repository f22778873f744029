"""Measure the cost and the recall of a datastore's indexes.

    python -m benchmarks.scale.datastore_index --records docs/results/datastore_index.jsonl \\
        --plot docs/pictures/index_growth.png

The keys are synthetic and clustered like real embeddings: 2,000 centers in 32 dimensions, spread around them, projected
into the full dimension with a little noise, scaled to norm 1. Queries are drawn in the same way. Nothing is downloaded.
All indexes are of one datastore, which keeps the keys beside them, so that distances are exact. Measured are, for
k = 64:

- building: training and filling, in seconds;
- memory: of the process, beyond the keys alone; and the size of the index as a file;
- single queries, one after the other: median and 99th percentile; batches of 64: queries per second;
- recall: the share of the 64 nearest, as exact search gives them, that is found.

Three of the indexes are measured for fewer rows too, from 10,000 up; all is a line each in --records, and those three
are plotted.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import math
import os
import platform
import time
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib import pyplot

from docsplit_hf.classifier.knn_datastore import KNNDatastore
from docsplit_hf.training.markdown import table
from experiments.evaluation.results import processor

K = 64
BATCH = 64
CENTERS = 2_000
LATENT_DIMENSION = 32
BLOCK = 50_000  # rows that are made at a time
GROWTH = (10_000, 30_000, 100_000, 300_000, 1_000_000)
HEADER = (
    "index", "nprobe", "rerank", "build s", "memory MB", "file MB", "p50 ms", "p99 ms", "queries/s", "recall@64",
)  # fmt: skip


Kind = tuple[str, int | None, int | None]  # factory, nprobe and rerank


class Measurement(NamedTuple):
    """The measurements of an index."""

    index: str
    nprobe: int | None
    rerank: int | None
    build: float
    memory: float
    size: float
    p50: float
    p99: float
    throughput: float
    recall: float


class Search(NamedTuple):
    """The measurements of searching: milliseconds of single queries, queries per second in batches, recall."""

    p50: float
    p99: float
    throughput: float
    recall: float


def cells_of(one: Measurement) -> tuple[str, ...]:
    return (
        one.index,
        str(one.nprobe or ""),
        str(one.rerank or ""),
        f"{one.build:.1f}",
        f"{one.memory:,.0f}",
        f"{one.size:,.0f}",
        f"{one.p50:.2f}",
        f"{one.p99:.2f}",
        f"{one.throughput:,.0f}",
        f"{one.recall:.3f}",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the datastore (default: %(default)s)")
    parser.add_argument("--dimension", type=int, default=384, help="of the keys (default: %(default)s)")
    parser.add_argument("--queries", type=int, default=200, help="at least 64 (default: %(default)s)")
    parser.add_argument(
        "--records", type=Path, default=Path("output/datastore_index.jsonl"), help="a line for each (%(default)s)"
    )
    parser.add_argument("--plot", type=Path, default=Path("output/index_growth.png"), help="(%(default)s)")
    arguments = parser.parse_args()
    if arguments.rows < GROWTH[0] or arguments.queries < BATCH:
        raise SystemExit(f"Measure at least {GROWTH[0]:,} rows and {BATCH} queries.")

    keys, queries = make_embeddings(arguments.rows, arguments.queries, arguments.dimension)
    print(f"{arguments.rows:,} keys of dimension {arguments.dimension}, float32: {megabytes(keys.nbytes):,.0f} MB.")
    print(f"{arguments.queries} queries, k = {K}. Run on: {machine()}.", flush=True)
    measured = {}
    for size in sorted({*(size for size in GROWTH if size < arguments.rows), arguments.rows}):
        print(f"\n{size:,} rows\n", flush=True)
        chosen = kinds(size, f"PQ{arguments.dimension // 8}", size == arguments.rows)
        measured[size] = measure_all(keys[:size], queries, chosen)
        print(table(HEADER, map(cells_of, measured[size])))
    for path in (arguments.records, arguments.plot):
        path.parent.mkdir(parents=True, exist_ok=True)
    rows = [{"rows": size, **one._asdict()} for size, found in measured.items() for one in found]
    arguments.records.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    plot(measured, arguments.plot)


def kinds(rows: int, codes: str, all_of_them: bool) -> list[Kind]:
    """The indexes to measure. The number of IVF lists is the power of two nearest to the square root of the rows."""
    lists = 2 ** round(math.log2(math.sqrt(rows)))
    if not all_of_them:
        return [("Flat", None, None), (f"IVF{lists},Flat", None, None), (f"IVF{lists},{codes}", None, 4)]
    chosen: list[Kind] = [("Flat", None, None), ("SQfp16", None, None)]
    chosen += [(f"IVF{lists},Flat", nprobe, None) for nprobe in (8, 32, None)]
    return chosen + [(f"IVF{lists},{codes}", nprobe, rerank) for nprobe in (8, 32, None) for rerank in (1, 4, 16)]


def make_embeddings(rows: int, queries: int, dimension: int) -> tuple[np.ndarray, np.ndarray]:
    """Keys and queries, made block by block to save memory."""
    rng = np.random.default_rng(0)
    centers = rng.standard_normal((CENTERS, LATENT_DIMENSION), dtype=np.float32)
    projection = rng.standard_normal((LATENT_DIMENSION, dimension), dtype=np.float32)
    embeddings = np.empty((rows + queries, dimension), dtype=np.float32)
    for start in range(0, len(embeddings), BLOCK):
        block = embeddings[start : start + BLOCK]
        latent = centers[rng.integers(0, CENTERS, len(block))]
        latent += 0.5 * rng.standard_normal(latent.shape, dtype=np.float32)
        np.matmul(latent, projection, out=block)
        block += 0.5 * rng.standard_normal(block.shape, dtype=np.float32)
        block /= np.linalg.norm(block, axis=1, keepdims=True)
    return embeddings[:rows], embeddings[rows:]


def measure_all(keys: np.ndarray, queries: np.ndarray, chosen: list[Kind]) -> list[Measurement]:
    """Measure each index; one that is searched with several settings is built once."""
    datastore = KNNDatastore.empty(keys.shape[1], ["label"])
    for start in range(0, len(keys), BLOCK):
        block = keys[start : start + BLOCK]
        datastore.add(block, np.zeros(len(block), dtype=np.int64))
    exact = np.concatenate(
        [datastore.search(queries[start : start + BATCH], K).rows for start in range(0, len(queries), BATCH)]
    )
    measurements: list[Measurement] = []
    for factory, nprobe, rerank in chosen:
        last = measurements[-1] if measurements else None
        if last is not None and last.index == factory:
            datastore.reindex(factory, nprobe, rerank)
            build = last.build
            memory = last.memory
            size = last.size
        else:
            datastore.reindex()
            before = resident_bytes()
            start = time.perf_counter()
            datastore.reindex(factory, nprobe, rerank)
            build = time.perf_counter() - start
            memory = megabytes(resident_bytes() - before)
            size = megabytes(index_bytes(datastore))
        index = datastore.snapshot.index
        if nprobe is None and hasattr(index, "nprobe"):
            nprobe = index.nprobe
        found = measure_search(datastore, queries, exact)
        measurements.append(
            Measurement(
                index=factory,
                nprobe=nprobe,
                rerank=rerank,
                build=build,
                memory=memory,
                size=size,
                p50=found.p50,
                p99=found.p99,
                throughput=found.throughput,
                recall=found.recall,
            )
        )
    return measurements


def measure_search(datastore: KNNDatastore, queries: np.ndarray, exact: np.ndarray) -> Search:
    """Measure single queries, batches and recall; ``exact``: the rows of an exact search, ``(Q, k)``."""
    datastore.search(queries[:1], K)
    seconds = []
    hits = 0
    for query, expected in zip(queries, exact, strict=True):
        start = time.perf_counter()
        neighbors = datastore.search(query[None], K)
        seconds.append(time.perf_counter() - start)
        hits += len(np.intersect1d(neighbors.rows[0], expected))
    batches = [queries[start : start + BATCH] for start in range(0, len(queries) - BATCH + 1, BATCH)]
    start = time.perf_counter()
    for batch in batches:
        datastore.search(batch, K)
    throughput = BATCH * len(batches) / (time.perf_counter() - start)
    p50, p99 = 1000 * np.percentile(seconds, [50, 99])
    return Search(p50, p99, throughput, hits / exact.size)


def index_bytes(datastore: KNNDatastore) -> int:
    """The size of the index as a file, computed without writing it."""
    import faiss

    if datastore.snapshot.index is None:
        return 0
    written = 0

    def count(data: bytes) -> None:
        nonlocal written
        written += len(data)

    faiss.write_index(datastore.snapshot.index, faiss.PyCallbackIOWriter(count))
    return written


def resident_bytes() -> int:
    """The resident memory of the process, after free memory has been returned to the system."""
    gc.collect()
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def plot(by_size: dict[int, list[Measurement]], path: Path) -> None:
    figure, axes = pyplot.subplots(1, 2, figsize=(10, 4), layout="constrained")
    sizes = list(by_size)
    lines = {
        "exact (Flat)": lambda one: one.index == "Flat",
        "IVF,Flat": lambda one: one.index.endswith(",Flat"),
        "IVF,PQ reranked": lambda one: one.rerank == 4,
    }
    for label, fits in lines.items():
        measurements = [list(filter(fits, found))[-1] for found in by_size.values()]  # the last has the default nprobe
        axes[0].plot(sizes, [one.p50 for one in measurements], marker="o", label=label)
        axes[1].plot(sizes, [one.recall for one in measurements], marker="o", label=label)
    axes[0].set(xscale="log", yscale="log", xlabel="rows", ylabel="median of a query, ms")
    axes[1].set(xscale="log", ylim=(0, 1.03), xlabel="rows", ylabel="recall@64")
    for axis in axes:
        axis.grid(alpha=0.3)
    axes[0].legend()
    figure.savefig(path, dpi=150)
    print(f"Plot: {path}")


def megabytes(size: int) -> float:
    return size / 2**20


def machine() -> str:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    versions = ", ".join(f"{package} {version(package)}" for package in ("faiss-cpu", "numpy"))
    return f"{processor()}, {cores} cores, Python {platform.python_version()}, {versions}"


if __name__ == "__main__":
    main()
