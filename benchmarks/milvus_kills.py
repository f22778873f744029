"""Kill a Milvus server, and a client, at random moments of what they do, and count what is lost and what is doubled.

    python benchmarks/milvus_kills.py /data/milvus --records docs/results/milvus/kills.jsonl

It starts the server of the package milvus with that folder. An operation adds 300 documents of one to three passages,
some of a text that goes on in further rows, or merges another datastore, removes documents, or searches. At a random
moment of it the server, or the process that runs it, gets SIGKILL and is started again; the operation is repeated until
it works, as its errors say. Then a new connection must find what a datastore in memory has, which did the same
undisturbed: the same rows, each once, and the same answers. One record for each kill.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from datastore_index import machine

from docsplit_hf import KNNDatastore, connect_datastore
from docsplit_hf.models.inference.long_documents import Passages
from docsplit_hf.neighbors.store.milvus.collection import RemoteDatastoreError
from docsplit_hf.neighbors.store.row_table import ids_among

DIMENSION, ROWS, K, LABELS = 64, 300, 10, ["a", "b", "c"]
KINDS = ("add", "merge", "search", "remove")  # in turns
TIMEOUT = 3.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="of the server's data")
    parser.add_argument("--kills", type=int, default=50, help="of the server, and of the client (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--records", type=Path, default=Path("milvus_kills.jsonl"), help="(default: %(default)s)")
    parser.add_argument("--client", nargs=2, help=argparse.SUPPRESS)  # the process that is killed: address, number
    options = parser.parse_args()
    logging.disable()  # pymilvus prints each error
    if options.client:
        address, number = options.client
        datastore = connect_datastore(address, "kills", timeout=TIMEOUT)
        print("begins", flush=True)
        repeat(datastore, int(number))
        return
    records = options.records.absolute()
    for victim in ("server", "client"):
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            made = [*kill(victim, start_server(folder), options.kills, options.seed, records)]
        total = {name: sum(record[name] for record in made) for name in ("unfinished", "lost", "doubled", "wrong")}
        print(f"{len(made)} kills of the {victim}: {total}", flush=True)


def start_server(folder: str) -> Any:
    """The server of the package milvus, which has answered."""
    from milvus import MilvusServer, MilvusServerConfig

    config = MilvusServerConfig(data_dir=folder)
    config.set("common.session.ttl", 3)  # not 30 s, for which a server that was killed counts as alive
    server = MilvusServer(config)
    server.start()
    server.config.resolve = lambda: None  # when it starts again, it takes the same ports
    return server


def kill(victim: str, server: Any, kills: int, seed: int, records: Path) -> Any:
    """The record of each kill."""
    rng, address, usual = np.random.default_rng(seed), f"http://127.0.0.1:{server.listen_port}", {}
    new = {"dimension": DIMENSION, "label_names": LABELS}
    local, remote = KNNDatastore.empty(**new), connect_datastore(address, "kills", index="FLAT", **new)
    for number in range(kills + len(KINDS)):
        kind, undisturbed = KINDS[number % len(KINDS)], number < len(KINDS)
        operate(local, number)
        start = time.perf_counter()
        if undisturbed:
            operate(remote, number)
            usual[kind] = time.perf_counter() - start
            continue
        delay = rng.uniform(0, usual[kind])
        if victim == "server":
            said, unfinished = kill_server(server, address, number, delay)
        else:
            said, unfinished = kill_client(address, number, delay)
        record = {
            "victim": victim,
            "operation": kind,
            "killed after, s": round(delay, 3),
            "unfinished": unfinished,
            "said": said,
            "until it worked, s": round(time.perf_counter() - start, 1),
            **compare(local, patient(lambda: connect_datastore(address, "kills", timeout=60))),
        }
        with records.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"machine": machine(), "seed": seed, **record}) + "\n")
        print(record, flush=True)
        yield record
    server.stop()


def kill_server(server: Any, address: str, number: int, delay: float) -> tuple[list[str], bool]:
    """What was said until an operation worked, whose server was killed; and whether it was unfinished then."""
    datastore, finished, was_finished = connect_datastore(address, "kills", timeout=TIMEOUT), threading.Event(), []

    def strike() -> None:
        time.sleep(delay)
        was_finished.append(finished.is_set())
        server.server_proc.kill()
        server.server_proc.wait()
        server.start()

    killer = threading.Thread(target=strike)
    killer.start()
    said = repeat(datastore, number, finished)
    killer.join()
    return said, not was_finished[0]


def kill_client(address: str, number: int, delay: float) -> tuple[list[str], bool]:
    """The same of a process of its own, which is killed, and of another one that repeats it."""
    command = [sys.executable, __file__, os.devnull, "--client", address, str(number)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as client:
        assert client.stdout.readline() == "begins\n"
        time.sleep(delay)
        unfinished = client.poll() is None
        client.kill()
    return repeat(connect_datastore(address, "kills", timeout=TIMEOUT), number), unfinished


def repeat(datastore: Any, number: int, finished: threading.Event | None = None) -> list[str]:
    """Operate until it works, and give what was said meanwhile."""
    said = []
    for _ in range(100):
        try:
            operate(datastore, number)
            if finished:
                finished.set()
            return said
        except RemoteDatastoreError as error:
            said.append(str(error))
            time.sleep(0.5)
    raise RuntimeError(f"It did not work in a hundred times: {said[-1]}")


def patient(call: Any) -> Any:
    """What a call gives, once the server is back."""
    for _ in range(100):
        try:
            return call()
        except RemoteDatastoreError:
            time.sleep(0.5)
    return call()


def operate(datastore: Any, number: int) -> None:
    """The operation of a number: what it does is the same each time."""
    kind, rng = KINDS[number % len(KINDS)], np.random.default_rng(number)
    keys = rng.standard_normal((ROWS, DIMENSION)).astype(np.float32)
    if kind == "search":
        for _ in range(20):
            datastore.search(keys, K)
        return
    if kind == "remove":  # two thirds of what the two before have added; a removal is not repeated for what is gone
        ids = [f"{before}-{i}" for before in (number - 2, number - 3) for i in range(ROWS) if i % 3]
        datastore.remove(ids_among(ids, datastore.find(ids=ids).rows))
        return
    counts = rng.integers(1, 4, ROWS)
    near = np.repeat(keys, counts, axis=0)
    near[np.repeat(counts > 1, counts)] += 1
    rows = {
        "keys": keys,
        "labels": [LABELS[i] for i in rng.integers(0, 3, ROWS)],
        "texts": [f"text {number}-{i} " * (1 if i % 50 else 10_000) for i in range(ROWS)],
        "ids": [f"{number}-{i}" for i in range(ROWS)],
        "passages": Passages(near, counts, np.zeros((len(near), 2), np.int64)),
    }
    if kind == "add":
        datastore.add(**rows)
    else:
        other = KNNDatastore.empty(DIMENSION, LABELS)
        other.add(**rows)
        datastore.merge(other)


def compare(local: KNNDatastore, remote: Any) -> dict[str, int]:
    """How many documents are lost, how many rows are doubled or left over, and how much else is wrong."""
    wanted, found, collection = local.snapshot, remote.snapshot, remote._collection
    ids, there = (state.rows["id"].to_pylist() for state in (wanted, found))
    place, passages = {row_id: i for i, row_id in enumerate(there)}, wanted.counts
    long = [max(len(json.dumps([text, None])) // 65_535, int(count > 1)) for text, count in
            zip(wanted.rows["text"].to_pylist(), passages, strict=True)]  # fmt: skip
    rows = [collection.count(partition) for partition in ("examples", "documents", "rest")]
    own = [place[row_id] for row_id in ids if row_id in place]
    wrong = len(own) == len(ids) and not same(wanted, found.take(np.array(own)))
    queries = np.random.default_rng(0).standard_normal((100, DIMENSION)).astype(np.float32)
    return {
        "documents": len(ids),
        "lost": len(ids) - len(own),
        "doubled": sum(rows) - int(passages.sum()) - sum(long) if len(own) == len(ids) else len(there) - len(own),
        "wrong": int(wrong) + int(local.search(queries, K).ids != remote.search(queries, K).ids),
    }


def same(wanted: Any, found: Any) -> bool:
    """Whether rows in the same order are equal in all that they have."""
    names = [[state.label_names[i] for i in state.labels] for state in (wanted, found)]
    return (
        names[0] == names[1]
        and wanted.rows["text"].to_pylist() == found.rows["text"].to_pylist()
        and np.array_equal(wanted.keys, found.keys)
        and np.array_equal(wanted.passages.embeddings, found.passages.embeddings)
    )


if __name__ == "__main__":
    main()
