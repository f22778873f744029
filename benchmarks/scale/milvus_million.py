"""Embed a million passages in parts, stream them into a Milvus server, and search it meanwhile and afterwards.

    docsplit pretrain --static --model_name_or_path MINILM --teacher MINILM --max_steps 1 --max_length 128 \\
        --dataset_name passages.jsonl --views_kwargs '{"parts": 1}' --per_device_train_batch_size 128 \\
        --output_dir output/static
    python -m benchmarks.scale.milvus_million /data/million articles.jsonl.gz output/static

The first command made the encoder of the record: all-MiniLM-L6-v2's tokens, by 20,000 of the passages, after a single
step. A passage is whole sentences of 20 words or more. `examples/embed_corpus.py` embeds them in tasks, into
shards; the package milvus starts a server, into which ``merge`` writes the shards for up to --minutes, while another
process searches 64 neighbors of a held-out passage, with pauses of half a second. Afterwards, with the server's index
built: single queries, and recall of an exact search; and the same with a KNNDatastore of the same rows. Finished
phases are kept in the folder, and not repeated.
"""

from __future__ import annotations

import argparse
import gzip
import json
import logging
import os
import re
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.scale.datastore_index import machine
from benchmarks.scale.milvus_kills import start_server
from docsplit_hf import DocumentEncoder, KNNDatastore, connect_datastore

K = 64
MIN_PASSAGE_WORDS = 20
QUERIES = 200
TIMED_QUERIES = 50
PAUSE = 0.5  # seconds between two searches
MERGED_ROWS = 50_000  # at a time
INDEX = "IVF1024,PQ48"  # of the KNNDatastore
SEARCH_SETTINGS = ((32, 4), (32, 16), (128, 16))  # nprobe and rerank


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="for passages, shards and the data of the server")
    parser.add_argument("articles", type=Path, help="a .jsonl.gz file with id and text")
    parser.add_argument("model", help="the encoder")
    parser.add_argument("--rows", type=int, default=1_000_000, help="(default: %(default)s)")
    parser.add_argument(
        "--tasks", type=int, default=20, help="number of embedding tasks, run one at a time (default: %(default)s)"
    )
    parser.add_argument("--minutes", type=float, default=60, help="limit for writing rows (default: %(default)s)")
    parser.add_argument("--index", default="IVF_FLAT", help="index of the server (default: %(default)s)")
    parser.add_argument("--record", type=Path, default=Path("million.json"), help="(default: %(default)s)")
    parser.add_argument("--search", metavar="ADDRESS", help=argparse.SUPPRESS)  # for the process that searches
    options = parser.parse_args()
    logging.disable()  # pymilvus prints each error
    if options.search:
        search_meanwhile(options)
        return
    options.folder.mkdir(parents=True, exist_ok=True)
    record: dict[str, Any] = {"machine": machine(), "rows": options.rows, "k": K, "server index": options.index}
    server = start_server(str(options.folder / "server"))
    for phase in (embed, stream, serve, local):
        file = options.folder / f"{phase.__name__}.json"
        if not file.exists():
            load = os.getloadavg()[0]
            made = phase(options, server)
            file.write_text(json.dumps(made | {"load": [round(load, 1), round(os.getloadavg()[0], 1)]}))
        record[phase.__name__] = json.loads(file.read_text())
        print(json.dumps({phase.__name__: record[phase.__name__]}, indent=1), flush=True)
    server.server_proc.kill()
    server.server_proc.wait()
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


def embed(options: argparse.Namespace, server: Any) -> dict[str, Any]:
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


def stream(options: argparse.Namespace, server: Any) -> dict[str, Any]:
    """Write rows to the server while another process searches."""
    address = f"http://127.0.0.1:{server.listen_port}"
    process = server.server_proc.pid
    shards = KNNDatastore.from_shards(options.folder / "shards")
    remote = connect_datastore(
        address, "million", dimension=shards.dimension, multi_label=True, index=options.index, timeout=600
    )
    arguments = [str(options.folder), str(options.articles), str(options.model)]
    command = [sys.executable, "-m", "benchmarks.scale.milvus_million", *arguments]
    with subprocess.Popen([*command, "--search", address], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"begins\n"
        start = time.perf_counter()
        client_start = time.process_time()
        server_start = processor_of(process)
        there = 0
        while there < options.rows and time.perf_counter() - start < 60 * options.minutes:
            end = min(there + MERGED_ROWS, options.rows)
            remote.merge(rows_of(shards, there, end))
            there = end
            print(f"{there:,} rows after {time.perf_counter() - start:.0f} s", flush=True)
        seconds = time.perf_counter() - start
        client_seconds = time.process_time() - client_start
        server_seconds = processor_of(process) - server_start
        searches = json.loads(other.communicate(b"")[0])
    coming = searches["seconds"]
    thirds = np.array_split(coming, 3) if len(coming) > 2 else []
    return {
        "rows": there,
        "rows there": len(remote),
        "rows per second in": round(there / seconds),
        "s": round(seconds),
        "client, processor s": round(client_seconds),
        "server, processor s": round(server_seconds),
        "meanwhile": quantiles(coming) | {"errors": searches["errors"]},
        "p50 of thirds, ms": [quantiles(third)["p50, ms"] for third in thirds],
        "memory, GB": memory(process),
    }


def serve(options: argparse.Namespace, server: Any) -> dict[str, Any]:
    """Search after the index of the server is built; measure its memory and disk."""
    there = rows_of_stream(options)
    process = server.server_proc.pid
    remote = connect_datastore(f"http://127.0.0.1:{server.listen_port}", "million", timeout=600)
    indexed = wait_for_index(remote._collection, options.minutes)
    start = time.perf_counter()
    data = options.folder / "server" / "data"
    parts = {part.name: round(size(part) / there) for part in data.iterdir() if part.is_dir()}
    record = {"rows there": len(remote), "indexed rows": indexed, "memory, GB": memory(process)}
    record |= {f"{name}, {K}": value for name, value in timed(remote, load_queries(options)[:20], K).items()}
    record |= recall(remote.search(load_queries(options), K).ids, truth(options))
    return record | {"bytes a row on the disk": parts, "s": round(time.perf_counter() - start)}


def wait_for_index(collection: Any, minutes: float) -> int:
    """Flush the server, wait for its index, and return the number of indexed rows."""
    client = collection._client
    name = collection.name
    start = time.perf_counter()
    client.flush(name)
    while time.perf_counter() - start < 60 * minutes:
        description = client.describe_index(name, "vector")
        if not description["pending_index_rows"]:
            break
        time.sleep(0.5)
    return int(client.describe_index(name, "vector")["indexed_rows"])


def local(options: argparse.Namespace, server: Any) -> dict[str, Any]:
    """Search the same rows in the memory of this process, in float16: exactly, and by FAISS."""
    held = rows_of(KNNDatastore.from_shards(options.folder / "shards"), 0, rows_of_stream(options))
    record: dict[str, Any] = {"exact": timed(held, load_queries(options), K)}
    nearest = truth(options)
    start = time.process_time()
    for nprobe, rerank in SEARCH_SETTINGS:
        held.reindex(INDEX, nprobe, rerank)
        if "build, processor s" not in record:
            record["build, processor s"] = round(time.process_time() - start)
        record[f"{INDEX}, {nprobe}, {rerank}"] = found(options, held, nearest)
    return record | {"memory, GB": memory(os.getpid())}


def truth(options: argparse.Namespace) -> list[list[str]]:
    """Return the nearest streamed rows, by exact search."""
    shards = KNNDatastore.from_shards(options.folder / "shards")
    return rows_of(shards, 0, rows_of_stream(options)).search(load_queries(options), K).ids


def rows_of_stream(options: argparse.Namespace) -> int:
    """The number of streamed rows."""
    return int(json.loads((options.folder / "stream.json").read_text())["rows"])


def rows_of(shards: KNNDatastore, start: int, end: int) -> KNNDatastore:
    """Some of the rows, in memory."""
    return KNNDatastore.from_snapshot(shards.snapshot.take(np.arange(start, end)))


def search_meanwhile(options: argparse.Namespace) -> None:
    """Search twice a second until the other process closes the pipe; print the seconds of each search."""
    closed = threading.Event()

    def wait_for_the_end() -> None:
        sys.stdin.read()
        closed.set()

    threading.Thread(target=wait_for_the_end).start()
    remote = connect_datastore(options.search, "million", timeout=600)
    queries = load_queries(options)
    seconds = []
    errors = 0
    number = 0
    print("begins", flush=True)
    while not closed.wait(PAUSE):
        query = queries[number % len(queries)][None]
        number += 1
        start = time.perf_counter()
        try:
            remote.search(query, K)
            seconds.append(time.perf_counter() - start)
        except ValueError:  # the collection is empty before the first block
            continue
        except OSError:
            errors += 1
    print(json.dumps({"seconds": seconds, "errors": errors}))


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
    if not len(seconds):  # with few rows, the stream may end before the first search
        return {"queries": 0}
    shown = {f"p{q}, ms": round(1000 * float(np.percentile(seconds, q)), 1) for q in (50, 99)}
    return {"queries": len(seconds), **shown}


def load_queries(options: argparse.Namespace) -> np.ndarray:
    return np.load(options.folder / "queries.npy")


def size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def processor_of(process: int) -> float:
    """Return the processor time of a process in seconds."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(process: int) -> float:
    """Return the resident memory of a process in gigabytes."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    [resident] = [int(line.split()[1]) for line in lines if line.startswith("VmRSS")]
    return round(resident * 1024 / 1e9, 2)


if __name__ == "__main__":
    main()
