"""Requests a second and seconds a request of ``docsplit serve``, beside an upper bound and a plain handler.

    python -m benchmarks.speed.serving --task data/bbc_news --output docs/results/speed/serving.jsonl

The task is a folder with train.jsonl and test.jsonl (text, label; also .jsonl.gz), whose texts are cut to 200 words. A
classifier of the included encoder is fitted, in float32 and in int8, and served on this machine; clients in a process
of their own send one text a request, each the next one when it has its answer. "plain" is a FastAPI handler that calls
the pipeline, in FastAPI's threads. "bound" and "bound int8" call the pipeline in a loop, without HTTP, with as many
texts as there are clients: a server that reads the texts of all clients together can hardly answer faster. Last come
many requests with short texts (about 15 tokens) to one server in float32, whose memory is recorded after each tenth of
them.

Besides requests a second, a record has the processor time of the server for a request, which other programs on the
machine change little. --table prints the table of docs/serving.md from the records; of equal measurements it takes the
last. With 30 seconds, all takes about 12 minutes on two idle cores.
"""

import argparse
import asyncio
import json
import multiprocessing
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import psutil
import torch
from transformers import pipeline

import docsplit_hf  # noqa: F401  which registers the pipeline
from benchmarks.quality.served_rejection import rows_of
from benchmarks.served import ServerProcess, free_port
from benchmarks.speed.serving_clients import WARM_UP, Load, send_requests
from docsplit_hf.training.markdown import table

WORDS = 200
EXAMPLES = 200
DOCUMENTS = 500
SYSTEMS = ("bound", "plain", "float32", "bound int8", "int8")
NAMES = {
    "bound": "the bound: the pipeline, with a text of each client a call",
    "plain": "a FastAPI handler without batching",
    "float32": "`docsplit serve`",
    "bound int8": "the bound in int8",
    "int8": "`docsplit serve --precision int8`",
}
MEMORY_RECORDS = 10
PERCENTILES = (50, 95, 99)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--task", type=Path, help="The folder of the task.")
    add("--table", action="store_true", help="Print a table of the records in --output, and measure nothing.")
    add("--systems", nargs="+", choices=SYSTEMS, default=SYSTEMS, help="Default: all.")
    add("--clients", type=int, nargs="+", default=[1, 8, 64], help="Default: %(default)s.")
    add("--seconds", type=float, default=30.0, help="For each number of clients. Default: %(default)s.")
    add("--threads", type=int, default=2, help="Threads of torch. Default: %(default)s.")
    add("--memory_requests", type=int, default=100_000, help="For the record of memory; 0: none. Default: %(default)s.")
    add("--classifiers", type=Path, help="A folder that keeps the fitted classifiers. Default: a temporary one.")
    add("--output", type=Path, help="A file of JSON lines, to which records are added.")
    options = parser.parse_args()
    if options.task is None and not options.table:
        parser.error("give --task, or --table")
    if options.table and options.output is None:
        parser.error("--table needs --output, the file with the records")
    if options.table:
        print(markdown_table(read_records(options.output)))
        return
    test = [cut(row["text"]) for row in rows_of(options.task, "test")]
    with tempfile.TemporaryDirectory() as temporary:
        home = options.classifiers or Path(temporary)
        for system in options.systems:
            folder = classifier_of(options.task, precision_of(system), home)
            for record in measure(system, folder, test, options, Path(temporary, f"{system}.log")):
                add_record(options.output, record)
        if options.memory_requests:
            folder = classifier_of(options.task, "float32", home)
            add_record(options.output, measure_memory(folder, options, Path(temporary, "memory.log")))


def precision_of(system: str) -> str:
    """The precision of a system's encoder."""
    return "int8" if "int8" in system else "float32"


def cut(text: str) -> str:
    """The first 200 words of a text."""
    return " ".join(text.split()[:WORDS])


def add_record(output: Path | None, record: dict[str, object]) -> None:
    """Print a record, and add it to the file."""
    line = json.dumps(record)
    print(line, flush=True)
    if output is not None:
        with output.open("a", encoding="utf-8") as file:
            file.write(line + "\n")


def read_records(output: Path) -> list[dict[str, object]]:
    """The records in a file of JSON lines."""
    return [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]


def markdown_table(records: list[dict[str, object]]) -> str:
    """The table of docs/serving.md."""
    last = {}
    for record in records:
        if "requests_per_second" in record:
            last[SYSTEMS.index(record["system"]), record["clients"]] = record
    rows = []
    for _, record in sorted(last.items()):
        times = [record[f"p{rank}_ms"] for rank in PERCENTILES]
        times.append(record.get("processor_ms"))  # records of earlier versions have none
        numbers = ["–" if time is None else f"{time:,.0f}" for time in times]
        rows.append(
            (NAMES[record["system"]], str(record["clients"]), f"{record['requests_per_second']:,.1f}", *numbers)
        )
    return table(("", "clients", "requests/s", "p50 ms", "p95 ms", "p99 ms", "processor ms"), rows)


def classifier_of(task: Path, precision: str, home: Path) -> Path:
    """The folder of a classifier of the included encoder, which is fitted if it is missing."""
    folder = home / precision
    if folder.exists():
        return folder
    rows = rows_of(task, "train")
    pipe = pipeline("docsplit-knn", precision=precision)
    pipe.add_examples([cut(row["text"]) for row in rows[:EXAMPLES]], [row["label"] for row in rows[:EXAMPLES]])
    pipe.add_documents([cut(row["text"]) for row in rows[EXAMPLES : EXAMPLES + DOCUMENTS]])
    pipe.fit(show_progress=False)
    pipe.save_pretrained(folder)
    return folder


def measure(
    system: str, folder: Path, texts: list[str], options: argparse.Namespace, log: Path
) -> list[dict[str, object]]:
    """The records of a system, one for each number of clients."""
    described = {"system": system, "words": WORDS, "threads": options.threads, "machine": platform.processor() or "CPU"}
    if system.startswith("bound"):
        precision = precision_of(system)
        return [described | bound for bound in measure_bounds(folder, precision, texts, options)]
    if system == "plain":
        port = free_port()
        process = multiprocessing.get_context("spawn").Process(
            target=serve_plain, args=(str(folder), port, options.threads), daemon=True
        )
        process.start()
        try:
            wait_for(port)
            return [described | load for load in measure_loads(port, process.pid, texts, options)]
        finally:
            process.kill()
    server = serve(folder, precision_of(system), options.threads, log)
    try:
        return [described | load for load in measure_loads(server.port, server.process.pid, texts, options)]
    finally:
        server.stop()


def serve(folder: Path, precision: str, threads: int, log: Path) -> ServerProcess:
    """Start ``docsplit serve``."""
    arguments = [str(folder), "--threads", str(threads)]
    if precision == "int8":
        arguments += ["--precision", precision]
    server = ServerProcess(*arguments, log=log, OMP_NUM_THREADS=str(threads))
    server.wait_until_ready()
    return server


def measure_loads(port: int, server: int, texts: list[str], options: argparse.Namespace) -> list[dict[str, object]]:
    """The records of a server, given the number of its process, with each number of clients."""
    records = []
    for clients in options.clients:
        load = run_load(port, server, texts, clients, options.seconds)
        record = {"clients": clients, "statuses": load.statuses, **summary(load.request_seconds, load.seconds)}
        record["processor_ms"] = round(1000 * load.processor_seconds / max(load.answered, 1), 2)
        record["megabytes"] = memory_of(server)
        records.append(record)
    return records


def measure_bounds(
    folder: Path, precision: str, texts: list[str], options: argparse.Namespace
) -> list[dict[str, object]]:
    """The records of the pipeline in a loop, with one text a call and with as many as there are clients."""
    torch.set_num_threads(options.threads)
    pipe = pipeline("docsplit-knn", model=str(folder), precision=precision)
    for text in texts[:WARM_UP]:
        pipe([text])
    records = []
    for clients in options.clients:
        found = []
        processor_begun = time.process_time()
        started = time.perf_counter()
        while time.perf_counter() - started < options.seconds:
            together = [texts[(len(found) + number) % len(texts)] for number in range(clients)]
            begun = time.perf_counter()
            pipe(together)
            found += [time.perf_counter() - begun] * clients
        wall = time.perf_counter() - started
        processor_ms = 1000 * (time.process_time() - processor_begun) / len(found)
        records.append({"clients": clients, **summary(found, wall), "processor_ms": round(processor_ms, 2)})
    return records


def serve_plain(folder: str, port: int, threads: int) -> None:
    """Serve a classifier by a handler without batching, as one would write it first."""
    import uvicorn
    from fastapi import FastAPI
    from pydantic import BaseModel

    torch.set_num_threads(threads)
    pipe = pipeline("docsplit-knn", model=folder)

    class Texts(BaseModel):
        texts: list[str]

    app = FastAPI()

    @app.get("/ready")
    def ready() -> dict[str, str]:
        return {"status": "ready"}

    @app.post("/v1/classify")
    def classify(body: Texts) -> dict[str, object]:
        return {"answers": pipe(body.texts)}

    uvicorn.run(app, port=port, log_level="error", access_log=False)


def wait_for(port: int) -> None:
    """Wait until a server answers on a port."""
    import urllib.request

    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=5):
                return
        except OSError:
            time.sleep(0.1)


def run_load(port: int, server: int, texts: list[str], clients: int, seconds: float) -> Load:
    """Send requests by clients in a process of their own; ``server``: the number of the server's process."""
    command = [sys.executable, "-m", "benchmarks.speed.serving_clients"]
    done = subprocess.run(
        [*command, str(port), str(server), str(clients), str(seconds)],
        input=json.dumps(texts),
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return Load(**json.loads(done.stdout))


def summary(seconds: list[float], wall: float) -> dict[str, object]:
    """Requests a second, and percentiles of the seconds of a request."""
    percentiles = np.percentile(seconds, PERCENTILES)
    return {
        "requests": len(seconds),
        "requests_per_second": round(len(seconds) / wall, 2),
        **{f"p{rank}_ms": round(1000 * value, 2) for rank, value in zip(PERCENTILES, percentiles, strict=True)},
    }


def memory_of(process: int) -> int:
    """The resident memory of a process in megabytes."""
    return psutil.Process(process).memory_info().rss // 2**20


def measure_memory(folder: Path, options: argparse.Namespace, log: Path) -> dict[str, object]:
    """The memory of a server after each tenth of many requests with short texts, by 64 clients."""
    requests = options.memory_requests
    server = serve(folder, "float32", options.threads, log)
    try:
        texts = [f"Short text number {number} about a match, a film and a bank." for number in range(997)]
        begun = time.perf_counter()
        megabytes = [memory_of(server.process.pid)]
        for _ in range(MEMORY_RECORDS):
            _, failed = asyncio.run(send_requests(server.port, texts, requests // MEMORY_RECORDS))
            if failed:
                raise SystemExit(f"{failed} requests failed.")
            megabytes.append(memory_of(server.process.pid))
        seconds = time.perf_counter() - begun
    finally:
        server.stop()
    return {
        "system": "float32",
        "memory_requests": requests,
        "texts": "short",
        "seconds": round(seconds, 1),
        "megabytes": megabytes,
    }


if __name__ == "__main__":
    main()
