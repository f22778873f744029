"""Measure a datastore with keys on the disk: building, opening, memory, single queries, from 100,000 rows up.

    python -m benchmarks.scale.ten_million --folder output/ten_million
    python -m benchmarks.scale.ten_million --folder output/ten_million --rows 100000 1000000

10,000,000 rows need 17 GB of disk, and half an hour on one thread. The keys are synthetic, float16, in a folder of
shards: 200 topics, 100 subtopics of each, and documents around these. All three levels are normal with a power-law
spectrum, like the principal components of text embeddings (the j-th standard deviation is j^-0.5, in 128 dimensions,
which a random rotation maps into the full space), times 1, 0.7 and 0.7, so that topics overlap; with a little noise in
all dimensions, and norm 1. Subtopics have unequal sizes (log-normal). Queries are drawn in the same way.

Each figure comes from a fresh process; shards, index and cached rows are below the folder:

- checking: the work of the first opening, without the index; building: the index. Both with their peak memory:
  "anonymous" is the process's own memory; the resident set also includes pages of mapped files, which the system frees
  on demand.
- nprobe and rerank: the fastest settings with enough recall on 100 queries. The recall in the table is of 200 others;
  truth is exact search of the same keys.
- opening: the call of from_shards in a new process, without the import of the package.
- single queries, k = 64, one after the other: median and 99th percentile of 1,000; "cold": the median of 100 after the
  keys were dropped from the system's cache.
- adding 10,000 rows, removing 10, and merging both into the index: in the records.
- FAISS flat: IndexFlatL2 over the same keys in memory, as float32, up to 1,000,000 rows.
"""

from __future__ import annotations

import argparse
import json
import math
import mmap
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.scale.ten_million_report import plot, table
from docsplit_hf.storage.shards import shard_file, shard_table, writing_shard

K = 64
DIMENSION = 384
LATENT = 128
TOPICS = 200
SUBTOPICS = 100
SHARD = 500_000  # rows
BLOCK = 50_000  # rows that are made at a time
CHOOSING = 100  # queries for choosing nprobe and rerank
MEASURED = 200  # queries for recall
TIMED = 1000
COLD = 100
ADDED = 10_000  # rows
NPROBES = (8, 16, 32, 64, 128)
RERANKS = (2, 4, 8, 16)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000, 10_000_000])
    parser.add_argument(
        "--recall", type=float, nargs="+", default=[0.99, 0.99, 0.95], help="to reach, for each of them"
    )
    parser.add_argument("--folder", type=Path, required=True, help="where shards, index and results are written")
    parser.add_argument("--index", help="the same for all (default: PQ48, lists by the square root of the rows)")
    parser.add_argument("--phase", choices=PHASES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.phase:
        print(json.dumps(PHASES[arguments.phase](arguments.folder, arguments.rows[0], **json.loads(arguments.index))))
        return
    records = []
    for rows, least in zip(arguments.rows, arguments.recall, strict=True):
        lists = 2 ** round(math.log2(math.sqrt(rows)))
        index = arguments.index or f"IVF{lists},PQ48"
        folder = arguments.folder / str(rows)
        file = arguments.folder / f"{rows}.json"
        if file.exists():  # of an earlier run
            records.append(json.loads(file.read_text()))
            continue
        record = {"rows": rows, "index": index, "least_recall": least}
        for phase in ("make", "check", "build", "truth", "choose", "search", "change", "flat", "cold"):
            options = {name: record[name] for name in ("index", "nprobe", "rerank", "least_recall") if name in record}
            start = time.perf_counter()
            record |= run(phase, folder, rows, options)
            print(f"{rows:,} rows, {phase}: {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
        records.append(record)
        file.write_text(json.dumps(record | {"machine": machine()}, indent=1) + "\n")
    print(table(records))
    plot(records, arguments.folder / "ten_million.png")


def run(phase: str, folder: Path, rows: int, options: dict[str, Any]) -> dict[str, Any]:
    """Run a phase in a process of its own, on one thread."""
    command = [sys.executable, "-m", "benchmarks.scale.ten_million"]
    command += ["--phase", phase, "--folder", folder, "--rows", str(rows)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "HF_HOME": str(folder / "home")}
    done = subprocess.run(
        [*command, "--index", json.dumps(options)], env=environment, stdout=subprocess.PIPE, check=True
    )
    return json.loads(done.stdout)


def make(folder: Path, rows: int, **options: Any) -> dict[str, Any]:
    """Write the shards, unless they exist."""
    start = time.perf_counter()
    shards = folder / "shards"
    shards.mkdir(parents=True, exist_ok=True)
    source = Source()
    tasks = range(math.ceil(rows / SHARD))
    settings = {"tasks": len(tasks), "dimension": DIMENSION, "dtype": "float16", "encoder": {}, "probe": None}
    for task in tasks:
        if shard_file(shards, task).exists():
            continue
        first = task * SHARD
        size = min(SHARD, rows - first)
        keys, topics = source.embeddings(task, size)
        ids = [str(row) for row in range(first, first + size)]
        texts = [f"The text of document {row}." for row in range(first, first + size)]
        with writing_shard(shards, task, settings) as shard:
            shard.write_table(shard_table(ids, texts, [f"topic {topic}" for topic in topics.tolist()], keys))
    np.save(folder / "queries.npy", source.embeddings(1_000_000, CHOOSING + MEASURED + TIMED)[0].astype(np.float32))
    return {"make_s": time.perf_counter() - start, "keys_bytes": sum(f.stat().st_size for f in shards.iterdir())}


class Source:
    """The distribution of the embeddings: topics, subtopics and their weights."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self.spectrum = np.arange(1, LATENT + 1, dtype=np.float32) ** -0.5
        topics = rng.standard_normal((TOPICS, 1, LATENT), dtype=np.float32)
        own = rng.standard_normal((TOPICS, SUBTOPICS, LATENT), dtype=np.float32)
        self.subtopics = ((topics + 0.7 * own) * self.spectrum).reshape(-1, LATENT)
        weights = rng.lognormal(sigma=1.0, size=len(self.subtopics))
        self.ends = np.cumsum(weights / weights.sum())
        self.rotation = np.linalg.qr(rng.standard_normal((DIMENSION, LATENT)))[0].T.astype(np.float32)

    def embeddings(self, part: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Embeddings, float16 ``(count, D)``, and their topics; the number of the part is the seed."""
        rng = np.random.default_rng([1, part])
        made = np.empty((count, DIMENSION), np.float16)
        chosen = np.searchsorted(self.ends, rng.random(count))
        chosen = np.minimum(chosen, len(self.subtopics) - 1)
        for start in range(0, count, BLOCK):
            own = chosen[start : start + BLOCK]
            latent = 0.7 * rng.standard_normal((len(own), LATENT), dtype=np.float32) * self.spectrum
            latent += self.subtopics[own]
            block = latent @ self.rotation
            block += 0.02 * rng.standard_normal(block.shape, dtype=np.float32)
            block /= np.linalg.norm(block, axis=1, keepdims=True)
            made[start : start + BLOCK] = block
        return made, chosen // SUBTOPICS


def check(folder: Path, rows: int, **options: Any) -> dict[str, Any]:
    """The first opening without the index, which reads and checks all files, and writes ids and texts to a cache."""
    from docsplit_hf import KNNDatastore

    watched = watch(lambda: KNNDatastore.from_shards(folder / "shards"), "check")
    return watched | {"cached_rows_bytes": size_of(folder / "home", "*.arrow")}


def build(folder: Path, rows: int, index: str, **options: Any) -> dict[str, Any]:
    import logging

    from docsplit_hf import KNNDatastore

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    watched = watch(lambda: KNNDatastore.from_shards(folder / "shards", index), "build")
    return watched | {"index_bytes": size_of(folder / "home", "*.faiss")}


def watch(work: Callable[[], Any], name: str) -> dict[str, Any]:
    """Time, processor time and peak memory of some work."""
    peaks = memory()
    stop = threading.Event()

    def look() -> None:
        while not stop.wait(0.1):
            for kind, size in memory().items():
                peaks[kind] = max(peaks[kind], size)

    watcher = threading.Thread(target=look)
    start = time.perf_counter()
    processor_start = time.process_time()
    watcher.start()
    try:
        work()
    finally:
        stop.set()
        watcher.join()
    return {
        f"{name}_s": time.perf_counter() - start,
        f"{name}_processor_s": time.process_time() - processor_start,
        f"{name}_peak_rss": peaks["rss"],
        f"{name}_peak_anonymous": peaks["anonymous"],
    }


def size_of(folder: Path, pattern: str) -> int:
    return sum(file.stat().st_size for file in folder.rglob(pattern))


def truth(folder: Path, rows: int, **options: Any) -> dict[str, Any]:
    from docsplit_hf import KNNDatastore

    if not (folder / "truth.npy").exists():
        datastore = KNNDatastore.from_shards(folder / "shards")
        np.save(folder / "truth.npy", datastore.search(load_queries(folder)[: CHOOSING + MEASURED], K).rows)
    return {}


def choose(folder: Path, rows: int, index: str, least_recall: float, **options: Any) -> dict[str, Any]:
    """The fastest settings with enough recall, and the measurements of all that were tried."""
    from docsplit_hf import KNNDatastore

    datastore = KNNDatastore.from_shards(folder / "shards", index)
    queries = load_queries(folder)[:CHOOSING]
    expected = np.load(folder / "truth.npy")[:CHOOSING]
    tried = []
    for nprobe in NPROBES:
        for rerank in RERANKS:
            datastore.reindex(index, nprobe, rerank)
            seconds, found = time_queries(datastore, queries)
            tried.append(
                {"nprobe": nprobe, "rerank": rerank, "p50_ms": median_ms(seconds), "recall": recall(found, expected)}
            )
    enough = [one for one in tried if one["recall"] >= least_recall + 0.002]  # with a margin for other queries
    best = min(enough, key=lambda one: one["p50_ms"]) if enough else max(tried, key=lambda one: one["recall"])
    return {"nprobe": best["nprobe"], "rerank": best["rerank"], "tried": tried}


def search(folder: Path, rows: int, index: str, nprobe: int, rerank: int, **options: Any) -> dict[str, Any]:
    start = time.perf_counter()
    from docsplit_hf import KNNDatastore

    imported = time.perf_counter()
    datastore = KNNDatastore.from_shards(folder / "shards", index, nprobe, rerank)
    opened = time.perf_counter()
    queries = load_queries(folder)
    expected = np.load(folder / "truth.npy")
    asked = queries[CHOOSING + MEASURED :]
    datastore.search(asked[:1], K)
    seconds, _ = time_queries(datastore, asked)
    _, found = time_queries(datastore, queries[CHOOSING : CHOOSING + MEASURED])
    anonymous = memory()["anonymous"]
    return {
        "import_s": imported - start,
        "open_s": opened - imported,
        "search_peak_rss": peak_rss(),
        "search_anonymous": anonymous,
        "p50_ms": median_ms(seconds),
        "p99_ms": 1000 * float(np.percentile(seconds, 99)),
        "recall": recall(found, expected[CHOOSING : CHOOSING + MEASURED]),
    }


def cold(folder: Path, rows: int, index: str, nprobe: int, rerank: int, **options: Any) -> dict[str, Any]:
    """Single queries with the keys dropped from the system's cache; the last phase, since it slows those after it."""
    from docsplit_hf import KNNDatastore

    datastore = KNNDatastore.from_shards(folder / "shards", index, nprobe, rerank)
    queries = load_queries(folder)[-COLD - 1 :]
    datastore.search(queries[:1], K)
    file = datastore.keys.file
    file.array.base.madvise(mmap.MADV_DONTNEED)
    with open(file.path, "rb") as opened:
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    seconds, _ = time_queries(datastore, queries[1:])
    return {"cold_p50_ms": median_ms(seconds)}


def change(folder: Path, rows: int, index: str, nprobe: int, rerank: int, **options: Any) -> dict[str, Any]:
    """Add rows, remove rows, and merge both into the index, with queries after each step."""
    from docsplit_hf import KNNDatastore

    datastore = KNNDatastore.from_shards(folder / "shards", index, nprobe, rerank)
    queries = load_queries(folder)[-COLD:]
    added, _ = Source().embeddings(1_000_001, ADDED)
    steps = {
        "add": lambda: datastore.add(added, np.zeros(ADDED, dtype=np.int64)),
        "remove": lambda: datastore.remove([str(row) for row in range(0, rows, rows // 10)]),
        "merge": lambda: datastore.reindex(index, nprobe, rerank),
    }
    record = {"added": ADDED}
    for name, step in steps.items():
        start = time.perf_counter()
        step()
        record[f"{name}_s"] = time.perf_counter() - start
        seconds, _ = time_queries(datastore, queries)
        record[f"p50_ms_after_{name}"] = median_ms(seconds)
    return record | {"change_peak_rss": peak_rss()}


def flat(folder: Path, rows: int, **options: Any) -> dict[str, Any]:
    if rows > 1_000_000:
        return {}
    import faiss

    from docsplit_hf import KNNDatastore

    keys = np.asarray(KNNDatastore.from_shards(folder / "shards").keys).astype(np.float32)
    index = faiss.IndexFlatL2(DIMENSION)
    index.add(keys)
    seconds = []
    for query in load_queries(folder)[-50:]:
        start = time.perf_counter()
        index.search(query[None], K)
        seconds.append(time.perf_counter() - start)
    return {"flat_p50_ms": median_ms(seconds)}


PHASES = {phase.__name__: phase for phase in (make, check, build, truth, choose, search, change, flat, cold)}


def load_queries(folder: Path) -> np.ndarray:
    return np.load(folder / "queries.npy")


def time_queries(datastore: Any, queries: np.ndarray) -> tuple[list[float], np.ndarray]:
    seconds = []
    found = []
    for query in queries:
        start = time.perf_counter()
        neighbors = datastore.search(query[None], K)
        seconds.append(time.perf_counter() - start)
        found.append(neighbors.rows[0])
    return seconds, np.array(found)


def recall(found: np.ndarray, expected: np.ndarray) -> float:
    return float(np.mean([len(np.intersect1d(a, b)) / K for a, b in zip(found, expected, strict=True)]))


def median_ms(seconds: list[float]) -> float:
    return 1000 * float(np.median(seconds))


def memory() -> dict[str, int]:
    """The resident set of this process, and its anonymous part, in bytes (Linux)."""
    with open("/proc/self/status", encoding="ascii") as file:
        sizes = {line.split(":")[0]: line.split()[1] for line in file if line.startswith(("VmRSS", "RssAnon"))}
    return {"rss": 1024 * int(sizes["VmRSS"]), "anonymous": 1024 * int(sizes["RssAnon"])}


def peak_rss() -> int:
    with open("/proc/self/status", encoding="ascii") as file:
        return next(1024 * int(line.split()[1]) for line in file if line.startswith("VmHWM"))


def machine() -> str:
    import faiss

    from experiments.evaluation.results import processor

    return f"{processor()}, 1 thread, faiss {faiss.__version__}, numpy {np.__version__}"


if __name__ == "__main__":
    main()
