"""Topics in ten languages with eight labels of each, beside MTEB's published results of other encoders: SIB-200.

    git clone https://github.com/dadelani/sib-200; git -C sib-200 checkout 593cea8
    OMP_NUM_THREADS=1 python -m benchmarks.quality.published.sib200 measure --repository sib-200
    python -m benchmarks.quality.published.sib200 report

701 sentences for training and 204 tests in each language, the same ones in translation. As MTEB does, eight examples of
each of the seven topics are drawn; its draws are not known. The published results (sib200_published.jsonl) are those of
embeddings-benchmark/results at f4cc6c8, means of ten draws, of a probe. The systems:

- probe: logistic regression on embeddings.
- fit: add_examples and fit, with the English names of the topics.
- fit, documents: the other training sentences are documents, without their labels.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import numpy as np

from benchmarks.quality.few_labels.embedder import Embedder
from benchmarks.quality.few_labels.protocol import draw
from benchmarks.quality.few_labels.records import add_record, read_records
from benchmarks.quality.published.fixed_examples import RESULTS, by_fit, by_probe, embedder_of, table_parser
from docsplit_hf.training.markdown import table

RECORDS = RESULTS / "few_labels" / "sib200.jsonl"
PUBLISHED = RESULTS / "few_labels" / "sib200_published.jsonl"
LANGUAGES = {
    "eng_Latn": "English",
    "deu_Latn": "German",
    "fra_Latn": "French",
    "spa_Latn": "Spanish",
    "ita_Latn": "Italian",
    "nld_Latn": "Dutch",
    "pol_Latn": "Polish",
    "tur_Latn": "Turkish",
    "rus_Cyrl": "Russian",
    "jpn_Jpan": "Japanese",
}
SYSTEMS = ("probe", "fit", "fit, documents")
KEY = ("encoder", "language", "draw", "system")
PER_LABEL = 8


def read_split(repository: Path, language: str, split: str) -> tuple[list[str], np.ndarray]:
    """The texts and the topics."""
    path = repository / "data" / "annotated" / language / f"{split}.tsv"
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [row["text"] for row in rows], np.array([row["category"] for row in rows])


def answers(
    embedder: Embedder, system: str, train: list[str], topics: np.ndarray, tests: list[str], number: int
) -> np.ndarray:
    """The topics that a system gives to the tests."""
    drawn = draw(topics, PER_LABEL, number)
    examples = [train[row] for row in drawn]
    labels = topics[drawn].tolist()
    if system == "probe":
        return by_probe(embedder, examples, labels, tests)
    documents = sorted(set(train) - set(examples)) if system == "fit, documents" else []
    return by_fit(embedder, examples, labels, tests, documents)


def measure(options: argparse.Namespace) -> None:
    """Append a record for each language, draw and system that has none."""
    finished = {tuple(record[field] for field in KEY) for record in read_records(options.output)}
    splits = {}
    for language in LANGUAGES:
        splits[language] = [*read_split(options.repository, language, "train")]
        splits[language] += read_split(options.repository, language, "test")
    embedder = embedder_of(options, [text for train, _, tests, _ in splits.values() for text in train + tests])
    for number in range(options.draws):
        for language, (train, topics, tests, truth) in splits.items():
            for system in options.systems or SYSTEMS:
                key = (options.name, language, number, system)
                if key in finished:
                    continue
                given = answers(embedder, system, train, topics, tests, number)
                accuracy = float((given == truth).mean())
                record = dict(zip(KEY, key, strict=True)) | {"precision": options.precision, "accuracy": accuracy}
                add_record(options.output, record)
                print(record, flush=True)


def rows(path: Path) -> list[list[str]]:
    """A row for each published encoder, and for each system that is measured here."""
    found = []
    for record in read_records(PUBLISHED):
        means = [100 * record["accuracy"][language] for language in LANGUAGES]
        found.append([f"probe, {record['system']}", "MTEB", *(f"{mean:.1f}" for mean in means)])
    records = read_records(path)
    for encoder in dict.fromkeys(record["encoder"] for record in records):
        for system in SYSTEMS:
            cells = []
            for language in LANGUAGES:
                key = (encoder, language, system)
                fields = ("encoder", "language", "system")
                own = [record for record in records if tuple(record[field] for field in fields) == key]
                cells.append(f"{100 * np.mean([record['accuracy'] for record in own]):.1f}" if own else "")
            found.append([f"{system}, {encoder}", "here", *cells])
    return found


def main() -> None:
    parser = table_parser(__doc__, RECORDS)
    parser.add_argument("--repository", type=Path, default=Path("sib-200"), help="Its clone. Default: %(default)s.")
    parser.add_argument("--draws", type=int, default=10, help="Default: %(default)s.")
    options = parser.parse_args()
    if options.part == "measure":
        measure(options)
    print(table(["accuracy (%)", "", *LANGUAGES.values()], rows(options.output)))


if __name__ == "__main__":
    main()
