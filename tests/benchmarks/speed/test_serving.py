"""The load benchmark of docsplit serve: its figures and its table."""

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor

from benchmarks.speed.serving import cut, markdown_table, summary
from benchmarks.speed.serving_clients import send_load


def test_percentiles():
    seconds = [number / 1000 for number in range(1, 101)]
    found = summary(seconds, wall=2.0)
    assert (found["requests"], found["requests_per_second"]) == (100, 50)
    assert (found["p50_ms"], found["p95_ms"], found["p99_ms"]) == (50.5, 95.05, 99.01)
    assert cut("a " * 300).count("a") == 200


def test_the_table_has_a_row_for_each_record_with_a_speed():
    measured = {"system": "int8", "clients": 8, **summary([0.5, 1.5], 2.0)}
    lines = markdown_table([measured, {"system": "float32", "memory_requests": 10, "megabytes": [1]}]).splitlines()
    assert len(lines) == 3
    assert "| `docsplit serve --precision int8` | 8 | 1.0 | 1,000 |" in lines[2]


def test_clients_count_what_a_server_answers():
    """A server that answers every second request with 503: only the others count."""

    async def measure():
        answered = 0

        async def handle(reader, writer):
            nonlocal answered
            try:
                while True:
                    head = await reader.readuntil(b"\r\n\r\n")
                    length = int(head.lower().partition(b"content-length:")[2].split()[0])
                    await reader.readexactly(length)
                    answered += 1
                    status = b"200 OK" if answered % 2 else b"503 Busy"
                    writer.write(b"HTTP/1.1 " + status + b"\r\nContent-Length: 2\r\n\r\n{}")
            except asyncio.IncompleteReadError:
                writer.close()

        server = await asyncio.start_server(handle, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]

        load = await send_load(port, os.getpid(), ["a text"], clients=3, seconds=0.3)
        server.close()
        return load

    with ThreadPoolExecutor(1) as thread:  # tests in a browser leave an event loop in this one
        load = thread.submit(asyncio.run, measure()).result()
    assert set(load.statuses) == {200, 503}
    assert len(load.request_seconds) == load.statuses[200] > 0
    assert load.answered == sum(load.statuses.values())
    assert load.seconds >= 0.3 and load.processor_seconds > 0
