"""Long requests stop nobody: short ones go on beside them, they are limited, and end when their client has gone."""

import contextlib
import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from ...conftest import make_text

SHORT = {"text": "The river feeds the valley."}
LONG = " ".join([make_text(1, sentences=20)] * 20)


@pytest.fixture
def server_of_long_texts(start, folder):
    """A server that takes long texts."""
    limits = ("--max_tokens", "1000000", "--max_seconds", "600")
    return start(str(folder), *limits, "--batch_tokens", "256")


@contextlib.contextmanager
def sent(server, body):
    """A connection over which a request was sent."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=120) as connection:
        content = json.dumps(body).encode()
        head = f"POST /v1/classify HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(content)}\r\n\r\n"
        connection.sendall(head.encode() + content)
        yield connection


def figure(server, name):
    """A figure of /metrics; 0 if it is missing."""
    lines = server.send_raw("GET", "/metrics")[1].decode().splitlines()
    return next((float(line.split()[-1]) for line in lines if line.startswith(name)), 0.0)


def wait_until(condition):
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def waiting_tokens(server):
    return figure(server, "docsplit_waiting_tokens ")


def test_work_for_clients_that_left_ends(server_of_long_texts):
    server = server_of_long_texts
    body = {"text": LONG * 20}
    with sent(server, body), sent(server, body):
        wait_until(lambda: waiting_tokens(server) > len(LONG) * 20 / 4)  # more than one of them
    wait_until(lambda: waiting_tokens(server) == 0)
    assert server.send("POST", "/v1/classify", SHORT)[0] == 200
    # Neither was answered: otherwise its text would be counted.
    assert figure(server, 'docsplit_texts_total{model="subjects"}') == 1
    assert figure(server, 'docsplit_requests_total{path="/v1/classify",status="499"}') == 2


def test_short_texts_are_answered_before_a_long_one_that_came_first(server_of_long_texts, loaded):
    server = server_of_long_texts
    with ThreadPoolExecutor(1) as pool:
        text = LONG * 20
        long = pool.submit(server.send, "POST", "/v1/classify", {"text": text})
        wait_until(lambda: waiting_tokens(server) > 0)
        for _ in range(3):
            assert server.send("POST", "/v1/classify", SHORT)[0] == 200
        assert not long.done()
        status, answer = long.result()
    assert status == 200
    [expected] = loaded([text])
    assert answer["answers"][0]["label"] == expected["label"]
    assert answer["answers"][0]["score"] == pytest.approx(expected["score"], abs=1e-6)
    assert answer["usage"]["input_tokens"] > len(text) // 8


def test_too_many_tokens_are_refused_with_their_number(start, folder):
    server = start(str(folder), "--max_tokens", "1000")
    text = "word " * 2000
    for body in ({"text": text}, {"texts": [text[:2500]] * 4}):
        status, answer = server.send("POST", "/v1/classify", body)
        assert status == 413
        assert "about 2,50" in answer["error"]["message"] and "1,000 (--max_tokens)" in answer["error"]["message"]
    assert server.send("POST", "/v1/classify", {"text": text[:3000]})[0] == 200
    # A text of which less is read has fewer tokens.
    assert server.send("POST", "/v1/classify", {"text": text, "max_passages": 1})[0] == 200
