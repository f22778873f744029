"""Read many files: files per second, memory, the cache; and the same result after kills.

    python -m benchmarks.scale.reading_files speed --count 20000 --processes 2 --folder small
    python -m benchmarks.scale.reading_files kills --count 2000 --kills 10 --folder small
    python -m benchmarks.scale.reading_files hostile --folder hostile

The files are PDF files of two pages. Records are lines of records.jsonl in --output. Seconds of the processor are those
of all processes, which do not depend on what else the machine does.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
if __name__ == "__main__":  # as the command, docsplit_hf/__init__ does not import torch, which is no part of reading
    sys.argv[0] = "docsplit"

from docsplit_hf.reading.files.options import FileOptions  # noqa: E402
from docsplit_hf.reading.files.places import encode_result  # noqa: E402
from docsplit_hf.reading.files.reader import read_files  # noqa: E402
from tests.reading.files.sample_files import make_pdf  # noqa: E402

RESULTS = ROOT / "docs" / "results" / "file_readers" / "scale.jsonl"
WORDS = "the party of this agreement shall pay rent interest notice term law any other under section".split()


def make_files(folder: Path, count: int) -> list[Path]:
    """Make PDF files of two pages, of 40 lines each, with headers and page numbers."""
    folder.mkdir(parents=True, exist_ok=True)
    paths: list[Path] = []
    for number in range(count):
        path = folder / f"{number:05d}.pdf"
        paths.append(path)
        if path.exists():
            continue
        rng = random.Random(number)
        pages = [
            "\n".join(
                ["CONFIDENTIAL", *(" ".join(rng.choices(WORDS, k=12)) for _ in range(40)), f"Page {page + 1} of 2"]
            )
            for page in range(2)
        ]
        path.write_bytes(make_pdf(pages))
    return paths


def digest_of(paths: list[Path], processes: int, cache: Path | None) -> str:
    """Read files, and hash all results."""
    digest = hashlib.sha256()
    for result in read_files(paths, FileOptions(), processes, cache, show_progress=False):
        digest.update(encode_result("", result))
    return digest.hexdigest()


def speed(paths: list[Path], processes: int, cache: Path) -> dict[str, Any]:
    """Read files without a cache, and with one twice."""
    shutil.rmtree(cache, ignore_errors=True)
    record: dict[str, Any] = {"measured": "speed", "files": len(paths), "processes": processes}
    for run in ("first", "second"):
        before = os.times()
        digest = digest_of(paths, processes, cache)
        after = os.times()
        record[f"{run}_seconds"] = after.elapsed - before.elapsed
        record[f"{run}_processor_seconds"] = sum(after[:4]) - sum(before[:4])
        assert record.setdefault("digest", digest) == digest
    entries = [entry for entry in cache.rglob("*.z") if entry.is_file()]
    record["cache_files"] = len(entries)
    record["cache_megabytes"] = sum(entry.stat().st_size for entry in entries) / 1e6
    record["megabytes"] = sum(path.stat().st_size for path in paths) / 1e6
    record["parent_megabytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    record["worker_megabytes"] = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e3
    return record


def kills(paths: list[Path], processes: int, cache: Path, count: int, folder: Path) -> dict[str, Any]:
    """Kill a run at random moments, continue it, and compare with a run that nothing disturbs."""
    expected = digest_of(paths, processes, None)
    shutil.rmtree(cache, ignore_errors=True)
    rng = random.Random(0)
    command = [sys.executable, "-m", "benchmarks.scale.reading_files", "read"]
    command += ["--count", str(len(paths)), "--processes", str(processes), "--folder", str(folder)]
    kept: list[int] = []
    for _ in range(count):
        process = subprocess.Popen(command, cwd=ROOT)
        at_start = len(list(cache.rglob("*.z")))
        target = at_start + rng.randint(1, max(1, (len(paths) - at_start) // 4))
        while process.poll() is None and len(list(cache.rglob("*.z"))) < target:
            time.sleep(0.02)
        time.sleep(rng.random() * 0.05)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        kept.append(len(list(cache.rglob("*.z"))))
    resumed = digest_of(paths, processes, cache)
    before = {entry: entry.stat().st_mtime_ns for entry in cache.rglob("*.z")}
    again = digest_of(paths, processes, cache)
    written = sum(before.get(entry) != entry.stat().st_mtime_ns for entry in cache.rglob("*.z"))
    return {
        "measured": "kills",
        "files": len(paths),
        "kills": count,
        "kept_after_each": kept,
        "equal": resumed == expected == again,
        "read_again": written,
    }


def hostile(folder: Path) -> dict[str, Any]:
    """Read the hostile and damaged files of the tests with the usual limits."""
    from tests.reading.files.apart import read_apart
    from tests.reading.files.test_hostile import REFUSED  # it makes the files, in a hundred megabytes of memory

    folder.mkdir(parents=True, exist_ok=True)
    paths: list[Path] = []
    for name, (content, _) in REFUSED.items():
        paths.append(folder / name)
        paths[-1].write_bytes(content)
    done = read_apart(paths, FileOptions())
    reasons = {path.name: getattr(result, "reason", "read") for path, result in zip(paths, done.results, strict=True)}
    return {
        "measured": "hostile",
        "files": len(paths),
        "refused": sum(reason != "read" for reason in reasons.values()),
        "longest_seconds": max(done.seconds),
        "largest_megabytes": done.largest_kilobytes / 1e3,
        "reasons": reasons,
    }


def add_record(output: Path, record: dict[str, Any]) -> None:
    """Write a record at the end of a file."""
    output.parent.mkdir(parents=True, exist_ok=True)
    with output.open("a") as file:
        file.write(json.dumps(record) + "\n")
    print(record)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("speed", "kills", "hostile", "read"))
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--output", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    if arguments.what == "hostile":
        add_record(arguments.output, hostile(arguments.folder))
        return
    paths = make_files(arguments.folder, arguments.count)
    cache = arguments.folder.with_name(f"{arguments.folder.name}-cache-{arguments.count}-{arguments.processes}")
    if arguments.what == "read":
        digest_of(paths, arguments.processes, cache)
        return
    if arguments.what == "speed":
        record = speed(paths, arguments.processes, cache)
    else:
        record = kills(paths, arguments.processes, cache, arguments.kills, arguments.folder)
    add_record(arguments.output, record)


if __name__ == "__main__":
    main()
