"""Fitted answers by each kind of store: the labels they give beside exact search, and seconds for an answer.

    OMP_NUM_THREADS=1 python benchmarks/fitted_answers.py FOLDER --output docs/results/fitted_answers.json

FOLDER has train.jsonl and test.jsonl with the columns "text" and "label". 1,100 training texts are examples, 1,100 are
documents without labels, and 500 test texts are asked about, read by all-MiniLM-L6-v2 (256 tokens). The same rows
are put into each store, fit() is called there, and its labels are compared with those of exact search.

Seconds are of 100,000 documents and 100 examples around ten centers (fitting_growth.py), one text at a time, without
the encoder. Nothing is downloaded.
"""

import argparse
import copy
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from benchmark_inputs import default_model
from fitting_growth import make_datastore
from transformers import pipeline

from docsplit_hf import KNNDatastore, connect_datastore
from docsplit_hf.neighbors.experts.fit_experts import fit_experts
from docsplit_hf.neighbors.experts.fitted_experts import ask_experts, ready_experts
from docsplit_hf.shards import ShardWriter, begin_corpus
from docsplit_hf.training.markdown import table

EXAMPLES, DOCUMENTS, ASKED, PASSAGE, TIMED = 1_100, 1_100, 500, 128, 200
INDEX, LARGE_INDEX = "IVF28,Flat", "IVF256,Flat"  # as many lists as so many rows can have, 39 to a list
PARTS, COMPARED = ("stores", "passages", "seconds"), ("store", "same label", "accuracy")


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
        timed = part == "seconds"
        record[part] = time_answers(options.documents) if timed else compare_stores(options.folder, part)
        columns = ("index", "median, ms", "99th percentile, ms", "same label") if timed else COMPARED
        print(table(columns, [[one if isinstance(one, str) else f"{one:.3g}" for one in row] for row in record[part]]))
        if options.output is not None:
            options.output.write_text(json.dumps(record, indent=1) + "\n")


def compare_stores(folder: Path, part: str) -> list[tuple[str, float, float]]:
    """Of each store its name, the share of labels that are those of exact search, and the accuracy."""
    train, test = (read_rows(folder / f"{split}.jsonl") for split in ("train", "test"))
    examples, documents, asked = train[:EXAMPLES], train[EXAMPLES : EXAMPLES + DOCUMENTS], test[:ASKED]
    reading = {"long_documents": "passages", "passage_length": PASSAGE}
    reading = reading if part == "passages" else {"long_documents": "first"}
    pipe = pipeline("docsplit-knn", model=default_model(), device="cpu", **reading)
    pipe.add_examples([row["text"] for row in examples], [row["label"] for row in examples])
    pipe.add_documents([row["text"] for row in documents])
    texts, right = [row["text"] for row in asked], np.array([row["label"] for row in asked])
    read, local, found = pipe.reader.read(texts, [None] * len(texts)), pipe.datastore, []
    with tempfile.TemporaryDirectory() as name:
        place, exact = Path(name), right
        stores = {"exact": lambda: local, f"index {INDEX}": lambda: with_index(local)}
        if part == "stores":
            stores["mapped"] = lambda: mapped(local, place)
            stores["shards"] = lambda: sharded(local, place)
            stores[f"shards, index {INDEX}"] = lambda: sharded(local, place, index=INDEX)
            stores["milvus-lite"] = lambda: collected(local, place)
        for title, make in stores.items():
            pipe.datastore = make()
            pipe.fit(show_progress=False)
            ready = ready_experts(pipe.datastore.snapshot)
            answers = ask_experts(ready, read.retrieval_embeddings, texts, None, read.passages)
            labels = np.array(pipe.datastore.label_names)[answers.probabilities.argmax(1)]
            exact = labels if title == "exact" else exact
            found.append((title, float(np.mean(labels == exact)), float(np.mean(labels == right))))
            print(found[-1], flush=True)
    return found


def with_index(local: KNNDatastore) -> KNNDatastore:
    """A copy with an index of its examples, and one of its documents."""
    datastore = copy.deepcopy(local)
    datastore.reindex(INDEX)
    return datastore


def mapped(local: KNNDatastore, place: Path) -> KNNDatastore:
    """The same, saved, with keys and texts of the examples on the disk."""
    local.save_pretrained(place / "saved")
    return KNNDatastore.from_pretrained(place / "saved", memory_map=True)


def sharded(local: KNNDatastore, place: Path, **options: Any) -> KNNDatastore:
    """The examples in two shards; the documents are added in memory."""
    folder, names, halves = place / "shards", local.label_names, np.array_split(np.arange(len(local)), 2)
    if not folder.exists():
        folder.mkdir()
        said = {"tasks": 2, "dimension": local.dimension, "dtype": local.dtype, "encoder": {}, "probe": None}
        begin_corpus(folder, said | {"label_names": list(names)})
        for task, rows in enumerate(halves):
            with ShardWriter(folder, task, local.dimension, local.dtype) as shard:
                ids, texts = ([values[row] for row in rows] for values in (local.ids, local.texts))
                shard.add(ids, texts, [names[label] for label in local.labels[rows]], local.keys[rows])
    datastore, documents = KNNDatastore.from_shards(folder, **options), local.documents
    datastore.add_documents(documents.keys, documents.texts, ids=documents.ids)
    return datastore


def collected(local: KNNDatastore, place: Path) -> Any:
    """A collection of milvus-lite."""
    remote = connect_datastore(place / "milvus.db", "rows", dimension=local.dimension, label_names=local.label_names)
    remote.merge(local)
    return remote


def time_answers(documents: int) -> list[tuple[str, float, float, float]]:
    """Of exact search and of an index, what one answer takes, in milliseconds."""
    datastore, others = make_datastore(documents, 384, 50), make_datastore(TIMED, 384, 50)
    datastore.fitted = fit_experts(datastore.snapshot, show_progress=False).to_state()
    keys, texts = others.documents.keys + np.float32(1e-3), others.documents.texts
    found, exact = [], None
    for index in ("Flat", LARGE_INDEX):
        datastore.reindex(index)
        ready, seconds, labels = ready_experts(datastore.snapshot), [], []
        for row in range(TIMED):
            start = time.perf_counter()
            answer = ask_experts(ready, keys[[row]], [texts[row]], None)
            seconds.append(time.perf_counter() - start)
            labels.append(int(answer.probabilities.argmax()))
        exact = exact or labels
        times = (1000 * float(value) for value in np.quantile(seconds, (0.5, 0.99)))
        found.append((index, *times, float(np.mean(np.array(labels) == exact))))
        print(found[-1], flush=True)
    return found


def read_rows(path: Path) -> list[dict[str, str]]:
    """Rows with a text, in an order that is always the same."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    rows = [row for row in rows if row["text"].strip()]
    return [rows[i] for i in np.random.default_rng(0).permutation(len(rows))]


if __name__ == "__main__":
    main()
