"""The accuracy of int8: few-shot macro F1 and the nearest neighbors, against float32, by the same encoder.

    python -m benchmarks.quality.int8_accuracy 20news bbc_news arxiv_abstracts fakenews_small

Each folder has train.jsonl and test.jsonl with the columns text and label. Up to 1,500 training texts, equally many of
each class, are the pool for drawing examples and searching neighbors; up to 1,500 test texts are classified and are the
queries. The classifiers are a linear probe, fitted like the pipeline's, and the 5 nearest examples by cosine
similarity. Training and test texts are embedded in the same precision; both precisions have the same draws. Recall is
the share of the 10 nearest texts in float32 that are among the 10 nearest in int8. Int8 is calibrated on the
documentation of installed packages, none of these texts. ``--record`` adds a line to a file for each row.
"""

import argparse
import json
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.inputs import default_model
from benchmarks.quality.few_shot_probe import few_shot_scores, labeled_texts
from docsplit_hf import DocumentEncoder
from docsplit_hf.training.markdown import table

NEAREST = 10
SHOTS = (5, 10)
CLASSIFIERS = ("linear probe", "neighbors")


class Embedded(NamedTuple):
    """Embeddings of the training and the test texts, ``(N, D)``."""

    train: np.ndarray
    test: np.ndarray


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, help="Folders with train.jsonl and test.jsonl.")
    parser.add_argument("--model", help="A model on the Hub or a folder. Default: the installed all-MiniLM-L6-v2.")
    parser.add_argument("--max_length", type=int, default=256, help="Tokens of one input. Default: %(default)s.")
    parser.add_argument("--seeds", type=int, default=10, help="Draws of examples. Default: %(default)s.")
    parser.add_argument("--record", type=Path, help="A JSONL file to add to, a line for each row of the table.")
    options = parser.parse_args()
    name = options.model or default_model()
    float32_encoder = load(name, options.max_length, precision="float32")
    int8_encoder = load(name, options.max_length, precision="int8")
    records = []
    for folder in options.folders:
        train_texts, labels = labeled_texts(folder, "train")
        test_texts, test_labels = labeled_texts(folder, "test")
        in_float32 = Embedded(float32_encoder.encode(train_texts), float32_encoder.encode(test_texts))
        in_int8 = Embedded(int8_encoder.encode(train_texts), int8_encoder.encode(test_texts))
        recall = neighbors_recall(in_float32, in_int8)
        for shots in SHOTS:
            scores = few_shot_scores(
                in_float32.train, in_float32.test, labels, test_labels, shots=shots, seeds=options.seeds
            )
            int8_scores = few_shot_scores(
                in_int8.train, in_int8.test, labels, test_labels, shots=shots, seeds=options.seeds
            )
            for kind, score, int8_score in zip(CLASSIFIERS, scores, int8_scores, strict=True):
                records.append({
                    "model": Path(name).name,
                    "task": folder.name,
                    "shots": shots,
                    "classifier": kind,
                    "float32": 100 * score,
                    "int8": 100 * int8_score,
                    f"recall@{NEAREST}": recall,
                    "max_length": options.max_length,
                    "draws": options.seeds,
                })  # fmt: skip
    print(accuracy_table(records))
    change = np.mean([record["int8"] - record["float32"] for record in records])
    print(f"\nMean difference in macro F1: {change:+.2f} points, over {options.seeds} draws each.")
    if options.record:
        with options.record.open("a") as file:
            file.writelines(json.dumps(record) + "\n" for record in records)


def load(name: str, max_length: int, precision: str) -> DocumentEncoder:
    return DocumentEncoder.from_pretrained(name, max_length=max_length, device="cpu", precision=precision)


def accuracy_table(records: list[dict]) -> str:
    """A row for each record."""
    rows = []
    for record in records:
        score = record["float32"]
        int8_score = record["int8"]
        rows.append((
            record["task"],
            str(record["shots"]),
            record["classifier"],
            f"{score:.2f}",
            f"{int8_score:.2f}",
            f"{int8_score - score:+.2f}",
            f"{record[f'recall@{NEAREST}']:.4f}",
        ))  # fmt: skip
    return table(("", "per class", "", "float32", "int8", "difference", f"recall@{NEAREST}"), rows)


def neighbors_recall(exact: Embedded, int8: Embedded) -> float:
    """The share of the nearest training texts of each test text that int8 preserves."""
    shares = [
        len(set(in_float32) & set(in_int8)) / NEAREST
        for in_float32, in_int8 in zip(nearest_rows(exact), nearest_rows(int8), strict=True)
    ]
    return float(np.mean(shares))


def nearest_rows(embedded: Embedded) -> np.ndarray:
    return np.argsort(-embedded.test @ embedded.train.T, axis=1)[:, :NEAREST]


if __name__ == "__main__":
    main()
