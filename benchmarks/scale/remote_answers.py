"""Fitted answers on a Milvus server with 100,000 rows: bytes and seconds for each, and the memory of the process.

    OMP_NUM_THREADS=1 python -m benchmarks.scale.remote_answers --record now.json
    OMP_NUM_THREADS=1 python -m benchmarks.scale.remote_answers --before earlier.json --record both.json

A hundred examples of ten labels and 100,000 documents (benchmarks/scale/fitting_growth.py makes them) are in a
collection of a server that the package milvus starts. All connections go through a proxy that counts the bytes from the
server. Measured: ``fit``; answers to one text at a time; to all of them in one call; and the first answer after another
connection has added an example. With ``--before``, the record of an earlier version, the record has the figures of both
and how many answers differ; otherwise it has the answers themselves. Nothing is downloaded.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import resource
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from transformers import pipeline

from benchmarks.scale.fitting_growth import make_datastore
from benchmarks.scale.milvus_kills import start_server
from docsplit_hf import connect_datastore

ASKED = 30  # texts; also in a key of the record
COLLECTION = "answers"
STALE = 6  # seconds until another connection surely sees a change


class CountingProxy:
    """A TCP proxy that counts the bytes from the server."""

    def __init__(self, target: int) -> None:
        self.received = 0
        self.target = target
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            client, _ = self.listener.accept()
            server = socket.create_connection(("127.0.0.1", self.target))
            threading.Thread(target=self._pass, args=(client, server, False), daemon=True).start()
            threading.Thread(target=self._pass, args=(server, client, True), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket, is_counted: bool) -> None:
        with contextlib.suppress(OSError):  # the other direction has closed both
            while content := source.recv(1 << 16):
                sink.sendall(content)
                if is_counted:
                    self.received += len(content)
        sink.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=100_000, help="(default: %(default)s)")
    parser.add_argument("--before", type=Path, help="a record of an earlier version, to compare with")
    parser.add_argument("--record", type=Path, help="where the figures are written, as JSON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        server = start_server(folder)
        try:
            record = measure(server.listen_port, options.documents)
        finally:
            server.stop()
    print(json.dumps(figures(record), indent=1))
    if options.before is not None:
        before = json.loads(options.before.read_text())
        pairs = list(zip(before["answers"], record["answers"], strict=True))
        different = sum(one != other for one, other in pairs)
        print(f"{different} of {len(pairs)} answers differ from those before")
        record = {
            "before": figures(before),
            "after": figures(record),
            "answers": {"compared": len(pairs), "different": different},
        }
    if options.record is not None:
        options.record.write_text(json.dumps(record, indent=1) + "\n")


def figures(record: dict[str, Any]) -> dict[str, Any]:
    """The record without the answers."""
    return {name: value for name, value in record.items() if name != "answers"}


def measure(port: int, documents: int) -> dict[str, Any]:
    """Fill a collection, fit on it, and ask."""
    pipe = pipeline("docsplit-knn", device="cpu")
    rows = make_datastore(documents)
    direct = connect_datastore(
        f"http://127.0.0.1:{port}", COLLECTION, dimension=rows.dimension, label_names=rows.label_names, index="FLAT"
    )
    direct.merge(rows)
    time.sleep(STALE)
    proxy = CountingProxy(port)
    pipe.datastore = connect_datastore(f"http://127.0.0.1:{proxy.port}", COLLECTION)
    texts = rows.documents.texts[:ASKED]
    record: dict[str, Any] = {"documents": documents, "dimension": rows.dimension}
    record["memory before fit, MiB"] = peak_memory()
    _, record["fit"] = spent(proxy, lambda: pipe.fit(show_progress=False))
    record["memory after fit, MiB"] = peak_memory()
    costs = []
    answers = []
    for text in texts:
        answer, cost = spent(proxy, lambda text=text: pipe(text, return_neighbors=3))
        answers.append(answer)
        costs.append(cost)
    record["answer"] = {
        "median bytes": int(np.median([cost["bytes"] for cost in costs])),
        "median s": round(float(np.median([cost["s"] for cost in costs])), 4),
    }
    _, record["answers to 30 texts in one call"] = spent(proxy, lambda: pipe(texts, return_neighbors=3))
    direct.add(rows.keys[:1] + np.float32(0.01), [rows.label_names[0]], ["one more example"])
    time.sleep(STALE)
    answer, record["first answer after a change"] = spent(proxy, lambda: pipe(texts[0], return_neighbors=3))
    record["memory at the end, MiB"] = peak_memory()
    record["answers"] = [*answers, answer]
    return record


def spent(proxy: CountingProxy, work: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    """The result of some work, with the bytes from the server and the seconds."""
    before = proxy.received
    start = time.perf_counter()
    result = work()
    return result, {"bytes": proxy.received - before, "s": round(time.perf_counter() - start, 3)}


def peak_memory() -> int:
    """MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


if __name__ == "__main__":
    main()
