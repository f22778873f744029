"""What one very long text costs: memory at its peak, and seconds.

    python benchmarks/long_text.py
    python benchmarks/long_text.py --texts articles.jsonl --megabytes 10 --measure truncate predict

The text is --megabytes of the texts, one after the other. Each measurement is a process of its own, with the encoder
that ships, on one text: its beginning embedded (truncate), all of it embedded (average), classified by neighbors
(predict), split into sentences for training (segment). The peak is the resident memory of the process, which the
table also has on top of what the process takes for a short text.
"""

import argparse
import json
import logging
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmark_inputs import load_texts
from datasets import Dataset
from side_by_side import ran_on

from docsplit_hf import DocumentEncoder, KNNClassifierPipeline, segment_documents
from docsplit_hf.training.markdown import table

MEBIBYTE = 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--texts", help="A file with a column 'text', or a folder. Default: documentation of installed packages.")
    add("--megabytes", type=float, default=50, help="Million characters of the text. Default: %(default)s.")
    add("--measure", nargs="+", choices=MEASURES, default=list(MEASURES), help="Default: all.")
    add("--process", nargs=2, help=argparse.SUPPRESS)  # what is measured, and the file: this is one of the processes
    options = parser.parse_args()
    if options.process:
        name, path = options.process
        print(json.dumps(measure(MEASURES[name], Path(path).read_text())))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "text.txt")
        path.write_text(one_text(options.texts, int(options.megabytes * 1e6)))
        rows = []
        for name in options.measure:
            command = [sys.executable, __file__, "--process", name, str(path)]
            output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
            seconds, peak, on_top = json.loads(output.splitlines()[-1])
            rows.append((name, f"{seconds:,.1f}", f"{peak:,.0f}", f"{on_top:,.0f}"))
            print(*rows[-1], file=sys.stderr)
    print(f"One text of {options.megabytes:g} million characters. {ran_on()}\n")
    print(table(("", "seconds", "peak, MiB", "on top of a short text, MiB"), rows))


def one_text(source: str | None, characters: int) -> str:
    joined = "\n".join(load_texts(source, 1000))
    return (joined * (characters // len(joined) + 1))[:characters]


def measure(task: Callable[[str], None], text: str) -> tuple[float, float, float]:
    """Seconds, the peak in MiB, and how much of it the text brings on top of its own characters."""
    logging.getLogger("docsplit_hf").setLevel(logging.ERROR)
    task(text[:10_000])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    task(text)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return seconds, peak * 1024 / MEBIBYTE, (peak - before) * 1024 / MEBIBYTE


def truncate(text: str) -> None:
    DocumentEncoder.from_pretrained(device="cpu").encode([text], show_progress=False)


def average(text: str) -> None:
    DocumentEncoder.from_pretrained(device="cpu").encode([text], show_progress=False, long_documents="average")


def predict(text: str) -> None:
    encoder = DocumentEncoder.from_pretrained(device="cpu")
    pipe = KNNClassifierPipeline(model=encoder.model, tokenizer=encoder.tokenizer, device="cpu")
    pipe.add_examples(["apples and pears", "iron and stone"], ["fruit", "mineral"])
    pipe(text)


def segment(text: str) -> None:
    tokenizer = DocumentEncoder.from_pretrained(device="cpu").tokenizer
    segment_documents(Dataset.from_dict({"text": [text]}), tokenizer)


MEASURES = {"truncate": truncate, "average": average, "predict": predict, "segment": segment}


if __name__ == "__main__":
    main()
