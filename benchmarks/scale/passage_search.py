"""Measure grouped search: memory and time of passages, and the accuracy of several distances of documents.

    OMP_NUM_THREADS=1 python -m benchmarks.scale.passage_search
    OMP_NUM_THREADS=1 python -m benchmarks.scale.passage_search --embeddings papers.npz --documents docs.jsonl.gz \
        --pairs train.jsonl.gz test.jsonl.gz

The first measures datastores of float32 and float16 keys, and approximate indexes of the passages beside float16 keys:
memory of the keys and of the index, time of a query of one vector and of one of as many passages as the documents have,
and the share of the 64 nearest documents by float32 that is found. The passages are synthetic and clustered: 2,000
topics in 32 dimensions, documents around them, passages around these.

The second compares distances of documents: on pairs of papers (``id_a``, ``id_b``, ``label`` 1 where one cites the
other), by the accuracy on the second file of a threshold from the first, and the area under the curve on the second;
and by the share of citing and cited papers that are among each other's 20 nearest. ``--shared 3`` adds three equal
passages to all papers, like the boilerplate of forms and licenses. ``papers.npz`` has float ``E`` (P, D) of passages,
``doc`` (P,), the line of each passage's paper in the file of documents, and ``n``, its tokens. Both print a table, and
append a record of each measurement to passage_search.jsonl.
"""

from __future__ import annotations

import argparse
import copy
import gzip
import json
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp
from sklearn.metrics import roc_auc_score
from tqdm.auto import tqdm

from benchmarks.scale.datastore_index import index_bytes, machine, megabytes
from docsplit_hf import KNNDatastore
from docsplit_hf.arrays.grouped_search import grouped_search, matched_distances
from docsplit_hf.arrays.passages import Passages
from docsplit_hf.training.markdown import table

K = 64
RECALL_AT = 20
TOPICS = 2_000
LATENT_DIMENSION = 32
RECORDS = Path("passage_search.jsonl")
MEANS = (1, 3, 10)
TEMPERATURES = (0.03, 0.1, 0.3)
QUERIES = ("one vector", "passages")


class Documents(NamedTuple):
    """The keys of documents, ``(N, D)``, and their passages."""

    keys: np.ndarray
    passages: Passages

    def rows(self, start: int, end: int) -> Documents:
        """Some of the documents."""
        first = int(self.passages.counts[:start].sum())
        last = int(self.passages.counts[:end].sum())
        passages = Passages(
            embeddings=self.passages.embeddings[first:last],
            counts=self.passages.counts[start:end],
            spans=self.passages.spans[first:last],
        )
        return Documents(self.keys[start:end], passages)


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
    documents = make_documents(options.rows + options.queries, options.passages, options.dimension)
    stored = documents.rows(0, options.rows)
    asked = copy.deepcopy(documents.rows(options.rows, options.rows + options.queries))
    labels = np.zeros(options.rows, int)
    datastore = KNNDatastore(stored.keys, labels, ["label"], passages=stored.passages)
    exact = {kind: search(datastore, asked, kind) for kind in QUERIES}
    records = [measure(datastore, "float32", asked, exact)]
    del datastore  # frees its memory before the next one is made
    datastore = KNNDatastore(stored.keys, labels, ["label"], passages=stored.passages, dtype="float16")
    del documents, stored
    records.append(measure(datastore, "float16", asked, exact))
    for index in options.indexes:
        datastore.reindex(index)
        records.append(measure(datastore, f"float16 and {index}", asked, exact))
    return records


def make_documents(rows: int, passages: int, dimension: int) -> Documents:
    """Documents with keys and passages of norm 1."""
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
    return Documents(keys, Passages(embeddings.reshape(-1, dimension), np.full(rows, passages), spans))


def search(datastore: KNNDatastore, asked: Documents, kind: str) -> np.ndarray:
    """The rows of the nearest documents, by the vectors of the queries or by their passages, ``(Q, k)``."""
    return datastore.search(asked.keys, K, asked.passages if kind == "passages" else None).rows


def measure(datastore: KNNDatastore, name: str, asked: Documents, exact: dict[str, np.ndarray]) -> dict[str, Any]:
    passages = datastore.snapshot.passages
    record = {"keys": name, "MB": f"{megabytes(datastore.keys.nbytes + passages.embeddings.nbytes):,.0f}"}
    record["MB of index"] = f"{megabytes(index_bytes(datastore)):,.0f}"
    singles = [asked.rows(i, i + 1) for i in range(len(asked.keys))]
    for kind in QUERIES:
        times = []
        for single in singles:
            start = time.perf_counter()
            search(datastore, single, kind)
            times.append(time.perf_counter() - start)
        start = time.perf_counter()
        found = search(datastore, asked, kind)
        batch = (time.perf_counter() - start) / len(found)
        agreement = np.mean([len(np.intersect1d(a, b)) / K for a, b in zip(found, exact[kind], strict=True)])
        record[f"{kind}: ms alone"] = round(1000 * float(np.median(times)), 1)
        record[f"{kind}: ms of {len(found)}"] = round(1000 * batch, 1)
        record[f"{kind}: same neighbors"] = round(float(agreement), 4)
    print(json.dumps(record), flush=True)
    return record


def compare_distances(options: argparse.Namespace) -> list[dict[str, Any]]:
    """How well each distance of documents separates citing pairs of papers from others."""
    loaded = np.load(options.embeddings)
    embeddings = loaded["E"].astype(np.float32)
    embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
    tokens = loaded["n"].astype(np.float32)
    counts = np.bincount(loaded["doc"])
    ends = np.cumsum(counts)
    shared = np.linspace(0, len(embeddings) - 1, options.shared).astype(int)  # passages of different papers
    papers = [np.concatenate([paper, embeddings[shared]]) for paper in np.split(embeddings, ends[:-1])]
    tokens = np.concatenate([np.append(paper, tokens[shared]) for paper in np.split(tokens, ends[:-1])])
    embeddings = np.concatenate(papers)
    counts = counts + options.shared
    keys = np.add.reduceat(embeddings * tokens[:, None], np.cumsum(counts) - counts)
    keys /= np.linalg.norm(keys, axis=1, keepdims=True)
    numbers = {paper["id"]: line for line, paper in enumerate(read(options.documents))}

    def distances_of(pairs: np.ndarray) -> dict[str, np.ndarray]:
        """Each distance of each pair."""
        found = defaultdict(list)
        for first, second in tqdm(pairs):
            between_passages = 2 - 2 * papers[first] @ papers[second].T
            for name, distance in DISTANCES.items():
                found[name].append(distance(between_passages))
            found["keys"].append(2 - 2 * float(keys[first] @ keys[second]))
        return {name: np.array(values) for name, values in found.items()}

    first_path, second_path = options.pairs
    pairs, labels = read_pairs(first_path, numbers)
    test_pairs, test_labels = read_pairs(second_path, numbers)
    distances = distances_of(pairs)
    test_distances = distances_of(test_pairs)
    cited = np.concatenate([pairs, test_pairs])[np.concatenate([labels, test_labels]) == 1]
    recalls = {STORE: recall(embeddings, counts, cited), "keys": recall(keys, np.ones_like(counts), cited)}
    records = []
    for name, found in test_distances.items():
        accuracy = np.mean((found <= best_threshold(distances[name], labels)) == test_labels)
        record = {"shared": options.shared, "distance": name, "accuracy": round(100 * float(accuracy), 2)}
        record["AUROC"] = round(100 * float(roc_auc_score(test_labels, -found)), 2)
        record[f"cited among {RECALL_AT}"] = round(100 * recalls[name], 2) if name in recalls else ""
        records.append(record)
    return records


def read_pairs(path: Path, numbers: dict[str, int]) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of papers as their lines in the file of documents, ``(M, 2)``, and labels ``(M,)``."""
    rows = read(path)
    pairs = np.array([[numbers[row["id_a"]], numbers[row["id_b"]]] for row in rows])
    return pairs, np.array([int(row["label"]) for row in rows])


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
    """The share of pairs, in both directions, with one paper among the 20 nearest others of the other."""
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
