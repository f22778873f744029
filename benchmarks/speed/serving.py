"""Requests a second and seconds a request of ``docsplit serve``, beside the pipeline in a loop and a plain handler.

    python -m benchmarks.speed.serving --task data/bbc_news --seconds 60 --output docs/results/speed/serving.jsonl

The task is a folder with train.jsonl and test.jsonl (text, label; also .jsonl.gz), whose texts are cut to 200 words. A
classifier of the included encoder is fitted, in float32 and in int8, and served on this machine; clients in a process
of their own send one text a request, each the next one when it has its answer. "plain" is a FastAPI handler that calls
the pipeline, in FastAPI's threads, and "loop" calls the pipeline without HTTP. --memory_requests sends that many short
texts to one server and records its memory. --table prints the table of docs/serving.md from the records.
"""

import argparse
import asyncio
import json
import multiprocessing
import platform
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from transformers import pipeline

import docsplit_hf  # noqa: F401  which registers the pipeline
from benchmarks.quality.served_rejection import rows_of
from benchmarks.served import ServerProcess, free_port
from docsplit_hf.training.markdown import table

WORDS = 200
EXAMPLES = 200
DOCUMENTS = 500
SYSTEMS = ("loop", "plain", "float32", "int8")
NAMES = {
    "loop": "`pipe(text)` in a loop, without HTTP",
    "plain": "a FastAPI handler without batching",
    "float32": "`docsplit serve`",
    "int8": "`docsplit serve --precision int8`",
}
WARM_UP = 8  # requests of each client that are not counted
PERCENTILES = (50, 95, 99)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--task", type=Path, help="The folder of the task.")
    add("--table", action="store_true", help="Print a table of the records in --output, and measure nothing.")
    add("--systems", nargs="+", choices=SYSTEMS, default=SYSTEMS, help="Default: all.")
    add("--clients", type=int, nargs="+", default=[1, 8, 64], help="Default: %(default)s.")
    add("--seconds", type=float, default=60.0, help="For each number of clients. Default: %(default)s.")
    add("--threads", type=int, default=2, help="Threads of torch. Default: %(default)s.")
    add("--memory_requests", type=int, default=0, help="Requests for the record of memory. Default: none.")
    add("--output", type=Path, help="A file of JSON lines, to which records are added.")
    options = parser.parse_args()
    if options.table:
        print(markdown_table(read_records(options.output)))
        return
    test = [cut(row["text"]) for row in rows_of(options.task, "test")]
    with tempfile.TemporaryDirectory() as home:
        for system in options.systems:
            precision = "int8" if system == "int8" else "float32"
            folder = Path(home, precision)
            if not folder.exists():
                save_classifier(options.task, precision, folder)
            for record in measure(system, folder, test, options, Path(home, f"{system}.log")):
                add_record(options.output, record)
        if options.memory_requests:
            folder = Path(home, "float32")
            if not folder.exists():
                save_classifier(options.task, "float32", folder)
            add_record(options.output, measure_memory(folder, options.memory_requests, Path(home, "memory.log")))


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
    rows = []
    for record in records:
        if "requests_per_second" in record:
            milliseconds = [f"{record[f'p{rank}_ms']:,.0f}" for rank in PERCENTILES]
            name = NAMES[record["system"]]
            rows.append((name, str(record["clients"]), f"{record['requests_per_second']:,.1f}", *milliseconds))
    return table(("", "clients", "requests/s", "p50 ms", "p95 ms", "p99 ms"), rows)


def save_classifier(task: Path, precision: str, folder: Path) -> None:
    """Fit and save a classifier of the included encoder."""
    rows = rows_of(task, "train")
    pipe = pipeline("docsplit-knn", backend="openvino" if precision == "int8" else "torch", precision=precision)
    pipe.add_examples([cut(row["text"]) for row in rows[:EXAMPLES]], [row["label"] for row in rows[:EXAMPLES]])
    pipe.add_documents([cut(row["text"]) for row in rows[EXAMPLES : EXAMPLES + DOCUMENTS]])
    pipe.fit(show_progress=False)
    pipe.save_pretrained(folder)


def measure(
    system: str, folder: Path, texts: list[str], options: argparse.Namespace, log: Path
) -> list[dict[str, object]]:
    """The records of a system, one for each number of clients."""
    described = {"system": system, "words": WORDS, "threads": options.threads, "machine": platform.processor() or "CPU"}
    if system == "loop":
        seconds = loop_seconds(folder, texts, options.seconds, options.threads)
        return [{**described, "clients": 1, **summary(seconds, sum(seconds))}]
    if system == "plain":
        port = free_port()
        process = multiprocessing.get_context("spawn").Process(
            target=serve_plain, args=(str(folder), port, options.threads), daemon=True
        )
        process.start()
        try:
            wait_for(port)
            return [load_of(described, port, texts, clients, options.seconds) for clients in options.clients]
        finally:
            process.kill()
    arguments = [str(folder), "--threads", str(options.threads), "--drift_seconds", "0"]
    if system == "int8":
        arguments += ["--precision", "int8"]
    server = ServerProcess(*arguments, log=log, OMP_NUM_THREADS=str(options.threads))
    try:
        server.wait_until_ready()
        records = []
        for clients in options.clients:
            record = load_of(described, server.port, texts, clients, options.seconds)
            records.append({**record, "megabytes": memory_of(server.process.pid)})
        return records
    finally:
        server.stop()


def loop_seconds(folder: Path, texts: list[str], seconds: float, threads: int) -> list[float]:
    """Seconds of each call of the pipeline with one text."""
    torch.set_num_threads(threads)
    pipe = pipeline("docsplit-knn", model=str(folder))
    for text in texts[:WARM_UP]:
        pipe([text])
    found = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        begun = time.perf_counter()
        pipe([texts[len(found) % len(texts)]])
        found.append(time.perf_counter() - begun)
    return found


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


def load_of(
    described: dict[str, object], port: int, texts: list[str], clients: int, seconds: float
) -> dict[str, object]:
    """The record of a number of clients, which run in a process of their own."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("spawn").Process(
        target=run_clients, args=(sender, port, texts, clients, seconds)
    )
    process.start()
    found, statuses, wall = receiver.recv()
    process.join()
    return {**described, "clients": clients, "statuses": statuses, **summary(found, wall)}


def summary(seconds: list[float], wall: float) -> dict[str, object]:
    """Requests a second, and percentiles of the seconds of a request."""
    percentiles = np.percentile(seconds, PERCENTILES)
    return {
        "requests": len(seconds),
        "requests_per_second": round(len(seconds) / wall, 2),
        **{f"p{rank}_ms": round(1000 * value, 2) for rank, value in zip(PERCENTILES, percentiles, strict=True)},
    }


def run_clients(sender: object, port: int, texts: list[str], clients: int, seconds: float) -> None:
    """Send requests until the time is over, and send back the seconds of each."""
    sender.send(asyncio.run(_all_clients(port, texts, clients, seconds)))


async def _all_clients(
    port: int, texts: list[str], clients: int, seconds: float
) -> tuple[list[float], dict[int, int], float]:
    """Run clients beside each other; the seconds of requests that got an answer, statuses, and the whole time."""
    found: list[float] = []
    statuses: dict[int, int] = {}
    requests = [_request(text) for text in texts]
    ready = asyncio.Barrier(clients + 1)
    end = 0.0

    async def client(number: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for row in range(WARM_UP):
            await _send(reader, writer, requests[(number + row) % len(requests)])
        writer.close()  # a server closes connections that wait for the other clients
        await ready.wait()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        row = number * 37
        while time.perf_counter() < end:
            begun = time.perf_counter()
            status = await _send(reader, writer, requests[row % len(requests)])
            statuses[status] = statuses.get(status, 0) + 1
            if status == 200:
                found.append(time.perf_counter() - begun)
            row += 1
        writer.close()

    tasks = [asyncio.create_task(client(number)) for number in range(clients)]
    end = float("inf")
    await ready.wait()
    begun = time.perf_counter()
    end = begun + seconds
    await asyncio.gather(*tasks)
    return found, statuses, time.perf_counter() - begun


def _request(text: str) -> bytes:
    """A request for one answer as bytes, so that clients take little of the machine's time."""
    body = json.dumps({"texts": [text]}).encode()
    lines = (
        "POST /v1/classify HTTP/1.1",
        "Host: 127.0.0.1",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
    )
    return "\r\n".join((*lines, "", "")).encode() + body


async def _send(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> int:
    """Send a request on an open connection; return the status of the answer."""
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    length = next(int(line.split(":")[1]) for line in lines if line.lower().startswith("content-length:"))
    await reader.readexactly(length)
    return int(lines[0].split()[1])


def memory_of(process: int) -> int | None:
    """The resident memory of a process in megabytes; None where the system does not tell."""
    status = Path(f"/proc/{process}/status")
    if not status.exists():
        return None
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) // 1024


def measure_memory(folder: Path, requests: int, log: Path) -> dict[str, object]:
    """The memory of a server after each tenth of many requests with short texts, by 64 clients."""
    server = ServerProcess(str(folder), log=log)
    try:
        server.wait_until_ready()
        texts = [f"Short text number {number} about a match, a film and a bank." for number in range(997)]
        megabytes = [memory_of(server.process.pid)]
        for _ in range(10):
            _, failed = asyncio.run(_count_of_requests(server.port, texts, requests // 10))
            if failed:
                raise SystemExit(f"{failed} requests failed.")
            megabytes.append(memory_of(server.process.pid))
    finally:
        server.stop()
    return {"system": "float32", "memory_requests": requests, "megabytes": megabytes}


async def _count_of_requests(port: int, texts: list[str], count: int) -> tuple[int, int]:
    """Send a number of requests by 64 clients; return how many were answered, and how many were not."""
    left = count
    failed = 0
    requests = [_request(text) for text in texts]

    async def client() -> None:
        nonlocal left, failed
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while left > 0:
            left -= 1
            if await _send(reader, writer, requests[left % len(requests)]) != 200:
                failed += 1
        writer.close()

    await asyncio.gather(*(client() for _ in range(64)))
    return count - failed, failed


if __name__ == "__main__":
    main()
