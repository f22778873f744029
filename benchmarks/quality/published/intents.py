"""Intents with five and ten labeled texts of each, beside a published leaderboard, on its own files.

    git clone https://github.com/jianguoz/Few-Shot-Intent-Detection; git -C Few-Shot-Intent-Detection checkout fa95533
    OMP_NUM_THREADS=1 python -m benchmarks.quality.published.intents measure --repository Few-Shot-Intent-Detection
    python -m benchmarks.quality.published.intents report

The examples are the files train_5 and train_10, the tests the file test. The systems:

- probe: logistic regression on embeddings.
- fit: add_examples and fit, with the names of the intents as they are in the files.
- fit, unlabeled: the other training texts are documents, without their labels. The published systems do not use them.
- fit, unlabeled, uniform: the same with class_proportions="uniform", as for a user who knows that the intents of the
  tests are about equally frequent.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from time import process_time

import numpy as np

from benchmarks.quality.few_labels.embedder import Embedder
from benchmarks.quality.few_labels.records import add_record, read_records
from benchmarks.quality.published.fixed_examples import RESULTS, by_fit, by_probe, embedder_of, table_parser
from docsplit_hf.training.markdown import table

RECORDS = RESULTS / "few_labels" / "intents.jsonl"
SETS = ("BANKING77", "CLINC150", "HWU64")
PER_LABEL = (5, 10)
SYSTEMS = ("probe", "fit", "fit, unlabeled", "fit, unlabeled, uniform")
KEY = ("encoder", "set", "per_label", "system")
# Accuracy (%) on BANKING77, CLINC150 and HWU64 with 5 labels, then with 10: the README of the repository at fa95533.
PUBLISHED = {
    "RoBERTa, fine-tuned": (74.04, 87.99, 75.56, 84.27, 91.55, 82.90),
    "USE": (76.29, 87.82, 77.79, 84.23, 90.85, 83.75),
    "USE + ConveRT": (77.75, 90.49, 80.01, 85.19, 93.26, 85.83),
    "DNNC": (80.40, 91.02, 80.46, 86.71, 93.76, 84.72),
    "CPFT": (80.86, 92.34, 82.03, 87.20, 94.18, 87.13),
    "ICDA": (84.01, 92.62, 82.45, 89.79, 94.84, 87.41),
}


def read_split(folder: Path) -> tuple[list[str], list[str]]:
    """The texts and the labels of a folder with the files seq.in and label."""
    texts = (folder / "seq.in").read_text(encoding="utf-8").splitlines()
    labels = (folder / "label").read_text(encoding="utf-8").splitlines()
    return [text.strip() for text in texts], [label.strip() for label in labels]


def answers(embedder: Embedder, system: str, folder: Path, per_label: int) -> np.ndarray:
    """The labels that a system gives to the tests of a set."""
    examples, labels = read_split(folder / f"train_{per_label}")
    tests, _ = read_split(folder / "test")
    if system == "probe":
        return by_probe(embedder, examples, labels, tests)
    documents: list[str] = []
    if "unlabeled" in system:
        training, _ = read_split(folder / "train")
        documents = sorted(set(training) - set(examples))
    proportions = "uniform" if "uniform" in system else "estimated"
    return by_fit(embedder, examples, labels, tests, documents, proportions)


def measure(options: argparse.Namespace) -> None:
    """Append a record for each set, number of labels and system that has none."""
    finished = {tuple(record[field] for field in KEY) for record in read_records(options.output)}
    for name in options.sets:
        folder = options.repository / "Datasets" / name
        tests, truth = read_split(folder / "test")
        embedder = embedder_of(options, read_split(folder / "train")[0] + tests)
        for per_label in PER_LABEL:
            for system in options.systems or SYSTEMS:
                key = (options.name, name, per_label, system)
                if key in finished:
                    continue
                start = process_time()
                given = answers(embedder, system, folder, per_label)
                record = dict(zip(KEY, key, strict=True)) | {
                    "precision": options.precision,
                    "tests": len(tests),
                    "accuracy": float((given == np.array(truth)).mean()),
                    "cpu_seconds": process_time() - start,
                }
                add_record(options.output, record)
                print(record, flush=True)


def rows(path: Path) -> list[list[str]]:
    """The rows of the table: published systems, then those of each encoder."""
    found = [[name, *(f"{accuracy:.1f}" for accuracy in accuracies)] for name, accuracies in PUBLISHED.items()]
    accuracies = {tuple(record[field] for field in KEY): record["accuracy"] for record in read_records(path)}
    for encoder in dict.fromkeys(key[0] for key in accuracies):
        for system in SYSTEMS:
            keys = [(encoder, name, per_label, system) for per_label in PER_LABEL for name in SETS]
            cells = [f"{100 * accuracies[key]:.1f}" if key in accuracies else "" for key in keys]
            if any(cells):
                found.append([f"{system}, {encoder}", *cells])
    return found


def main() -> None:
    parser = table_parser(__doc__, RECORDS)
    parser.add_argument("--repository", type=Path, default=Path("Few-Shot-Intent-Detection"), help="Its clone.")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS, help="Default: all.")
    options = parser.parse_args()
    if options.part == "measure":
        measure(options)
    header = ["accuracy (%)", *(f"{name}, {per_label}" for per_label in PER_LABEL for name in SETS)]
    print(table(header, rows(options.output)))


if __name__ == "__main__":
    main()
