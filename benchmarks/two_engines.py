"""Compare the two engines of a datastore: in the process, and a collection of Milvus.

    python benchmarks/two_engines.py two_engines.db
    python benchmarks/two_engines.py http://host:19530

50,000 rows in both, after adds, removals and relabeling, with 2,000 queries: on how many of these the two give the same
label, and how many of the nearest 64 are the same; the seconds of each. Then again over a new connection, and with
documents of three passages. Keys are made on the spot: 200 labels of ten topics each, and noise. With a folder of
milvus-lite a new connection is another server. It prints a table, and appends a record of each measurement to
two_engines.jsonl.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

import numpy as np
from datastore_index import machine

from docsplit_hf import KNNDatastore, connect_datastore
from docsplit_hf.models.inference.long_documents import Passages
from docsplit_hf.neighbors.mixing.mixture import knn_probabilities
from docsplit_hf.training.markdown import table

K, LABELS, TOPICS = 64, 200, 2_000
RECORDS = Path("two_engines.jsonl")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address", help="of a server, or a folder of milvus-lite that ends in .db")
    parser.add_argument("--index", default="FLAT", help="of Milvus (default: %(default)s)")
    parser.add_argument("--rows", type=int, default=50_000, help="in all, of passages too (default: %(default)s)")
    parser.add_argument("--queries", type=int, default=2_000, help="(default: %(default)s)")
    parser.add_argument("--dimension", type=int, default=384, help="of the keys (default: %(default)s)")
    parser.add_argument("--passages", type=int, nargs="*", default=[1, 3], help="of a document (default: 1 and 3)")
    options = parser.parse_args()
    print(f"Run on: {machine()}.\n", flush=True)
    records = [record for passages in options.passages for record in compare(options, passages)]
    print(table(tuple(records[0]), [tuple(map(str, record.values())) for record in records]))


def compare(options: argparse.Namespace, each: int) -> list[dict[str, Any]]:
    """The records of rows of one key, or of documents of ``each`` passages."""
    rng = np.random.default_rng(0)
    count = options.rows // each
    made = count + count // 4  # a fifth is removed
    centers = rng.standard_normal((TOPICS, options.dimension)).astype(np.float32)
    keys, labels = make_rows(rng, centers, made)
    queries, _ = make_rows(rng, centers, options.queries)
    ids = [f"row-{i}" for i in range(made)]
    passages = [make_passages(rng, key, each) for key in keys] if each > 1 else []
    asked = make_passages(rng, queries, each) if each > 1 else None
    name = f"two_engines_{uuid.uuid4().hex[:8]}"
    new = {"dimension": options.dimension, "label_names": [f"label {i}" for i in range(LABELS)]}
    local = KNNDatastore.empty(**new)
    remote = connect_datastore(options.address, name, index=options.index, timeout=600, **new)
    seconds = {}
    for engine, datastore in (("local", local), ("Milvus", remote)):
        start = time.perf_counter()
        for part in np.array_split(np.arange(made), 4):
            given = join([passages[i] for i in part]) if passages else None
            datastore.add(keys[part], labels[part], ids=[ids[i] for i in part], passages=given)
            datastore.remove([ids[i] for i in part[::5]])
            datastore.relabel({ids[i]: 0 for i in part[1::100]})
        seconds[engine] = time.perf_counter() - start
    records = []
    for when in ("after adds and removes", "after opening again"):
        if when == "after opening again":
            local, remote = reopened(local, remote, options.address, name)
        found = {}
        for engine, datastore in (("local", local), ("Milvus", remote)):
            start = time.perf_counter()
            found[engine] = datastore.search(queries, K, asked)
            seconds[f"{engine} search"] = time.perf_counter() - start
        records.append(record(options, found, seconds, len(remote), each, when))
    return records


def record(
    options: argparse.Namespace, found: dict[str, Any], seconds: dict[str, float], rows: int, each: int, when: str
) -> dict[str, Any]:
    """One line of the table, which is also written to a file."""
    ids = [np.array(neighbors.ids) for neighbors in found.values()]
    shared = [len({*one} & {*other}) / len(one) for one, other in zip(*ids, strict=True)]
    scale = float(np.median(found["local"].distances))
    voted = [knn_probabilities(n.distances, n.labels, LABELS, scale / 10).argmax(1) for n in found.values()]
    made = {
        "documents": rows,
        "passages": each,
        "when": when,
        "same label, %": round(100 * float(np.mean(voted[0] == voted[1])), 2),
        f"same of {K}, %": round(100 * float(np.mean(shared)), 2),
        "build, s": " / ".join(f"{seconds[engine]:.1f}" for engine in ("local", "Milvus")),
        "search, ms": " / ".join(
            f"{1000 * seconds[f'{engine} search'] / options.queries:.1f}" for engine in ("local", "Milvus")
        ),
    }
    with RECORDS.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"machine": machine(), **vars(options), **made}) + "\n")
    print(made, flush=True)
    return made


def reopened(local: KNNDatastore, remote: Any, address: str, name: str) -> tuple[KNNDatastore, Any]:
    """Both again: saved and loaded, and over a new connection, of milvus-lite to a new server."""
    with tempfile.TemporaryDirectory() as folder:
        local.save_pretrained(folder)
        local = KNNDatastore.from_pretrained(folder)
    if address.endswith(".db"):
        from milvus_lite.server_manager import server_manager_instance

        server_manager_instance.release_server(address)
    return local, connect_datastore(address, name, timeout=600)


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
