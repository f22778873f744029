"""The cost of long texts: peak memory beside that of short texts, and characters per second.

    python -m benchmarks.speed.long_texts
    python -m benchmarks.speed.long_texts --count 1000 --words 100000 --small --measure first average predict

By default one text of 50 million characters. Each measurement is a process of its own, with the encoder that ships, or
a tiny one (--small), which is fast, for measurements of memory alone. The process does the task with short texts of 100
words first, and then with the same number of long ones, ten of them different. The peak does not include the texts.

first, head_tail, average, passages: encoding. predict, predict_passages: classification by neighbors, from a generator
of texts. segment: splitting into sentences for training.
"""

import argparse
import json
import logging
import resource
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import NamedTuple

from datasets import Dataset
from transformers import BertConfig, BertModel

from benchmarks.inputs import load_texts
from benchmarks.speed.side_by_side import ran_on
from docsplit_hf import DocumentEncoder, KNNClassifierPipeline, segment_documents
from docsplit_hf.training.markdown import table

DIFFERENT = 10


class Cost(NamedTuple):
    """The cost of a task with texts of one length."""

    seconds: float
    characters: int
    peak: float  # MiB, without the texts

    def rate(self) -> str:
        """Thousands of characters per second."""
        return f"{self.characters / self.seconds / 1e3:,.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--texts", help="A file with a column 'text', or a folder. Default: documentation of installed packages.")
    add("--count", type=int, default=1, help="How many texts. Default: %(default)s.")
    add("--words", type=int, help="Words of each text. Default: 50 million characters.")
    add("--small", action="store_true", help="With an encoder of one layer and 64 dimensions, of random weights.")
    add("--measure", nargs="+", choices=MEASURES, default=list(MEASURES), help="Default: all.")
    add("--process", nargs=2, help=argparse.SUPPRESS)  # a measurement and the file of texts, for one of the processes
    options = parser.parse_args()
    if options.process:
        name, path = options.process
        texts = json.loads(Path(path).read_text())
        print(json.dumps(measure(MEASURES[name], texts, options.count, options.small)))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "texts.json")
        path.write_text(json.dumps([make_texts(options.texts, words, options.count) for words in (100, options.words)]))
        rows = []
        for name in options.measure:
            command = [sys.executable, "-m", "benchmarks.speed.long_texts"]
            command += ["--process", name, str(path), "--count", str(options.count)]
            command += ["--small"] if options.small else []
            output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
            short, long = (Cost(*values) for values in json.loads(output.splitlines()[-1]))
            rows.append((
                name,
                f"{long.seconds:,.1f}",
                short.rate(),
                long.rate(),
                f"{short.peak:,.0f}",
                f"{long.peak:,.0f}",
                f"{long.peak / short.peak:.2f}",
            ))  # fmt: skip
            print(*rows[-1], file=sys.stderr)
    what = "of 50 million characters" if options.words is None else f"of {options.words:,} words"
    print(f"{options.count:,} texts {what}. {ran_on()}\n")
    header = (
        "", "seconds", "thousand characters/s, short texts", "long texts",
        "peak of short texts, MiB", "of long texts", "ratio",
    )  # fmt: skip
    print(table(header, rows))


def make_texts(source: str | None, words: int | None, count: int) -> list[str]:
    """Up to ten different texts of ``words`` words, cut from the source's words again and again."""
    joined = "\n".join(load_texts(source, 1000))
    if words is None:
        return [(joined * (50_000_000 // len(joined) + 1))[:50_000_000]]
    all_words = cycle(joined.split(" "))
    return [" ".join(islice(all_words, words)) for _ in range(min(count, DIFFERENT))]


def measure(
    task: Callable[[DocumentEncoder, list[str]], None], texts: list[list[str]], count: int, small: bool
) -> list[Cost]:
    """The costs with short texts and with long texts."""
    logging.getLogger("docsplit_hf").setLevel(logging.ERROR)
    encoder = DocumentEncoder.from_pretrained(device="cpu")
    if small:
        config = BertConfig(
            vocab_size=len(encoder.tokenizer),
            hidden_size=64,
            num_hidden_layers=1,
            num_attention_heads=1,
            intermediate_size=128,
        )
        encoder = DocumentEncoder(BertModel(config), encoder.tokenizer, "mean", 256)
    own = sum(len(text) for kind in texts for text in kind) / 2**20
    costs = []
    for kind in texts:
        given = list(islice(cycle(kind), count))
        start = time.perf_counter()
        task(encoder, given)
        seconds = time.perf_counter() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        costs.append(Cost(seconds=seconds, characters=sum(map(len, given)), peak=peak - own))
    return costs


def encode(encoder: DocumentEncoder, texts: list[str], strategy: str) -> None:
    encoder.encode(texts, show_progress=False, long_documents=strategy)


def passages(encoder: DocumentEncoder, texts: list[str]) -> None:
    encoder.encode_passages(texts, show_progress=False)


def classify(encoder: DocumentEncoder, texts: list[str], strategy: str) -> None:
    pipe = KNNClassifierPipeline(
        model=encoder.model, tokenizer=encoder.tokenizer, device="cpu", long_documents=strategy
    )
    pipe.add_examples(["apples and pears", "iron and stone"], ["fruit", "mineral"])
    deque(pipe(one_by_one(texts), return_neighbors=1), maxlen=0)


def one_by_one(texts: list[str]) -> Iterator[str]:
    yield from texts


def segment(encoder: DocumentEncoder, texts: list[str]) -> None:
    segment_documents(Dataset.from_dict({"text": texts}), encoder.tokenizer, single_sentence="dropout_pair")


MEASURES = {
    "first": partial(encode, strategy="first"),
    "head_tail": partial(encode, strategy="head_tail"),
    "average": partial(encode, strategy="average"),
    "passages": passages,
    "predict": partial(classify, strategy="first"),
    "predict_passages": partial(classify, strategy="passages"),
    "segment": segment,
}


if __name__ == "__main__":
    main()
