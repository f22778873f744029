"""Server of ``/v1/systemone`` and ``/v1/decisions`` that answers a given share of questions rightly.

A stand-in for a decision model, whose weights are not at hand: the protocols are real, the answers are drawn. A text
gets the same answer each time.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from zlib import crc32

import numpy as np

FIELDS = {"type", "instructions", "criteria"}  # strict servers refuse others
CONFIDENCE = 0.9  # of the chosen option, whether it is right or wrong


class TeacherServer(ThreadingHTTPServer):
    """Answers by the true labels of known texts; wrong ones are any other option."""

    daemon_threads = True

    def __init__(self, truth: Mapping[str, str], accuracy: float) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.truth = truth
        self.accuracy = accuracy
        self.texts: list[str] = []  # asked about
        self.refused: set[str] = set()  # texts that get no answer
        self.failing_after: int | None = None  # number of answers after which all requests fail

    @property
    def address(self) -> str:
        """Address of a teacher named "stand-in"."""
        return f"http://127.0.0.1:{self.server_port}/v1#stand-in"

    def choose(self, text: str, options: Sequence[str]) -> dict[str, float]:
        """Probabilities of the options for a text."""
        rng = np.random.default_rng(crc32(text.encode()))
        right = self.truth[text]
        others = [option for option in options if option != right]
        chosen = right if rng.random() < self.accuracy else others[rng.integers(len(others))]
        rest = (1 - CONFIDENCE) / (len(options) - 1)
        return {option: CONFIDENCE if option == chosen else rest for option in options}


class _Handler(BaseHTTPRequestHandler):
    server: TeacherServer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer_of = {"/v1/systemone": self._system_one, "/v1/decisions": self._decisions}.get(self.path)
        limit = self.server.failing_after
        if answer_of is None:
            self._send(404, {"error": {"message": f"There is no {self.path}."}})
        elif limit is not None and len(self.server.texts) >= limit:
            self._send(400, {"error": {"message": "The credit is used up."}})
        else:
            self._send(200, answer_of(body))

    def _system_one(self, body: dict[str, Any]) -> dict[str, Any]:
        (name, question), *_ = body["questions"].items()
        if set(question) != FIELDS or question["type"] != "choice":
            raise ValueError(f"A choice with {sorted(FIELDS)} was expected, got {question}.")
        text = body["state"]
        self.server.texts.append(text)
        probabilities = self.server.choose(text, list(question["criteria"]))
        choice = None if text in self.server.refused else max(probabilities, key=probabilities.get)
        answer = {"type": "choice", "choice": choice, "probabilities": probabilities, "confidence": CONFIDENCE}
        return {"model": body["model"], "answers": {name: answer}, "usage": {"input_tokens": 1, "output_tokens": 1}}

    def _decisions(self, body: dict[str, Any]) -> dict[str, Any]:
        (question,) = body["questions"]
        text = body["input"]
        self.server.texts.append(text)
        if text in self.server.refused:
            return {"model": body["model"], "answers": [{"type": "refusal", "name": question["name"]}]}
        probabilities = self.server.choose(text, [choice["value"] for choice in question["choices"]])
        answer = {
            "type": "choice",
            "name": question["name"],
            "choice": max(probabilities, key=probabilities.get),
            "confidence": CONFIDENCE,
            "probabilities": [{"value": name, "probability": value} for name, value in probabilities.items()],
        }
        return {"model": body["model"], "answers": [answer]}

    def _send(self, status: int, body: dict[str, Any]) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments: Any) -> None:
        """Print nothing."""


@contextlib.contextmanager
def serve_teacher(truth: Mapping[str, str], accuracy: float) -> Iterator[TeacherServer]:
    """Run a server in a thread."""
    with TeacherServer(truth, accuracy) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()
