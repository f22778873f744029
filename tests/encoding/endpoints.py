"""A real server of /v1/embeddings, whose first answers a test may script."""

import contextlib
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np


def embed(text):
    return np.random.default_rng(len(text)).standard_normal(4).tolist()


def answer(texts):
    return {"data": [{"index": i, "embedding": embed(text)} for i, text in enumerate(texts)]}


class Handler(BaseHTTPRequestHandler):
    """What it does with its first requests is scripted; then it answers as it should."""

    def do_POST(self):  # noqa: N802
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.times.append(time.monotonic())
        self.server.requests.append((self.path, self.headers, body))
        step = self.server.script.pop(0) if self.server.script else {}
        time.sleep(step.get("sleep", 0))
        if step.get("hang_up"):
            return
        self.send_response(step.get("status", 200))
        for name, value in step.get("headers", {}).items():
            self.send_header(name, value)
        self.end_headers()
        with contextlib.suppress(ConnectionError):  # the client may read only the beginning
            self.wfile.write((step.get("text") or json.dumps(step.get("body", answer)(body["input"]))).encode())

    def log_message(self, *args):
        pass


@contextlib.contextmanager
def serve():
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.script = []
        server.requests = []
        server.times = []
        server.url = f"http://127.0.0.1:{server.server_port}/v1"
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()
