"""Measure how long a new process takes to its first answer: by the pipeline, and by an exported classifier.

    python -m benchmarks.speed.cold_start --light_python light/bin/python --record cold_start.json

The exported classifier answers in an installation of examples/serving/requirements-light.txt, as importing docsplit_hf
imports transformers where it is installed.

Both take turns, in new processes. Times are those of the clock; processor times are beside them, since other programs
hardly matter to these.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from transformers import pipeline

from benchmarks.speed.side_by_side import ran_on
from docsplit_hf import load_example_texts
from docsplit_hf.encoding.exported.export import export_classifier

TEXT = "The glacier melts into the river."
MEASURE = """
import json, sys, time
start = time.perf_counter()
{imports}
imported = time.perf_counter()
classify = {opened}
opened = time.perf_counter()
answer = classify({text!r})
done = time.perf_counter()
seconds = dict(imports=imported - start, opening=opened - imported, answer=done - opened, all=done - start)
print(json.dumps(seconds | dict(processor=time.process_time())))
"""
WAYS = {
    "pipeline": ("import docsplit_hf, transformers", "transformers.pipeline('docsplit-knn', model={folder!r})"),
    "exported": ("from docsplit_hf import Classifier", "Classifier({folder!r})"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20, help="How often each is started. Default: %(default)s.")
    parser.add_argument("--light_python", default=sys.executable, help="Python of the light installation.")
    parser.add_argument("--record", type=Path, help="A JSON file for the medians.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        save_classifier(folder)
        rounds: dict[str, list[dict[str, float]]] = {name: [] for name in WAYS}
        for _ in range(options.rounds + 1):
            for name, (imports, opened) in WAYS.items():
                code = MEASURE.format(imports=imports, opened=opened.format(folder=folder), text=TEXT)
                python = options.light_python if name == "exported" else sys.executable
                ran = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
                rounds[name].append(json.loads(ran.stdout.splitlines()[-1]))
    record = {"date": datetime.date.today().isoformat(), "rounds": options.rounds, "load": os.getloadavg()[0]}
    record |= {"machine": ran_on()}
    for name, found in rounds.items():
        kept = found[1:]  # the first start fills the caches of the system
        record[name] = {part: round(statistics.median(one[part] for one in kept), 3) for part in kept[0]}
        print(name, record[name])
    if options.record:
        options.record.parent.mkdir(parents=True, exist_ok=True)
        options.record.write_text(json.dumps(record, indent=1) + "\n")


def save_classifier(folder: str) -> None:
    """Fit a classifier on the texts that ship, save it, and export it."""
    texts = load_example_texts()
    labeled = texts[texts["label"].notna()]
    pipe = pipeline("docsplit-knn")
    pipe.add_examples(labeled["text"].tolist(), labeled["label"].tolist())
    pipe.add_documents(texts[texts["label"].isna()]["text"].tolist())
    pipe.fit(show_progress=False)
    pipe.save_pretrained(folder)
    export_classifier(pipe.embedder, folder)


if __name__ == "__main__":
    main()
