"""Clients of ``docsplit serve``, which send requests for answers to one text each, in a process of their own.

    python -m benchmarks.speed.serving_clients PORT SERVER CLIENTS SECONDS < texts.json

SERVER is the number of the server's process. Each client sends the next request when it has the answer to the last one.
What they saw is printed as JSON.
"""

import argparse
import asyncio
import json
import sys
import time
from typing import NamedTuple

import psutil

WARM_UP = 64  # requests of all clients that are not counted; each client sends at least one


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, kind in (("port", int), ("server", int), ("clients", int), ("seconds", float)):
        parser.add_argument(name, type=kind)
    options = parser.parse_args()
    load = asyncio.run(send_load(options.port, options.server, json.load(sys.stdin), options.clients, options.seconds))
    print(json.dumps(load._asdict()))


class Load(NamedTuple):
    """What clients saw in a window of time, and what the server spent."""

    request_seconds: list[float]  # of each answered request
    statuses: dict[int, int]  # number of answers by status
    seconds: float  # of the window
    processor_seconds: float  # of the server, in the window

    @property
    def answered(self) -> int:
        """The number of all answers, refusals among them."""
        return sum(self.statuses.values())


async def send_load(port: int, server: int, texts: list[str], clients: int, seconds: float) -> Load:
    """Run clients beside each other for a window of time."""
    found: list[float] = []
    statuses: dict[int, int] = {}
    requests = [_request(text) for text in texts]
    ready = asyncio.Barrier(clients + 1)
    end = float("inf")

    async def client(number: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for row in range(-(-WARM_UP // clients)):
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
    await ready.wait()
    begun = time.perf_counter()
    processor_begun = processor_seconds_of(server)
    end = begun + seconds
    await asyncio.gather(*tasks)
    return Load(found, statuses, time.perf_counter() - begun, processor_seconds_of(server) - processor_begun)


def processor_seconds_of(process: int) -> float:
    """The processor time of a process so far."""
    times = psutil.Process(process).cpu_times()
    return times.user + times.system


async def send_requests(port: int, texts: list[str], count: int) -> tuple[int, int]:
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


if __name__ == "__main__":
    main()
