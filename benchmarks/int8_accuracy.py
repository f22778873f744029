"""What int8 costs: few-shot macro F1 and the nearest neighbors, against float32, by the same encoder.

    python benchmarks/int8_accuracy.py 20news bbc_news arxiv_abstracts fakenews_small

Each folder has train.jsonl and test.jsonl with the columns text and label. Up to 1,500 training texts, as many of each
class, are the pool that examples are drawn from and neighbors are looked for in; up to 1,500 test texts are classified
and ask for neighbors. The classifiers are a linear probe, as the pipeline fits it, and the 5 nearest examples by cosine
similarity. Both sides of a comparison are embedded in the same precision; the same examples are drawn for both. Recall
is the share of the 10 nearest texts in float32 that are among the 10 nearest in int8. Int8 is calibrated on the
documentation of installed packages, none of these texts. ``--record`` adds a line to a file for each row.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from benchmark_inputs import default_model
from few_shot_probe import few_shot_scores, labeled_texts

from docsplit_hf import DocumentEncoder
from docsplit_hf.training.markdown import table

NEAREST = 10
SHOTS = (5, 10)
PRECISIONS = ("float32", "int8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, help="Folders with train.jsonl and test.jsonl.")
    parser.add_argument("--model", help="A model on the Hub or a folder. Default: the installed all-MiniLM-L6-v2.")
    parser.add_argument("--max_length", type=int, default=256, help="Tokens of one input. Default: %(default)s.")
    parser.add_argument("--seeds", type=int, default=10, help="Draws of examples. Default: %(default)s.")
    parser.add_argument("--record", type=Path, help="A JSONL file to add to, a line for each row of the table.")
    options = parser.parse_args()
    name, given = options.model or default_model(), {"max_length": options.max_length, "device": "cpu"}
    encoders = [
        DocumentEncoder.from_pretrained(name, backend="torch" if precision == "float32" else "openvino",
                                        precision=precision, **given)
        for precision in PRECISIONS
    ]  # fmt: skip
    records = []
    for folder in options.folders:
        train, test = labeled_texts(folder, "train"), labeled_texts(folder, "test")
        embedded = [[encoder.encode(texts) for texts, _ in (train, test)] for encoder in encoders]
        recall = neighbors_recall(*embedded)
        for shots in SHOTS:
            scores = [few_shot_scores(*vectors, train[1], test[1], shots, options.seeds) for vectors in embedded]
            for kind, (exact, int8) in zip(("linear probe", "neighbors"), zip(*scores, strict=True), strict=True):
                about = {"model": Path(name).name, "task": folder.name, "shots": shots, "classifier": kind}
                found = {"float32": 100 * exact, "int8": 100 * int8, f"recall@{NEAREST}": recall}
                read = {"max_length": options.max_length, "draws": options.seeds}
                records.append(about | found | read)
    print(accuracy_table(records))
    change = np.mean([record["int8"] - record["float32"] for record in records])
    print(f"\nMean difference in macro F1: {change:+.2f} points, over {options.seeds} draws each.")
    if options.record:
        with options.record.open("a") as file:
            file.writelines(json.dumps(record) + "\n" for record in records)


def accuracy_table(records: list[dict]) -> str:
    """A row for each record."""
    rows = []
    for record in records:
        exact, int8 = record["float32"], record["int8"]
        cells = f"{exact:.2f}", f"{int8:.2f}", f"{int8 - exact:+.2f}", f"{record[f'recall@{NEAREST}']:.4f}"
        rows.append((record["task"], str(record["shots"]), record["classifier"], *cells))
    return table(("", "per class", "", "float32", "int8", "difference", f"recall@{NEAREST}"), rows)


def neighbors_recall(exact: list[np.ndarray], int8: list[np.ndarray]) -> float:
    """The share of the nearest training texts of the test texts that stay."""
    nearest = [np.argsort(-test @ train.T, axis=1)[:, :NEAREST] for train, test in (exact, int8)]
    return float(np.mean([len(set(one) & set(other)) / NEAREST for one, other in zip(*nearest, strict=True)]))


if __name__ == "__main__":
    main()
