"""Measure how long a new process takes to its first answer, with torch and by an exported classifier.

    python -m benchmarks.speed.cold_start --light_python light/bin/python --record docs/results/speed/cold_start.json

Three ways to ask: in Python, by docsplit classify, and by docsplit serve. Each is measured in this installation with a
classifier as it was saved (saved) and exported (exported), and in an installation of
examples/serving/requirements-light.txt (light). In Python, this installation is not measured with the exported one, as
importing docsplit_hf imports transformers where it is installed. All take turns, in new processes. Times are those of
the clock, from the start of the process to the first answer; processor times of the process are beside them, since
other programs hardly matter to these.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from transformers import pipeline

from benchmarks.served import free_port
from benchmarks.speed.side_by_side import ran_on
from docsplit_hf import load_example_texts
from docsplit_hf.encoding.exported.export import export_classifier

TEXT = "The glacier melts into the river."
COMPARED_TEXTS = 500
# Ends with the processor time of the process, and its seconds of imports.
IMPORTS = """
import json, sys, time
start = time.perf_counter()
{imports}
imported = time.perf_counter() - start
answers = {ask}
print(json.dumps(dict(answers=answers, processor=time.process_time(), imports=imported)))
"""
SAVED = ("import docsplit_hf, transformers", "transformers.pipeline('docsplit-knn', model=sys.argv[1])(sys.argv[2:])")
EXPORTED = ("from docsplit_hf import ExportedClassifier", "ExportedClassifier(sys.argv[1])(sys.argv[2:])")
COMMAND = "import sys; sys.argv[0] = 'docsplit'; from docsplit_hf.__main__ import main; main()"


# As a user's Python, which keeps the modules that it has compiled: without, each start compiles docsplit_hf anew.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


class First(NamedTuple):
    """Seconds of a process to its first answer, those of its processor, and those of imports, if they are known."""

    seconds: float
    processor: float
    imports: float | None = None


def ask_in_python(python: str, code: tuple[str, str], folder: Path, texts: list[str]) -> tuple[First, list[dict]]:
    """Answer texts by a script, and measure it."""
    script = IMPORTS.format(imports=code[0], ask=code[1])
    begun = time.perf_counter()
    ran = subprocess.run(
        [python, "-c", script, str(folder), *texts], capture_output=True, text=True, check=True, env=ENVIRONMENT
    )
    seconds = time.perf_counter() - begun
    found = json.loads(ran.stdout.splitlines()[-1])
    return First(seconds, found["processor"], found["imports"]), found["answers"]


def ask_command(python: str, folder: Path) -> First:
    """Classify a file with one text."""
    with tempfile.TemporaryDirectory() as place:
        Path(place, "texts.txt").write_text(TEXT + "\n", encoding="utf-8")
        files = ["--predict", f"{place}/texts.txt", "--predict_output", f"{place}/answers.jsonl"]
        begun = time.perf_counter()
        before = os.times()
        words = [python, "-c", COMMAND, "classify", "--model", str(folder), *files]
        subprocess.run(words, capture_output=True, check=True, env=ENVIRONMENT)
        seconds = time.perf_counter() - begun
        return First(seconds, _processor_since(before))


def ask_server(python: str, folder: Path) -> First:
    """Start a server, ask it until it answers, and stop it."""
    port = free_port()
    before = os.times()
    begun = time.perf_counter()
    words = [python, "-c", COMMAND, "serve", str(folder), "--port", str(port)]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT)
    body = json.dumps({"text": TEXT}).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/classify", body, {"Content-Type": "application/json"})
    try:
        while process.poll() is None:
            try:
                urllib.request.urlopen(request, timeout=60).close()
                break
            except (urllib.error.URLError, OSError):
                time.sleep(0.01)
        else:
            raise RuntimeError(f"The server of {folder} ended: run {' '.join(words)} to see why.")
        seconds = time.perf_counter() - begun
    finally:
        process.terminate()
        process.wait()
    return First(seconds, _processor_since(before))


def _processor_since(before: os.times_result) -> float:
    """Processor seconds of processes that ended since."""
    now = os.times()
    return now.children_user + now.children_system - before.children_user - before.children_system


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20, help="How often each is started. Default: %(default)s.")
    parser.add_argument("--light_python", default=sys.executable, help="Python of the small installation.")
    parser.add_argument("--record", type=Path, help="A JSON file for the medians.")
    options = parser.parse_args()
    light = options.light_python
    with tempfile.TemporaryDirectory() as place:
        saved = Path(place, "saved")
        exported = Path(place, "exported")
        save_classifier(saved, exported)
        ways: dict[str, Callable[[], First]] = {
            "python saved": lambda: ask_in_python(sys.executable, SAVED, saved, [TEXT])[0],
            "python light": lambda: ask_in_python(light, EXPORTED, exported, [TEXT])[0],
            "classify saved": lambda: ask_command(sys.executable, saved),
            "classify exported": lambda: ask_command(sys.executable, exported),
            "classify light": lambda: ask_command(light, exported),
            "serve saved": lambda: ask_server(sys.executable, saved),
            "serve exported": lambda: ask_server(sys.executable, exported),
            "serve light": lambda: ask_server(light, exported),
        }
        record: dict[str, object] = {
            "date": datetime.date.today().isoformat(),
            "rounds": options.rounds,
            "load": os.getloadavg()[0],
            "machine": ran_on(),
            "megabytes": {name: megabytes(python) for name, python in (("full", sys.executable), ("light", light))},
            "largest_difference": largest_difference(light, saved, exported),
        }
        rounds: dict[str, list[First]] = {name: [] for name in ways}
        for _ in range(options.rounds + 1):
            for name, measure in ways.items():
                rounds[name].append(measure())
    for name, found in rounds.items():
        kept = found[1:]  # the first start fills the caches of the system
        medians = {"seconds": statistics.median(one.seconds for one in kept)}
        medians["processor"] = statistics.median(one.processor for one in kept)
        if kept[0].imports is not None:
            medians["imports"] = statistics.median(one.imports for one in kept)
        record[name] = {part: round(value, 3) for part, value in medians.items()}
    print(json.dumps(record, indent=1))
    if options.record:
        options.record.parent.mkdir(parents=True, exist_ok=True)
        options.record.write_text(json.dumps(record, indent=1) + "\n")


def megabytes(python: str) -> float:
    """Size of all files below site-packages, in millions of bytes."""
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    folder = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    return round(sum(path.lstat().st_size for path in Path(folder).rglob("*") if not path.is_dir()) / 1e6, 1)


def largest_difference(light: str, saved: Path, exported: Path) -> float:
    """The largest difference of a score between the pipeline and the exported classifier; labels must be equal."""
    sentences = [one for text in load_example_texts()["text"] for one in text.split(". ")]
    texts = [
        f"{sentences[n % len(sentences)]}. {sentences[(7 * n + 3) % len(sentences)]}" for n in range(COMPARED_TEXTS)
    ]
    expected = ask_in_python(sys.executable, SAVED, saved, texts)[1]
    found = ask_in_python(light, EXPORTED, exported, texts)[1]
    differences = [abs(one["score"] - other["score"]) for one, other in zip(found, expected, strict=True)]
    if [one["label"] for one in found] != [one["label"] for one in expected]:
        raise RuntimeError("The exported classifier gives other labels than the pipeline.")
    return max(differences)


def save_classifier(saved: Path, exported: Path) -> None:
    """Fit a classifier on the texts that ship, save it, and export a copy."""
    texts = load_example_texts()
    labeled = texts[texts["label"].notna()]
    pipe = pipeline("docsplit-knn")
    pipe.add_examples(labeled["text"].tolist(), labeled["label"].tolist())
    pipe.add_documents(texts[texts["label"].isna()]["text"].tolist())
    pipe.fit(show_progress=False)
    pipe.save_pretrained(saved)
    shutil.copytree(saved, exported)
    export_classifier(pipe.embedder, exported)


if __name__ == "__main__":
    main()
