"""Read files in a process that has imported nothing else, so that it is small, starts at once, and may be killed."""

import json
import os
import subprocess
import sys
from dataclasses import asdict
from typing import NamedTuple

from docsplit_hf.reading.files.places import decode_result

SCRIPT = """
import json, resource, sys, time
sys.argv = ["docsplit"]  # as the command, which does not import transformers at its start
from docsplit_hf.reading.files.options import FileOptions
from docsplit_hf.reading.files.reader import read_files
from docsplit_hf.reading.files.places import encode_result
asked = json.loads(sys.stdin.readline())
options = FileOptions(**asked["options"])
started = time.monotonic()
for result in read_files(asked["paths"], options, asked["processes"], asked["cache"], show_progress=False):
    print(encode_result("", result).decode())
    print(time.monotonic() - started, flush=True)
    started = time.monotonic()
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


class Done(NamedTuple):
    """Results in their order, the seconds of each, and the size of the largest process that read."""

    results: list
    seconds: list
    largest_kilobytes: int


def start_apart(paths, options, cache=None, processes=1):
    """Start the process."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    )
    asked = {"paths": [str(path) for path in paths], "options": asdict(options)}
    asked |= {"cache": None if cache is None else str(cache), "processes": processes}
    process.stdin.write(json.dumps(asked).encode() + b"\n")
    process.stdin.close()
    return process


def read_apart(paths, options, cache=None, processes=1):
    """Read files, and wait for all of them."""
    process = start_apart(paths, options, cache, processes)
    with process.stdout:
        *lines, largest = process.stdout.read().splitlines()
    assert process.wait() == 0
    results = [decode_result(line)[1] for line in lines[::2]]
    return Done(results=results, seconds=[float(line) for line in lines[1::2]], largest_kilobytes=int(largest))
