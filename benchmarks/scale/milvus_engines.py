"""Compare the engines of a datastore: in memory, a folder of milvus-lite, and a Milvus server.

    python -m benchmarks.scale.milvus_engines /data/milvus --records docs/results/milvus/engines.jsonl

It starts the server of the package milvus with that folder. 50,000 rows go into each engine, with adds, removals and
relabeling: rows per second, over all three. Then 500 queries, fewer with milvus-lite: the share of labels that agree
with those of the engine in memory, the share of equal neighbors among the nearest 64, and the seconds of a single
query. Then the same after the server was killed and started again, from indexed segments. Keys are synthetic: 200
labels of ten topics each, and noise. It prints a table, and appends a record of each line.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.scale.datastore_index import machine
from benchmarks.scale.milvus_kills import patient, start_server
from docsplit_hf import KNNDatastore, connect_datastore
from docsplit_hf.fitting.interpolation import knn_probabilities
from docsplit_hf.training.markdown import table

K = 64
LABELS = 200
TOPICS = 2_000
AFTER_KILL = "after a kill, indexed"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="of the data of the server and of milvus-lite")
    parser.add_argument("--rows", type=int, default=50_000, help="(default: %(default)s)")
    parser.add_argument("--queries", type=int, default=500, help="(default: %(default)s)")
    parser.add_argument("--dimension", type=int, default=384, help="of the keys (default: %(default)s)")
    parser.add_argument("--engines", nargs="+", help="beside memory, such as 'server, FLAT' (default: all)")
    parser.add_argument("--records", type=Path, default=Path("milvus_engines.jsonl"), help="(default: %(default)s)")
    options = parser.parse_args()
    logging.disable()  # pymilvus prints each error
    records = options.records.absolute()
    options.folder.mkdir(parents=True, exist_ok=True)
    print(f"Run on: {machine()}.\n", flush=True)
    made = []
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        server = start_server(folder)
        for record in compare(options, server, f"{folder}/lite.db"):
            made.append(record)
            print(record, flush=True)
            with records.open("a", encoding="utf-8") as file:
                about = {"machine": machine(), "load": os.getloadavg()[0], "dimension": options.dimension}
                file.write(json.dumps(about | record) + "\n")
        server.stop()
    print(table(tuple(made[0]), [tuple(map(str, record.values())) for record in made]))


def compare(options: argparse.Namespace, server: Any, lite: str) -> Iterator[dict[str, Any]]:
    """The records of all engines."""
    rng = np.random.default_rng(0)
    made = options.rows + options.rows // 4  # a fifth is removed
    centers = rng.standard_normal((TOPICS, options.dimension)).astype(np.float32)
    keys, labels = make_rows(rng, centers, made)
    queries, _ = make_rows(rng, centers, options.queries)
    ids = [f"row-{i}" for i in range(made)]
    address = f"http://127.0.0.1:{server.listen_port}"
    label_names = [f"label {i}" for i in range(LABELS)]
    remote = {"milvus-lite, FLAT": (lite, "engines", "FLAT")}  # address, collection and index
    for index in ("FLAT", "HNSW", "AUTOINDEX"):
        remote[f"server, {index}"] = (address, index, index)
    engines: dict[str, Any] = {"memory": KNNDatastore.empty(options.dimension, label_names)}
    for name, (place, collection, index) in remote.items():
        if options.engines is None or name in options.engines:
            engines[name] = connect_datastore(
                place,
                collection,
                index=index,
                timeout=600,
                dimension=options.dimension,
                label_names=label_names,
            )
    rates = {}
    for engine, datastore in engines.items():
        start = time.perf_counter()
        for part in np.array_split(np.arange(made), 4):
            datastore.add(keys[part], labels[part], ids=[ids[i] for i in part])
            datastore.remove([ids[i] for i in part[::5]])
            datastore.relabel({ids[i]: 0 for i in part[1::100]})
        rates[engine] = round(made / (time.perf_counter() - start))
    for when in ("after adds and removes", AFTER_KILL):
        if when == AFTER_KILL:
            engines = {name: datastore for name, datastore in engines.items() if "lite" not in name}
            restart(server, address, engines)
        wanted = None  # the neighbors in memory, which comes first
        for engine, datastore in engines.items():
            few = queries[: len(queries) // (5 if "lite" in engine else 1)]
            found = []
            seconds = []
            for query in few:
                start = time.perf_counter()
                found.append(datastore.search(query[None], K))
                seconds.append(time.perf_counter() - start)
            if wanted is None:
                wanted = found
            yield {
                "engine": engine,
                "documents": len(datastore),
                "passages": 1,
                "queries": len(few),
                "when": when,
                "rows per second in": rates[engine],
                **agreement(wanted[: len(few)], found),
                "p50, ms": round(1000 * float(np.percentile(seconds, 50)), 1),
                "p99, ms": round(1000 * float(np.percentile(seconds, 99)), 1),
            }


def restart(server: Any, address: str, engines: dict[str, Any]) -> None:
    """Build the indexes of the server's collections, kill it, start it again, and connect the engines anew."""
    on_server = [name for name in engines if "server" in name]
    for name in on_server:
        build(engines[name]._collection)
    server.server_proc.kill()
    server.server_proc.wait()
    server.start()
    for name in on_server:
        engines[name] = patient(partial(connect_datastore, address, engines[name].collection))


def build(collection: Any) -> None:
    """Have the server write its rows to segments, and wait for their index."""
    client = collection._client
    name = collection.name
    client.flush(name)
    while client.describe_index(name, "vector")["pending_index_rows"]:
        time.sleep(0.5)


def agreement(wanted: list[Any], found: list[Any]) -> dict[str, float]:
    """The share of queries with equal labels, and of equal neighbors."""
    temperature = float(np.median([neighbors.distances for neighbors in wanted])) / 10
    same_labels = []
    shared = []
    for one, other in zip(wanted, found, strict=True):
        same_labels.append(label_of(one, temperature) == label_of(other, temperature))
        shared.append(len({*one.ids[0]} & {*other.ids[0]}) / K)
    return {
        "same label, %": round(100 * float(np.mean(same_labels)), 2),
        f"same of {K}, %": round(100 * float(np.mean(shared)), 3),
    }


def label_of(neighbors: Any, temperature: float) -> int:
    """The label that the neighbors of a query vote for."""
    return int(knn_probabilities(neighbors.distances, neighbors.labels, LABELS, temperature).argmax())


def make_rows(rng: np.random.Generator, centers: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Keys around topics, and their labels; each label has ten topics."""
    topics = rng.integers(0, TOPICS, count)
    noise = rng.standard_normal((count, centers.shape[1])).astype(np.float32)
    return centers[topics] + 2 * noise, topics % LABELS


if __name__ == "__main__":
    main()
