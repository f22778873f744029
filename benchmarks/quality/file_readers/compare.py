"""Compare readers of files: words found, seconds, failures, sizes.

    python -m benchmarks.quality.file_readers.compare --files files --packages packages --real FOLDER --count 100

``--files`` is a folder of make_files.py, whose texts are known. ``--real`` is a folder of any files: only seconds and
failures are measured there. ``--packages`` has a folder for each library, made by ``pip install --target``; a library
is imported from it alone. Each library reads in a process of its own, and seconds are those of the processor. Records
are lines of records.jsonl in --output; finished ones are kept.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

from .systems import OF_FORMAT, SYSTEMS

RESULTS = Path(__file__).parents[3] / "docs" / "results" / "file_readers"
FOLDER_OF = {
    "pdfminer": "pdfminer.six",
    "python_docx": "python-docx",
    "python_pptx": "python-pptx",
    "beautifulsoup": "beautifulsoup4",
}
OURS = ("docsplit_hf", "pypdfium2", "selectolax")  # in the folder "files"
LEAST_SECONDS = 2.0  # of the processor, over which a library is timed: some machines count them in hundredths
SECONDS = 60  # of the processor, for a file
LARGEST_REAL = 200_000  # bytes


def words_of(text: str) -> list[str]:
    """The words and numbers of a text in lower case."""
    return re.findall(r"\w+", text.lower())


def overlap(found: Sequence, source: Sequence) -> tuple[float, float]:
    """Precision and recall of what was found, counted with repetition."""
    common = (Counter(found) & Counter(source)).total()
    return common / max(1, len(found)), common / max(1, len(source))


def quality(text: str, source: str) -> dict[str, float]:
    """F1 of words, and the fraction of the source's pairs of neighboring words that were found in their order."""
    found = words_of(text)
    true = words_of(source)
    precision, recall = overlap(found, true)
    _, in_order = overlap(list(pairwise(found)), list(pairwise(true)))
    return {"f1": 2 * precision * recall / max(1e-9, precision + recall), "recall": recall, "in_order": in_order}


def read_all(system: str, paths: Sequence[Path]) -> None:
    """Read files in this process, and print the text and the seconds of each, or the error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print
    read = SYSTEMS[system]
    try:
        read(paths[0])  # imports
    except Exception as error:
        print(repr(error)[:200], file=sys.stderr)

    def end(*_: object) -> None:
        raise TimeoutError(f"more than {SECONDS} seconds")

    signal.signal(signal.SIGPROF, end)
    began = process_time()
    passes = 1
    for path in paths:
        answer: dict[str, Any] = {}
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            answer["text"] = read(path)
        except BaseException as error:  # one of Rust's panics is not an Exception
            answer["error"] = repr(error)[:200]
        signal.setitimer(signal.ITIMER_PROF, 0)
        print(json.dumps(answer), file=answers, flush=True)
    while process_time() - began < LEAST_SECONDS:
        passes += 1
        for path in paths:
            with suppress(Exception):
                read(path)
    print(json.dumps({"seconds": (process_time() - began) / passes}), file=answers, flush=True)


class Reading(NamedTuple):
    """The text or the error of each file, and the seconds of all."""

    answers: list[dict[str, str]]
    seconds: float


def run(system: str, paths: Sequence[Path], packages: Path) -> Reading:
    """Read files with a library in a process; a file that ends the process is an error, and the rest goes on."""
    folder = packages / ("files" if system in OURS else FOLDER_OF.get(system, system))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), os.getcwd()]), "OMP_NUM_THREADS": "1"}
    answers: list[dict[str, str]] = []
    seconds = 0.0
    while len(answers) < len(paths):
        names = [str(path) for path in paths[len(answers) :]]
        finished = subprocess.run(
            [sys.executable, "-c", READ, system],
            input="\n".join(names),
            capture_output=True,
            text=True,
            env=environment,
            check=False,
        )
        lines = [json.loads(line) for line in finished.stdout.split("\n") if line.startswith("{")]
        if finished.returncode == 0:
            seconds += lines.pop()["seconds"]
        answers.extend(lines)
        if finished.returncode != 0:
            answers.append({"error": f"the process ended with code {finished.returncode}"})
    return Reading(answers=answers, seconds=seconds)


# As the command, docsplit_hf/__init__ does not import torch, which is no part of reading.
READ = """
import sys
from pathlib import Path
sys.argv[0] = "docsplit"
from benchmarks.quality.file_readers.compare import read_all
read_all(sys.argv[1], [Path(line) for line in sys.stdin.read().split("\\n")])
"""


def measure(system: str, kind: str, paths: Sequence[Path], texts: Path | None, packages: Path) -> dict[str, Any]:
    """The record of a library on files of a format."""
    answers, seconds = run(system, paths, packages)
    read = [(path, answer) for path, answer in zip(paths, answers, strict=True) if "error" not in answer]
    record: dict[str, Any] = {
        "system": system,
        "format": kind,
        "texts": "known" if texts else "real",
        "files": len(paths),
        "failures": len(paths) - len(read),
        "seconds": seconds,
        "words": sum(len(words_of(answer["text"])) for _, answer in read),
        "errors": Counter(answer["error"][:80] for answer in answers if "error" in answer).most_common(5),
    }
    if texts:
        scores = [quality(answer["text"], (texts / f"{path.stem}.txt").read_text("utf-8")) for path, answer in read]
        for name in ("f1", "recall", "in_order"):
            record[name] = sum(score[name] for score in scores) / len(paths)
    return record


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=Path, required=True)
    parser.add_argument("--packages", type=Path, required=True)
    parser.add_argument("--real", type=Path)
    parser.add_argument("--count", type=int, default=100, help="Number of files of each format. Default: %(default)s.")
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS), help="Default: all.")
    parser.add_argument("--output", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    records = arguments.output / "records.jsonl"
    done = [json.loads(line) for line in records.read_text().splitlines()] if records.exists() else []
    for kind, systems in OF_FORMAT.items():
        folder = arguments.files / kind
        known = sorted(folder.iterdir())[: arguments.count] if folder.is_dir() else []
        real = sorted(arguments.real.rglob(f"*.{kind}")) if arguments.real else []
        real = [path for path in real if path.is_file() and path.stat().st_size < LARGEST_REAL]
        real = real[:: max(1, len(real) // arguments.count)][: arguments.count]
        for paths, texts in ((known, arguments.files / "texts"), (real, None)):
            for system in [system for system in systems if system in arguments.systems]:
                key = (system, kind, "known" if texts else "real")
                if paths and key not in [(record["system"], record["format"], record["texts"]) for record in done]:
                    record = measure(system, kind, paths, texts, arguments.packages)
                    with records.open("a") as file:
                        file.write(json.dumps(record) + "\n")
                    print(record, flush=True)


if __name__ == "__main__":
    main()
