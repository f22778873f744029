"""Fitted answers by each kind of store: agreement of their labels with exact search, and seconds for an answer.

    OMP_NUM_THREADS=1 python -m benchmarks.scale.fitted_answers FOLDER --output docs/results/fitted_answers.json

FOLDER has train.jsonl and test.jsonl with the columns "text" and "label". 1,100 training texts are examples, 1,100 are
unlabeled documents, and 500 test texts are classified, embedded by all-MiniLM-L6-v2 (256 tokens). Each store gets the
same rows and is fitted by fit(); its labels are compared with those of exact search.

Seconds are measured with 100,000 documents and 100 examples around ten centers (fitting_growth.py), one text at a time,
without the encoder. Nothing is downloaded.
"""

import argparse
import copy
import json
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from transformers import pipeline

from benchmarks.inputs import default_model
from benchmarks.scale.fitting_growth import make_datastore
from docsplit_hf import KNNDatastore
from docsplit_hf.fitting.ensemble.fit_experts import fit_experts
from docsplit_hf.fitting.ensemble.problem import Problem
from docsplit_hf.fitting.ensemble.scoring import prepare_experts, score_texts
from docsplit_hf.storage.shards import shard_table, writing_shard
from docsplit_hf.training.markdown import table

EXAMPLES = 1_100
DOCUMENTS = 1_100
ASKED = 500
PASSAGE = 128  # tokens
TIMED = 200  # answers
INDEX = "IVF28,Flat"  # FAISS asks for 39 rows or more of a list
LARGE_INDEX = "IVF256,Flat"
PARTS = ("stores", "passages", "seconds")
COMPARED = ("store", "same label", "accuracy")
TIMES = ("index", "median, ms", "99th percentile, ms", "same label")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="With train.jsonl and test.jsonl.")
    parser.add_argument("--documents", type=int, default=100_000, help="For the seconds. Default: %(default)s.")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="What to measure. Default: all.")
    parser.add_argument("--output", type=Path, help="A file of JSON for the record; other parts in it stay.")
    options = parser.parse_args()
    there = options.output is not None and options.output.exists()
    record = json.loads(options.output.read_text()) if there else {}
    for part in options.parts:
        if part == "seconds":
            columns = TIMES
            record[part] = time_answers(options.documents)
        else:
            columns = COMPARED
            record[part] = compare_stores(options.folder, part)
        print(table(columns, [(name, *(f"{number:.3g}" for number in numbers)) for name, *numbers in record[part]]))
        if options.output is not None:
            options.output.write_text(json.dumps(record, indent=1) + "\n")


def compare_stores(folder: Path, part: str) -> list[tuple[str, float, float]]:
    """The name of each store, its share of labels that agree with exact search, and its accuracy."""
    train = read_rows(folder / "train.jsonl")
    asked = read_rows(folder / "test.jsonl")[:ASKED]
    examples = train[:EXAMPLES]
    documents = train[EXAMPLES : EXAMPLES + DOCUMENTS]
    make_pipeline = partial(pipeline, "docsplit-knn", model=default_model(), device="cpu")
    if part == "passages":
        pipe = make_pipeline(long_documents="passages", passage_length=PASSAGE)
    else:
        pipe = make_pipeline(long_documents="first")
    pipe.add_examples([row["text"] for row in examples], [row["label"] for row in examples])
    pipe.add_documents([row["text"] for row in documents])
    texts = [row["text"] for row in asked]
    right = np.array([row["label"] for row in asked])
    read = pipe.embedder.embed(texts, [None] * len(texts))
    local = pipe.datastore
    found = []
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        exact = None  # the labels of exact search, which comes first
        stores = {"exact": lambda: local, f"index {INDEX}": lambda: with_index(local)}
        if part == "stores":
            stores["mapped"] = lambda: mapped(local, place)
            stores["shards"] = lambda: sharded(local, place)
            stores[f"shards, index {INDEX}"] = lambda: sharded(local, place, index=INDEX)
        for title, make in stores.items():
            pipe.datastore = make()
            pipe.fit(show_progress=False)
            ready = prepare_experts(pipe.datastore.snapshot)
            answers = score_texts(ready, read.retrieval_embeddings, texts, None, read.passages)
            labels = np.array(pipe.datastore.label_names)[answers.probabilities.argmax(1)]
            if title == "exact":
                exact = labels
            found.append((title, float(np.mean(labels == exact)), float(np.mean(labels == right))))
            print(found[-1], flush=True)
    return found


def with_index(local: KNNDatastore) -> KNNDatastore:
    """A copy with an index of its examples and one of its documents."""
    datastore = copy.deepcopy(local)
    datastore.reindex(INDEX)
    return datastore


def mapped(local: KNNDatastore, place: Path) -> KNNDatastore:
    """A saved copy, with the examples' keys and texts on the disk."""
    local.save_pretrained(place / "saved")
    return KNNDatastore.from_pretrained(place / "saved", memory_map=True)


def sharded(local: KNNDatastore, place: Path, **options: Any) -> KNNDatastore:
    """The examples in two shards; the documents are added in memory."""
    folder = place / "shards"
    names = local.label_names
    if not folder.exists():
        keys = local.snapshot.keys
        settings = {"tasks": 2, "dimension": keys.shape[1], "dtype": keys.dtype.name, "encoder": {}, "probe": None}
        for task, rows in enumerate(np.array_split(np.arange(len(local)), 2)):
            with writing_shard(folder, task, settings) as shard:
                ids = [local.ids[row] for row in rows]
                texts = [local.texts[row] for row in rows]
                own_labels = [names[label] for label in local.labels[rows]]
                shard.write_table(shard_table(ids, texts, own_labels, local.keys[rows]))
    datastore = KNNDatastore.from_shards(folder, **options)
    documents = local.documents
    datastore.add_documents(documents.keys, documents.texts, ids=documents.ids)
    return datastore


def time_answers(documents: int) -> list[tuple[str, float, float, float]]:
    """Milliseconds of one answer with exact search and with an index."""
    datastore = make_datastore(documents)
    others = make_datastore(TIMED)
    datastore.fitted = fit_experts(Problem(datastore.snapshot), show_progress=False).to_state()
    keys = others.documents.keys + np.float32(1e-3)
    texts = others.documents.texts
    found = []
    exact = None
    for index in ("Flat", LARGE_INDEX):
        datastore.reindex(index)
        ready = prepare_experts(datastore.snapshot)
        seconds = []
        labels = []
        for row in range(TIMED):
            start = time.perf_counter()
            answer = score_texts(ready, keys[[row]], [texts[row]], None)
            seconds.append(time.perf_counter() - start)
            labels.append(int(answer.probabilities.argmax()))
        if exact is None:
            exact = labels
        median, slowest = 1000 * np.quantile(seconds, (0.5, 0.99))
        found.append((index, float(median), float(slowest), float(np.mean(np.array(labels) == exact))))
        print(found[-1], flush=True)
    return found


def read_rows(path: Path) -> list[dict[str, str]]:
    """Rows with a text, in the same random order in each run."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    rows = [row for row in rows if row["text"].strip()]
    return [rows[i] for i in np.random.default_rng(0).permutation(len(rows))]


if __name__ == "__main__":
    main()
