"""Processes that read files: what is said of those that end, and where they import from."""

import os
import subprocess
import sys
from pathlib import Path

from docsplit_hf.reading.files import workers
from docsplit_hf.reading.files.failures import CRASHED
from docsplit_hf.reading.files.options import FileOptions
from docsplit_hf.reading.files.workers import Worker


def test_a_process_that_ends_before_a_request_is_a_failure_and_the_next_one_reads(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("The rent is due.")
    start = workers._start_process

    def start_one_that_ends():
        process = subprocess.Popen(["false"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        process.wait()
        monkeypatch.setattr(workers, "_start_process", start)
        return process

    monkeypatch.setattr(workers, "_start_process", start_one_that_ends)
    worker = Worker()
    _, failed = worker.read(tmp_path / "a.txt", FileOptions())
    assert (failed.reason, failed.detail) == (CRASHED, "the process that read it ended with code 1")
    assert worker.read(tmp_path / "a.txt", FileOptions())[1].text == "The rent is due."
    worker.close()


def test_modules_are_found_in_the_order_of_this_process(monkeypatch):
    own = str(Path(workers.__file__).parents[3])
    given = []
    monkeypatch.setattr(subprocess, "Popen", lambda *_, env, **__: given.append(env["PYTHONPATH"].split(os.pathsep)))
    for path in (["", "standard", own, "packages"], ["", "standard"]):
        monkeypatch.setattr(sys, "path", path)
        workers._start_process()
    assert given == [["standard", own, "packages"], [own, "standard"]]
