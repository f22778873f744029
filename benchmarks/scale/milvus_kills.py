"""Kill a Milvus server, and a client, at random moments of their operations, and count lost and doubled rows.

    python -m benchmarks.scale.milvus_kills /data/milvus --records docs/results/milvus/kills.jsonl

It starts the server of the package milvus with that folder. An operation adds 300 documents,
some with long texts, or merges another datastore, removes documents, or searches. At a
random moment the server, or the process of the client, gets SIGKILL and is started again; the operation is repeated
until it succeeds, as its error messages advise. Then a new connection must find the same rows, each once, and give the
same answers as a datastore in memory that did the same operations undisturbed. One record for each kill.
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

from benchmarks.scale.datastore_index import machine
from docsplit_hf import KNNDatastore, connect_datastore
from docsplit_hf.arrays.row_table import ids_among
from docsplit_hf.connectors.milvus.collection import RemoteDatastoreError

DIMENSION = 64
ROWS = 300
K = 10
LABELS = ["a", "b", "c"]
KINDS = ("add", "merge", "search", "remove")  # in turns
TIMEOUT = 3.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="of the server's data")
    parser.add_argument("--kills", type=int, default=50, help="of the server, and of the client (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--records", type=Path, default=Path("milvus_kills.jsonl"), help="(default: %(default)s)")
    parser.add_argument("--client", nargs=2, help=argparse.SUPPRESS)  # address and number, for the killed process
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
    """Start the server of the package milvus, and wait until it answers."""
    from milvus import MilvusServer, MilvusServerConfig

    config = MilvusServerConfig(data_dir=folder)
    config.set("common.session.ttl", 3)  # by default, a killed server counts as alive for 30 s
    server = MilvusServer(config)
    server.start()
    server.config.resolve = lambda: None  # keeps the same ports when it starts again
    return server


def kill(victim: str, server: Any, kills: int, seed: int, records: Path) -> Any:
    """The record of each kill."""
    rng = np.random.default_rng(seed)
    address = f"http://127.0.0.1:{server.listen_port}"
    usual = {}  # seconds of each kind of operation, undisturbed
    local = KNNDatastore.empty(DIMENSION, LABELS)
    remote = connect_datastore(address, "kills", index="FLAT", dimension=DIMENSION, label_names=LABELS)
    for number in range(kills + len(KINDS)):
        kind = KINDS[number % len(KINDS)]
        operate(local, number)
        start = time.perf_counter()
        if number < len(KINDS):
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
    """Kill the server during an operation, and repeat it; its errors, and whether it was unfinished at the kill."""
    datastore = connect_datastore(address, "kills", timeout=TIMEOUT)
    finished = threading.Event()
    was_finished = []

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
    """Kill a client process during an operation, and repeat it here; the same results as of ``kill_server``."""
    command = [sys.executable, "-m", "benchmarks.scale.milvus_kills", os.devnull, "--client", address, str(number)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as client:
        assert client.stdout.readline() == "begins\n"
        time.sleep(delay)
        unfinished = client.poll() is None
        client.kill()
    return repeat(connect_datastore(address, "kills", timeout=TIMEOUT), number), unfinished


def repeat(datastore: Any, number: int, finished: threading.Event | None = None) -> list[str]:
    """Repeat an operation until it succeeds; return the errors until then."""
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
    """Repeat a call until the server is back, and return its result."""
    for _ in range(100):
        try:
            return call()
        except RemoteDatastoreError:
            time.sleep(0.5)
    return call()


def operate(datastore: Any, number: int) -> None:
    """Do the operation of a number, which is the same each time."""
    kind = KINDS[number % len(KINDS)]
    rng = np.random.default_rng(number)
    keys = rng.standard_normal((ROWS, DIMENSION)).astype(np.float32)
    if kind == "search":
        for _ in range(20):
            datastore.search(keys, K)
        return
    if kind == "remove":  # two thirds of the rows that the two operations before have added, if they are still there
        ids = [f"{before}-{i}" for before in (number - 2, number - 3) for i in range(ROWS) if i % 3]
        datastore.remove(ids_among(ids, datastore.view().get(ids=ids).rows))
        return
    target = KNNDatastore.empty(DIMENSION, LABELS) if kind == "merge" else datastore
    target.add(
        keys=keys,
        labels=[LABELS[i] for i in rng.integers(0, 3, ROWS)],
        texts=[f"text {number}-{i} " * (1 if i % 50 else 10_000) for i in range(ROWS)],
        ids=[f"{number}-{i}" for i in range(ROWS)],
    )
    if kind == "merge":
        datastore.merge(target)


def compare(local: KNNDatastore, remote: Any) -> dict[str, int]:
    """The number of lost documents, of doubled or left-over rows, and of other differences."""
    wanted = local.snapshot
    found = remote.snapshot
    wanted_ids = wanted.rows["id"].to_pylist()
    found_ids = found.rows["id"].to_pylist()
    place = {row_id: i for i, row_id in enumerate(found_ids)}
    own = [place[row_id] for row_id in wanted_ids if row_id in place]
    if len(own) == len(wanted_ids):
        doubled = sum(remote._collection.count(partition) for partition in ("examples", "documents")) - len(wanted_ids)
        is_wrong = not same(wanted, found.take(np.array(own)))
    else:
        doubled = len(found_ids) - len(own)
        is_wrong = False
    queries = np.random.default_rng(0).standard_normal((100, DIMENSION)).astype(np.float32)
    return {
        "documents": len(wanted_ids),
        "lost": len(wanted_ids) - len(own),
        "doubled": doubled,
        "wrong": int(is_wrong) + int(local.search(queries, K).ids != remote.search(queries, K).ids),
    }


def labels_of(state: Any) -> list[str]:
    return [state.label_names[label] for label in state.labels]


def same(wanted: Any, found: Any) -> bool:
    """Whether rows in the same order have equal labels, texts and keys."""
    return (
        labels_of(wanted) == labels_of(found)
        and wanted.rows["text"].to_pylist() == found.rows["text"].to_pylist()
        and np.array_equal(wanted.keys, found.keys)
    )


if __name__ == "__main__":
    main()
