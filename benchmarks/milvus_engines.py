"""Compare the engines of a datastore: in memory, a folder of milvus-lite, and a Milvus server.

    python benchmarks/milvus_engines.py /data/milvus --records docs/results/milvus/engines.jsonl

It starts the server of the package milvus with that folder. 50,000 rows go into each engine, with adds, removals and
relabeling: rows per second, the calls of all three counted. Then 500 queries, fewer of milvus-lite and of passages: on
how many of them an engine gives the label that memory gives, and how many of the nearest 64 are the same; and the
seconds of a query by itself. Then the same after the server was killed and started again, from indexed segments; and
with documents of three passages. Keys are made on the spot: 200 labels of ten topics each, and noise. It prints a
table, and appends a record of each line.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from datastore_index import machine
from milvus_kills import patient, start_server

from docsplit_hf import KNNDatastore, connect_datastore
from docsplit_hf.models.inference.long_documents import Passages
from docsplit_hf.neighbors.mixing.mixture import knn_probabilities
from docsplit_hf.training.markdown import table

K, LABELS, TOPICS = 64, 200, 2_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="of the data of the server and of milvus-lite")
    parser.add_argument("--rows", type=int, default=50_000, help="in all, of passages too (default: %(default)s)")
    parser.add_argument("--queries", type=int, default=500, help="(default: %(default)s)")
    parser.add_argument("--dimension", type=int, default=384, help="of the keys (default: %(default)s)")
    parser.add_argument("--passages", type=int, nargs="*", default=[1, 3], help="of a document (default: 1 and 3)")
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
        for passages in options.passages:
            for record in compare(options, server, f"{folder}/lite{passages}.db", passages):
                made.append(record)
                print(record, flush=True)
                with records.open("a", encoding="utf-8") as file:
                    about = {"machine": machine(), "load": os.getloadavg()[0], "dimension": options.dimension}
                    file.write(json.dumps(about | record) + "\n")
        server.stop()
    print(table(tuple(made[0]), [tuple(map(str, record.values())) for record in made]))


def compare(options: argparse.Namespace, server: Any, lite: str, each: int) -> Iterator[dict[str, Any]]:
    """The records of rows of one key, or of documents of ``each`` passages."""
    rng = np.random.default_rng(0)
    count = options.rows // each
    made = count + count // 4  # a fifth is removed
    centers = rng.standard_normal((TOPICS, options.dimension)).astype(np.float32)
    keys, labels = make_rows(rng, centers, made)
    queries, _ = make_rows(rng, centers, options.queries)
    ids = [f"row-{i}" for i in range(made)]
    passages = [make_passages(rng, key, each) for key in keys] if each > 1 else []
    address, new = f"http://127.0.0.1:{server.listen_port}", {"dimension": options.dimension}
    new |= {"label_names": [f"label {i}" for i in range(LABELS)]}
    indexes = {f"server, {index}": (address, f"{index}{each}", index) for index in ("FLAT", "HNSW", "AUTOINDEX")}
    indexes = {"milvus-lite, FLAT": (lite, "engines", "FLAT"), **indexes}
    engines = {"memory": KNNDatastore.empty(**new)} | {
        name: connect_datastore(place, collection, index=index, timeout=600, **new)
        for name, (place, collection, index) in indexes.items()
        if options.engines is None or name in options.engines
    }
    rates = {}
    for engine, datastore in engines.items():
        start = time.perf_counter()
        for part in np.array_split(np.arange(made), 4):
            given = join([passages[i] for i in part]) if passages else None
            datastore.add(keys[part], labels[part], ids=[ids[i] for i in part], passages=given)
            datastore.remove([ids[i] for i in part[::5]])
            datastore.relabel({ids[i]: 0 for i in part[1::100]})
        rates[engine] = round(made * each / (time.perf_counter() - start))
    for when in ("after adds and removes", "after a kill, indexed"):
        if when == "after a kill, indexed":
            engines = {name: each for name, each in engines.items() if "lite" not in name}
            for name, datastore in engines.items():
                if "server" in name:
                    build(datastore._collection)
            server.server_proc.kill()
            server.server_proc.wait()
            server.start()
            for name, datastore in engines.items():
                if "server" in name:
                    engines[name] = patient(lambda known=datastore: connect_datastore(address, known.collection))
        wanted = None
        for engine, datastore in engines.items():
            few = queries[: len(queries) // each // (5 * each if "lite" in engine else 1)]
            found, seconds = [], []
            for query in few:
                asked = make_passages(np.random.default_rng(1), query, each) if each > 1 else None
                start = time.perf_counter()
                found.append(datastore.search(query[None], K, asked))
                seconds.append(time.perf_counter() - start)
            wanted = wanted or found
            yield {
                "engine": engine,
                "documents": len(datastore),
                "passages": each,
                "queries": len(few),
                "when": when,
                "rows per second in": rates[engine],
                **agreement(wanted[: len(few)], found),
                "p50, ms": round(1000 * float(np.percentile(seconds, 50)), 1),
                "p99, ms": round(1000 * float(np.percentile(seconds, 99)), 1),
            }


def build(collection: Any) -> None:
    """Have the server write its rows to segments, and wait for their index."""
    client, name = collection._client, collection.name
    client.flush(name)
    while client.describe_index(name, "vector")["pending_index_rows"]:
        time.sleep(0.5)


def agreement(wanted: list[Any], found: list[Any]) -> dict[str, float]:
    """The share of queries with the same label, and of neighbors that are the same."""
    scale = float(np.median([neighbors.distances for neighbors in wanted]))
    voted = [
        [int(knn_probabilities(n.distances, n.labels, LABELS, scale / 10).argmax()) for n in each]
        for each in (wanted, found)
    ]
    shared = [len({*one.ids[0]} & {*other.ids[0]}) / K for one, other in zip(wanted, found, strict=True)]
    return {
        "same label, %": round(100 * float(np.mean(np.equal(*voted))), 2),
        f"same of {K}, %": round(100 * float(np.mean(shared)), 3),
    }


def make_rows(rng: np.random.Generator, centers: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Keys around topics, and their labels, of which each has ten topics."""
    topics = rng.integers(0, TOPICS, count)
    return centers[topics] + 2 * rng.standard_normal((count, centers.shape[1])).astype(np.float32), topics % LABELS


def make_passages(rng: np.random.Generator, keys: np.ndarray, each: int) -> Passages:
    """Passages around each key, ``(D,)`` or ``(N, D)``."""
    keys = np.atleast_2d(keys)
    near = np.repeat(keys, each, axis=0)
    near = near + rng.standard_normal(near.shape).astype(np.float32)
    return Passages(near, np.full(len(keys), each), np.zeros((len(near), 2), np.int64))


def join(passages: list[Passages]) -> Passages:
    """The passages of one row after the other."""
    return Passages(*(np.concatenate(column) for column in zip(*passages, strict=True)))


if __name__ == "__main__":
    main()
