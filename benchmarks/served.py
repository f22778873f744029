"""ServerProcess: ``docsplit serve`` in a process of its own, as users start it."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

EDIT_TOKEN = "token-of-an-editor-0123456789"
START_SECONDS = 400  # of a machine that is busy


class ServerProcess:
    """A server that listens on a free port of this machine."""

    def __init__(self, *arguments: str, log: Path, port: int | None = None, **environment: str) -> None:
        self.port = port or free_port()
        self.log = log
        self.address = f"http://127.0.0.1:{self.port}"
        own = {"DOCSPLIT_SERVE_EDIT_TOKEN": EDIT_TOKEN, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
        self.process = self.start(["serve", *arguments, "--port", str(self.port)], own | environment)

    def start(self, arguments: list[str], environment: dict[str, str]) -> subprocess.Popen:
        """Start ``docsplit`` with these arguments and further environment variables; it appends to the log."""
        with self.log.open("ab") as output:
            return subprocess.Popen(
                [sys.executable, "-m", "docsplit_hf", *arguments],
                stdout=output,
                stderr=output,
                env={**os.environ, **environment},
            )

    def wait_until_ready(self) -> None:
        """Wait for the first answer; a process that ends shows its log."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise AssertionError(f"The server ended: {self.log.read_text()}")
            try:
                with urllib.request.urlopen(f"{self.address}/ready", timeout=5):
                    return
            except urllib.error.HTTPError as error:
                raise AssertionError(f"/ready: {error.code} {error.read()!r}") from error
            except (OSError, http.client.HTTPException):
                time.sleep(0.05)
        raise AssertionError(f"The server is not ready: {self.log.read_text()}")

    def send(self, method: str, path: str, body: object = None, **headers: str) -> tuple[int, dict]:
        """Send a request; return the status and the JSON of the answer."""
        status, content, _ = self.send_raw(method, path, None if body is None else json.dumps(body).encode(), **headers)
        return status, json.loads(content)

    def send_raw(self, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, bytes, dict]:
        """Send a request with these bytes; return the status, the content and the headers of the answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body, named)
            answer = connection.getresponse()
            return answer.status, answer.read(), dict(answer.getheaders())
        finally:
            connection.close()

    def edit(self, path: str, body: object = None) -> tuple[int, dict]:
        """Send an edit with the token of the editor."""
        headers = {"Authorization": f"Bearer {EDIT_TOKEN}"}
        return self.send("POST" if body is not None else "GET", path, body, **headers)

    def kill(self) -> None:
        """Kill the process, which cannot notice it."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        """Stop the process as a service manager does, and return its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=60)


def free_port() -> int:
    """A port that no program listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]
