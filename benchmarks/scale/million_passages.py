"""Embed a million passages in parts, and search them exactly and by FAISS: real keys are harder than synthetic ones.

    docsplit pretrain --static --model_name_or_path MINILM --teacher MINILM --max_steps 1 --max_length 128 \\
        --dataset_name passages.jsonl --views_kwargs '{"parts": 1}' --per_device_train_batch_size 128 \\
        --output_dir output/static
    python -m benchmarks.scale.million_passages /data/million articles.jsonl.gz output/static

The first command made the encoder of the record: all-MiniLM-L6-v2's tokens, by 20,000 of the passages, after a single
step. A passage is whole sentences of 20 words or more. `examples/embed_corpus.py` embeds them in tasks, into shards.
Then 64 neighbors of held-out passages are searched, one query at a time, and compared with those of exact search.
Finished phases are kept in the folder, and not repeated.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.scale.datastore_index import machine
from docsplit_hf import DocumentEncoder, KNNDatastore

K = 64
MIN_PASSAGE_WORDS = 20
QUERIES = 200
TIMED_QUERIES = 50
INDEX = "IVF1024,PQ48"
SEARCH_SETTINGS = ((32, 4), (32, 16), (128, 16))  # nprobe and rerank


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="for passages and shards")
    parser.add_argument("articles", type=Path, help="a .jsonl.gz file with id and text")
    parser.add_argument("model", help="the encoder")
    parser.add_argument("--rows", type=int, default=1_000_000, help="(default: %(default)s)")
    parser.add_argument(
        "--tasks", type=int, default=20, help="number of embedding tasks, run one at a time (default: %(default)s)"
    )
    parser.add_argument("--record", type=Path, default=Path("million.json"), help="(default: %(default)s)")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    record: dict[str, Any] = {"machine": machine(), "rows": options.rows, "k": K}
    for phase in (embed, local):
        file = options.folder / f"{phase.__name__}.json"
        if not file.exists():
            load = os.getloadavg()[0]
            made = phase(options)
            file.write_text(json.dumps(made | {"load": [round(load, 1), round(os.getloadavg()[0], 1)]}))
        record[phase.__name__] = json.loads(file.read_text())
        print(json.dumps({phase.__name__: record[phase.__name__]}, indent=1), flush=True)
    options.record.write_text(json.dumps(record, indent=1) + "\n")


def passages(articles: Path) -> Iterator[dict[str, str]]:
    """Yield passages of whole sentences of an article, with 20 words or more."""
    with gzip.open(articles, "rt", encoding="utf-8") as lines:
        for article in map(json.loads, lines):
            held = ""
            number = 0
            for sentence in re.split(r"(?<=[.!?]) +(?=[A-Z\"'(])|\n", article["text"]):
                held = f"{held} {sentence}".strip()
                if len(held.split()) >= MIN_PASSAGE_WORDS:
                    yield {"id": f"{article['id']}-{number}", "text": held}
                    held = ""
                    number += 1


def embed(options: argparse.Namespace) -> dict[str, Any]:
    """Write passages and held-out queries, and embed the passages in tasks, one at a time."""
    cut = islice(passages(options.articles), options.rows + QUERIES)
    documents = options.folder / "passages.jsonl"
    words = 0
    with documents.open("w", encoding="utf-8") as file:
        for row in islice(cut, options.rows):
            words += len(row["text"].split())
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
    encoder = DocumentEncoder.from_pretrained(options.model)
    np.save(options.folder / "queries.npy", encoder.encode([row["text"] for row in cut]))
    shards = options.folder / "shards"
    command = [sys.executable, "examples/embed_corpus.py", str(documents), str(shards), "--workers", "1"]
    command += ["--tasks", str(options.tasks), "--model", options.model]
    start = time.perf_counter()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "mean words": round(words / options.rows, 1),
        "tasks": options.tasks,
        "s": round(time.perf_counter() - start),
        "processor s": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime),
        "bytes a row": round(size(shards) / options.rows),
    }


def local(options: argparse.Namespace) -> dict[str, Any]:
    """Search the rows in the memory of this process, in float16: exactly, and by FAISS."""
    shards = KNNDatastore.from_shards(options.folder / "shards")
    held = KNNDatastore.from_snapshot(shards.snapshot.take(np.arange(len(shards))))
    record: dict[str, Any] = {"exact": timed(held, load_queries(options), K)}
    nearest = held.search(load_queries(options), K).ids
    start = time.process_time()
    for nprobe, rerank in SEARCH_SETTINGS:
        held.reindex(INDEX, nprobe, rerank)
        if "build, processor s" not in record:
            record["build, processor s"] = round(time.process_time() - start)
        record[f"{INDEX}, {nprobe}, {rerank}"] = found(options, held, nearest)
    return record | {"memory, GB": memory(os.getpid())}


def found(options: argparse.Namespace, datastore: Any, nearest: list[list[str]]) -> dict[str, Any]:
    """Measure the time of single queries for 64 and for 10 neighbors, and their recall."""
    queries = load_queries(options)
    record = {}
    for k in (K, 10):
        record |= {f"{name}, {k}": value for name, value in timed(datastore, queries, k).items()}
        record |= {f"recall, {k}": recall(datastore.search(queries, k).ids, nearest)[f"recall, {k}"]}
    return record


def recall(ids: list[list[str]], nearest: list[list[str]]) -> dict[str, float]:
    """Compute the recall of the nearest 64 and of the nearest 10."""
    recalls = {}
    for k in (K, 10):
        shares = [len({*own[:k]} & {*true[:k]}) / k for own, true in zip(ids, nearest, strict=True)]
        recalls[f"recall, {k}"] = round(float(np.mean(shares)), 4)
    return recalls


def timed(datastore: Any, queries: np.ndarray, k: int) -> dict[str, float]:
    """Time single queries, one after the other."""
    seconds = []
    for query in queries[:TIMED_QUERIES]:
        start = time.perf_counter()
        datastore.search(query[None], k)
        seconds.append(time.perf_counter() - start)
    return quantiles(seconds)


def quantiles(seconds: Any) -> dict[str, float]:
    """The median and the 99th percentile in milliseconds."""
    shown = {f"p{q}, ms": round(1000 * float(np.percentile(seconds, q)), 1) for q in (50, 99)}
    return {"queries": len(seconds), **shown}


def load_queries(options: argparse.Namespace) -> np.ndarray:
    return np.load(options.folder / "queries.npy")


def size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def memory(process: int) -> float:
    """Return the resident memory of a process in gigabytes."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    [resident] = [int(line.split()[1]) for line in lines if line.startswith("VmRSS")]
    return round(resident * 1024 / 1e9, 2)


if __name__ == "__main__":
    main()
