"""Processes that read files, and that are ended when a file takes too long."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from .failures import CRASHED, TIMED_OUT, FailedFile, failed_file
from .options import FileOptions
from .places import FileText, decode_result

FILES_PER_WORKER = 500  # then a new one is started, as libraries keep some memory of each file


class Worker:
    """A process that reads one file at a time, and is started again when it ended."""

    def __init__(self) -> None:
        self.process: subprocess.Popen | None = None
        self.files = 0

    def read(self, path: Path, options: FileOptions) -> tuple[str, FileText | FailedFile]:
        """Read a file; return the SHA-256 of its content, empty if unknown, and the text or the failure."""
        if self.files >= FILES_PER_WORKER:
            self.close()
        if self.process is None or self.process.poll() is not None:
            self.close()
            self.process = _start_process()
        self.files += 1
        request = json.dumps({"path": str(path), "options": asdict(options)}).encode() + b"\n"
        try:
            self.process.stdin.write(request)
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
        except OSError:  # it ended before it read the request
            answer = b""
        if answer.endswith(b"\n"):
            return decode_result(answer)
        code = self.process.wait()
        self.close()
        if code == -signal.SIGALRM:
            return "", failed_file(str(path), TIMED_OUT, f"more than seconds={options.seconds:g}")
        return "", failed_file(str(path), CRASHED, f"the process that read it ended with code {code}")

    def end(self) -> None:
        """End the process, from another thread; the thread that reads sees the end of its answer."""
        if (process := self.process) is not None:
            process.kill()

    def close(self) -> None:
        """End the process."""
        if self.process is not None:
            with suppress(BrokenPipeError), self.process as process:  # of a request that it did not read
                process.kill()
            self.process = None
            self.files = 0


def _start_process() -> subprocess.Popen:
    """Start a worker; -P: no module is imported from the current folder."""
    command = [sys.executable, "-P", "-m", f"{__package__}.worker"]
    folders = list(filter(None, sys.path))
    own = str(Path(__file__).parents[3])
    if own not in folders:  # elsewhere in the list, the standard library comes before packages of its names
        folders.insert(0, own)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
    )
