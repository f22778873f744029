"""Measure grouped search: what passages cost in memory and time, and which distance of documents finds what is near.

    OMP_NUM_THREADS=1 python benchmarks/passage_search.py
    OMP_NUM_THREADS=1 python benchmarks/passage_search.py --embeddings papers.npz --documents docs.jsonl.gz \
        --pairs train.jsonl.gz test.jsonl.gz

The first measures datastores of float32 and float16 keys and approximate indexes of the passages beside float16 ones:
memory of the keys and of the index, time of a query of one vector and of one of as many passages as the documents have,
and how many of the 64 nearest documents are those that float32 finds. The passages are made on the spot, in clusters:
2,000 topics in 32 dimensions, documents around them, passages around these.

The second compares distances of documents: on pairs of papers (``id_a``, ``id_b``, ``label`` 1 where one cites the
other), by the accuracy of a threshold of the first file on the second and the area under the curve there; and by how
many of the papers that a paper is paired with by a citation are among its 20 nearest. ``--shared 3`` gives all papers
three passages more, the same for all, as forms and licenses have them. ``papers.npz`` has float
``E`` (P, D) of passages, ``doc`` (P,) the line of each passage's paper in the file of documents, and ``n`` tokens.
Both print a table, and append a record of each measurement to passage_search.jsonl.
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from datastore_index import index_bytes, machine, megabytes
from scipy.special import logsumexp
from sklearn.metrics import roc_auc_score
from tqdm.auto import tqdm

from docsplit_hf import KNNDatastore
from docsplit_hf.models.inference.long_documents import Passages
from docsplit_hf.neighbors.store.grouped_search import grouped_search, matched_distances
from docsplit_hf.training.markdown import table

K, RECALL_AT, TOPICS, LATENT_DIMENSION = 64, 20, 2_000, 32
RECORDS = Path("passage_search.jsonl")
MEANS, TEMPERATURES = (1, 3, 10), (0.03, 0.1, 0.3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000, help="documents (default: %(default)s)")
    parser.add_argument("--passages", type=int, default=25, help="of each (default: %(default)s)")
    parser.add_argument("--dimension", type=int, default=384, help="of the keys (default: %(default)s)")
    parser.add_argument("--queries", type=int, default=20, help="(default: %(default)s)")
    parser.add_argument("--indexes", nargs="*", default=["SQ8", "IVF1024,SQ8"], help="(default: %(default)s)")
    parser.add_argument("--embeddings", type=Path, help="of passages, .npz")
    parser.add_argument("--documents", type=Path, help="with an id in each line, .jsonl.gz")
    parser.add_argument("--pairs", type=Path, nargs=2, help="two files of pairs, .jsonl.gz")
    parser.add_argument("--shared", type=int, default=0, help="passages that all papers share (default: %(default)s)")
    options = parser.parse_args()
    print(f"Run on: {machine()}.\n", flush=True)
    records = compare_distances(options) if options.embeddings else measure_search(options)
    print(table(tuple(records[0]), (tuple(map(str, record.values())) for record in records)))
    with RECORDS.open("a") as file:
        for record in records:
            file.write(json.dumps(record) + "\n")


def measure_search(options: argparse.Namespace) -> list[dict[str, Any]]:
    keys, passages = make_documents(options.rows + options.queries, options.passages, options.dimension)
    stored, asked = split(keys, passages, options.rows)
    datastore = KNNDatastore(stored[0], np.zeros(options.rows, int), ["label"], passages=stored[1])
    exact = [datastore.search(*arguments).rows for arguments in searches(asked)]
    records = [measure(datastore, "float32", asked, exact)]
    del datastore
    datastore = KNNDatastore(stored[0], np.zeros(options.rows, int), ["label"], passages=stored[1], dtype="float16")
    del keys, passages, stored
    records.append(measure(datastore, "float16", asked, exact))
    for index in options.indexes:
        datastore.reindex(index)
        records.append(measure(datastore, f"float16 and {index}", asked, exact))
    return records


def make_documents(rows: int, passages: int, dimension: int) -> tuple[np.ndarray, Passages]:
    """Keys and passages of documents, of norm 1."""
    rng = np.random.default_rng(0)
    projection = rng.standard_normal((LATENT_DIMENSION, dimension), dtype=np.float32)
    documents = rng.standard_normal((TOPICS, LATENT_DIMENSION), dtype=np.float32)[rng.integers(0, TOPICS, rows)]
    documents += 0.5 * rng.standard_normal(documents.shape, dtype=np.float32)
    embeddings = np.empty((rows, passages, dimension), dtype=np.float32)
    for document, center in zip(embeddings, documents, strict=True):
        latent = center + rng.standard_normal((passages, LATENT_DIMENSION), dtype=np.float32)
        np.matmul(latent, projection, out=document)
        document += 0.5 * rng.standard_normal(document.shape, dtype=np.float32)
        document /= np.linalg.norm(document, axis=1, keepdims=True)
    keys = embeddings.mean(1)
    keys /= np.linalg.norm(keys, axis=1, keepdims=True)
    spans = np.zeros((rows * passages, 2), dtype=np.int64)
    return keys, Passages(embeddings.reshape(-1, dimension), np.full(rows, passages), spans)


def split(keys: np.ndarray, passages: Passages, rows: int) -> tuple[tuple[np.ndarray, Passages], ...]:
    """The first rows, and the others."""
    place = int(passages.counts[:rows].sum())
    first = Passages(passages.embeddings[:place], passages.counts[:rows], passages.spans[:place])
    second = Passages(passages.embeddings[place:].copy(), passages.counts[rows:], passages.spans[place:])
    return (keys[:rows], first), (keys[rows:].copy(), second)


def searches(asked: tuple[np.ndarray, Passages]) -> list[tuple[np.ndarray, int, Passages | None]]:
    """The arguments of a search by the vectors of documents, and of one by their passages."""
    return [(asked[0], K, None), (asked[0], K, asked[1])]


def measure(
    datastore: KNNDatastore, name: str, asked: tuple[np.ndarray, Passages], exact: list[np.ndarray]
) -> dict[str, Any]:
    passages = datastore.snapshot.passages
    record = {"keys": name, "MB": f"{megabytes(datastore.keys.nbytes + passages.embeddings.nbytes):,.0f}"}
    record["MB of index"] = f"{megabytes(index_bytes(datastore)):,.0f}"
    singles = [split(asked[0][i:], taken(asked[1], i), 1)[0] for i in range(len(asked[0]))]
    for number, what in enumerate(("one vector", "passages")):
        times = []
        for single in singles:
            arguments = searches(single)[number]
            start = time.perf_counter()
            datastore.search(*arguments)
            times.append(time.perf_counter() - start)
        arguments = searches(asked)[number]
        start = time.perf_counter()
        found = datastore.search(*arguments).rows
        batch = (time.perf_counter() - start) / len(found)
        agreement = np.mean([len(np.intersect1d(a, b)) / K for a, b in zip(found, exact[number], strict=True)])
        record[f"{what}: ms alone"] = round(1000 * float(np.median(times)), 1)
        record[f"{what}: ms of {len(found)}"] = round(1000 * batch, 1)
        record[f"{what}: same neighbors"] = round(float(agreement), 4)
    print(json.dumps(record), flush=True)
    return record


def taken(passages: Passages, first: int) -> Passages:
    """The passages from a document on."""
    place = int(passages.counts[:first].sum())
    return Passages(passages.embeddings[place:], passages.counts[first:], passages.spans[place:])


def compare_distances(options: argparse.Namespace) -> list[dict[str, Any]]:
    """How well each distance of documents tells pairs of papers where one cites the other."""
    loaded = np.load(options.embeddings)
    embeddings = loaded["E"].astype(np.float32)
    embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
    counts = np.bincount(loaded["doc"])
    ends, tokens = np.cumsum(counts), loaded["n"].astype(np.float32)
    shared = np.linspace(0, len(embeddings) - 1, options.shared).astype(int)  # of different papers
    papers = [np.concatenate([paper, embeddings[shared]]) for paper in np.split(embeddings, ends[:-1])]
    tokens = np.concatenate([np.append(paper, tokens[shared]) for paper in np.split(tokens, ends[:-1])])
    embeddings, counts = np.concatenate(papers), counts + options.shared
    keys = np.add.reduceat(embeddings * tokens[:, None], np.cumsum(counts) - counts)
    keys /= np.linalg.norm(keys, axis=1, keepdims=True)
    numbers = {paper["id"]: line for line, paper in enumerate(read(options.documents))}
    pairs = [
        np.array([[numbers[pair["id_a"]], numbers[pair["id_b"]]] for pair in read(path)]) for path in options.pairs
    ]
    labels = [np.array([int(pair["label"]) for pair in read(path)]) for path in options.pairs]
    measured = [
        [{name: of(2 - 2 * papers[a] @ papers[b].T) for name, of in DISTANCES.items()} for a, b in tqdm(given)]
        for given in pairs
    ]
    for part, given in zip(measured, pairs, strict=True):
        for distances, (a, b) in zip(part, given, strict=True):
            distances["keys"] = 2 - 2 * float(keys[a] @ keys[b])
    cited = np.concatenate(pairs)[np.concatenate(labels) == 1]
    ones = np.ones_like(counts)
    recalls = {STORE: recall(embeddings, counts, cited), "keys": recall(keys, ones, cited)}
    records = []
    for name in measured[0][0]:
        first, second = (np.array([distances[name] for distances in part]) for part in measured)
        accuracy = np.mean((second <= best_threshold(first, labels[0])) == labels[1])
        record = {"shared": options.shared, "distance": name, "accuracy": round(100 * float(accuracy), 2)}
        record["AUROC"] = round(100 * float(roc_auc_score(labels[1], -second)), 2)
        record[f"cited among {RECALL_AT}"] = round(100 * recalls[name], 2) if name in recalls else ""
        records.append(record)
    return records


def mean_of(best: int) -> Callable[[np.ndarray], float]:
    return lambda pairs: float(np.sort(pairs, axis=None)[: min(best, *pairs.shape)].mean())


def soft_minimum(temperature: float) -> Callable[[np.ndarray], float]:
    return lambda pairs: float(-temperature * (logsumexp(-pairs / temperature) - np.log(pairs.size)))


def chamfer(pairs: np.ndarray) -> float:
    return float(pairs.min(0).mean() + pairs.min(1).mean()) / 2


def of_the_store(pairs: np.ndarray) -> float:
    return float(matched_distances(pairs.min(1, keepdims=True), pairs.min(0), np.array(pairs.shape[1:]))[0])


STORE = "matches, the r-th counts 1/r"
DISTANCES = {f"best {best}": mean_of(best) for best in MEANS}
DISTANCES |= {f"soft minimum, T={temperature}": soft_minimum(temperature) for temperature in TEMPERATURES}
DISTANCES |= {"matches, all alike (Chamfer)": chamfer, STORE: of_the_store}


def recall(embeddings: np.ndarray, counts: np.ndarray, cited: np.ndarray) -> float:
    """The share of pairs of which one is among the 20 nearest of the other, its own paper aside."""
    rows = grouped_search(embeddings, counts, embeddings, counts, RECALL_AT + 1).rows
    near = {(query, row) for query, found in enumerate(rows.tolist()) for row in found}
    return float(np.mean([((a, b) in near) + ((b, a) in near) for a, b in cited.tolist()])) / 2


def best_threshold(distances: np.ndarray, labels: np.ndarray) -> float:
    order = np.argsort(distances)
    right = np.cumsum(labels[order] == 1) - np.cumsum(labels[order] == 0)
    return float(distances[order[right.argmax()]])


def read(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt") as file:
        return [json.loads(line) for line in file if line.strip()]


if __name__ == "__main__":
    main()
