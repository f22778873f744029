"""What a fit says of itself, and what other texts show: its accuracy, ``reject``, sets of labels and proportions.

    OMP_NUM_THREADS=1 python -m benchmarks.quality.promises --tasks data/bbc_news data/clinc150

A task is a folder with train.jsonl and test.jsonl. Of each, the first 400 characters of 1,200 texts at most are taken,
equally many of each of its eight most frequent classes. Examples are balanced, and so are the test texts.

- fits: without documents; the accuracy that the report gives, and that on other texts, of the ensemble and of the word
  counts; answers with ``reject``; whether sets of labels hold the right one.
- versions: each example three times, with two other endings.
- thresholds: groups of test texts of the first large fit serve as held-out texts of ``reject``, the others as new ones.
- piles: accuracy with estimated, equal and true proportions, on the documents of ``benchmarks.quality.proportions``.

Records are lines of promises.jsonl in --output, with the last commit that changed docsplit_hf; finished ones are kept.
To compare with an earlier commit, run this file and proportions.py in a checkout of it.
"""

from __future__ import annotations

import argparse
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.inputs import default_model
from benchmarks.quality.few_labels.embedder import Embedder
from benchmarks.quality.few_labels.protocol import FewLabels, as_one_text, draw, load_few_labels, rest
from benchmarks.quality.few_labels.records import add_record, read_records
from benchmarks.quality.proportions import make_pile, of_all_texts, shifted_figures
from docsplit_hf import KNNDatastore
from docsplit_hf.fitting.ensemble import label_proportions
from docsplit_hf.fitting.ensemble.fit_experts import fit_experts
from docsplit_hf.fitting.ensemble.problem import Problem, used_labels
from docsplit_hf.fitting.ensemble.scoring import PreparedExperts, prepare_experts, score_texts
from docsplit_hf.fitting.experts.label_names_expert import readable_names
from docsplit_hf.fitting.experts.word_experts import fit_word_regression, word_log_odds
from docsplit_hf.fitting.label_sets import label_sets
from docsplit_hf.fitting.rejection import confidence_threshold

RESULTS = Path(__file__).parents[2] / "docs" / "results" / "reliability"
KEY = ("commit", "kind", "task", "examples", "exponent", "draw")
CLASSES = 8
TEXTS = 1_200
LONGEST = 400  # characters of a text
TEST_SHARE = 1 / 3  # of the texts, to test piles
SIZES = (64, 160)  # examples
ENDINGS = (" Version 2.", " (copy of the file, revised)")
VERSIONED = 240  # texts from which the examples with versions are drawn
ERRORS = (0.05, 0.1)
LEVELS = (0.9, 0.95)
HELD_OUT_SIZES = (50, 100, 160, 400)
HELD_OUT_DRAWS = 50


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--tasks", nargs="+", required=True, help="Folders.")
    add("--draws", type=int, default=3, help="Of examples; of piles, one. Default: %(default)s.")
    add("--embeddings", default="output/embeddings", help="Where they are kept. Default: %(default)s.")
    add("--output", type=Path, default=RESULTS, help="Folder for the records. Default: %(default)s.")
    options = parser.parse_args()
    records = Records(options.output / "promises.jsonl", last_commit())
    for folder in options.tasks:
        task = balanced(load_few_labels(folder, pool_size=12_000, test_size=5_000))
        embedder = Embedder(default_model(), task, options.embeddings, precision="int8")
        measure(Trial(task, embedder), options.draws, records)


class Records:
    """The records of a commit, which are made once."""

    def __init__(self, path: Path, commit: str) -> None:
        self.path = path
        self.commit = commit

    def add(self, kind: str, make: Callable[..., Any], task: str, *draw: float) -> None:
        """Add what ``make`` finds in a draw: number of examples, exponent of the proportions, and seed."""
        values = (self.commit, kind, task, *draw)
        if values not in {tuple(known[field] for field in KEY) for known in read_records(self.path)}:
            add_record(self.path, dict(zip(KEY, values, strict=True)) | {"found": make(*draw)})


def measure(trial: Trial, draws: int, records: Records) -> None:
    """Add all records of a task."""
    name = trial.task.name
    for number in range(draws):
        for size in SIZES:
            records.add("fits", trial.plain, name, size, 0.0, number)
        records.add("versions", trial.versions, name, SIZES[-1], 0.0, number)
    records.add("thresholds", trial.thresholds, name, SIZES[-1], 0.0, 0)
    for size in SIZES:
        for exponent in (0.0, 1.0):
            records.add("piles", trial.pile, name, size, exponent, 0)


def last_commit() -> str:
    """Return the last commit that changed the package."""
    command = ("git", "log", "-1", "--format=%h", "--abbrev=8", "--", "docsplit_hf")
    return subprocess.check_output(command, cwd=Path(__file__).parents[2], text=True).strip()


def balanced(task: FewLabels) -> FewLabels:
    """Shorten the texts, and keep equally many of each frequent class, without copies."""
    texts = np.array([text[:LONGEST] for text in as_one_text(task.pool + task.test)], dtype=object)
    labels = np.concatenate([task.pool_labels, task.test_labels])
    firsts = np.unique(texts.astype(str), return_index=True)[1]
    rows = np.random.default_rng(0).permutation(firsts)
    frequent = np.argsort(-np.bincount(labels[rows]), kind="stable")[:CLASSES]
    size = min(TEXTS // len(frequent), *(int((labels[rows] == label).sum()) for label in frequent))
    tested = round(TEST_SHARE * size)
    of_class = [rows[labels[rows] == label][:size] for label in frequent]
    pool = np.concatenate([own[tested:] for own in of_class])
    test = np.concatenate([own[:tested] for own in of_class])
    names = [task.names[label] for label in frequent]
    places = np.repeat(np.arange(len(names)), size - tested)
    return replace(
        task,
        names=names,
        descriptions=names,
        pool=texts[pool].tolist(),
        pool_labels=places,
        test=texts[test].tolist(),
        test_labels=np.repeat(np.arange(len(names)), tested),
    )


class Trial:
    """A task and its embeddings."""

    def __init__(self, task: FewLabels, embedder: Embedder) -> None:
        self.task = task
        self.embedder = embedder
        self.texts = np.array(task.pool + task.test, dtype=object)
        self.labels = np.concatenate([task.pool_labels, task.test_labels])
        self.vectors = embedder.embed(list(self.texts))
        self.endings: list[np.ndarray] = []
        self.versioned = draw(self.labels, VERSIONED // len(task.names), 0)

    def plain(self, size: int, exponent: float, number: int) -> dict[str, Any]:
        """Compare what a fit says with other texts."""
        rows = draw(self.labels, size // len(self.task.names), number)
        ready = self.fit(self.vectors[rows], self.texts[rows], self.labels[rows])
        return self.measured(ready, rows)

    def versions(self, size: int, exponent: float, number: int) -> dict[str, Any]:
        """Do the same with two versions of each example."""
        if not self.endings:
            own = self.texts[self.versioned]
            self.endings = [self.embedder.embed_anew([text + ending for text in own]) for ending in ENDINGS]
        places = draw(self.labels[self.versioned], size // len(self.task.names), number)
        rows = self.versioned[places]
        vectors = np.concatenate([self.vectors[rows], *(vectors[places] for vectors in self.endings)])
        texts = np.concatenate([self.texts[rows] + ending for ending in ("", *ENDINGS)])
        ready = self.fit(vectors, texts, np.tile(self.labels[rows], 1 + len(ENDINGS)))
        return self.measured(ready, rows) | {"versions": ready.fitted.report.versions}

    def fit(self, vectors: np.ndarray, texts: np.ndarray, labels: np.ndarray) -> PreparedExperts:
        store = KNNDatastore(vectors, [self.task.names[label] for label in labels], [], texts)
        fitted = fit_experts(
            Problem(
                store.snapshot, name_embeddings=self.embedder.embed_anew(readable_names(used_labels(store.snapshot)))
            ),
            show_progress=False,
        )
        store.fitted = fitted.to_state()
        return prepare_experts(store.snapshot)

    def measured(self, ready: PreparedExperts, rows: np.ndarray) -> dict[str, Any]:
        """Measure a fit on the examples ``rows`` by all other texts."""
        others = rest(len(self.texts), rows)
        texts = self.texts[others].tolist()
        answers = score_texts(ready, self.vectors[others], texts, None, with_closeness=True)
        names = list(ready.snapshot.label_names)
        labels = np.array([names.index(name) for name in self.task.names])[self.labels[others]]
        right = answers.probabilities.argmax(1) == labels
        guarantees = ready.fitted.guarantees
        sure = guarantees.confidence(answers.probabilities, guarantees.novelty(answers.familiarity()))
        report = ready.fitted.report
        said = {measured["expert"]: measured["accuracy"] for measured in report.measured}
        rejected = {}
        sets = {}
        for error in ERRORS:
            accepted = sure >= guarantees.confidence_threshold(error)
            rejected[str(error)] = {"answers": int(accepted.sum()), "wrong": int((~right[accepted]).sum())}
        for level in LEVELS:
            held = label_sets(answers.probabilities, guarantees.label_set_limits(level).by_label)
            sets[str(level)] = {
                "kept": int(held[np.arange(len(labels)), labels].sum()),
                "labels": int(held.sum()),
            }
        return {
            "texts": len(labels),
            "held_out": len(guarantees.held_out.ids),
            "said": said["ensemble"],
            "accuracy": float(right.mean()),
            "interval": report.accuracy_interval,
            "words_said": said["word counts"],
            "words_accuracy": self.accuracy_of_words(ready, rows, others),
            "rejected": rejected,
            "sets": sets,
        }

    def accuracy_of_words(self, ready: PreparedExperts, rows: np.ndarray, others: np.ndarray) -> float:
        """Fit the regression on words to the examples."""
        words = ready.fitted.ensemble.tfidf.transform(self.texts[rows].tolist())
        asked = ready.fitted.ensemble.tfidf.transform(self.texts[others].tolist())
        targets = (self.labels[rows][:, None] == np.arange(len(self.task.names))).astype(np.float32)
        matrix = sp.csr_matrix((words.data, words.indices, words.indptr), words.shape)
        found = word_log_odds(asked, fit_word_regression(matrix, targets)).argmax(1)
        return float((found == self.labels[others]).mean())

    def thresholds(self, size: int, exponent: float, number: int) -> dict[str, dict[str, list[Sequence[float]]]]:
        """Return answers and wrong ones, of groups of the test texts, for each number of held-out texts and error."""
        rows = draw(self.labels, size // len(self.task.names), number)
        ready = self.fit(self.vectors[rows], self.texts[rows], self.labels[rows])
        others = rest(len(self.texts), rows)
        probabilities = score_texts(ready, self.vectors[others], self.texts[others].tolist(), None).probabilities
        answers = np.array(ready.snapshot.label_names)[probabilities.argmax(1)]
        right = answers == np.array(self.task.names)[self.labels[others]]
        sure = probabilities.max(1)
        found: dict[str, dict[str, list[Sequence[float]]]] = {}
        for held_out in [size for size in HELD_OUT_SIZES if size <= len(right) / 2]:
            for error in ERRORS:
                outcomes = []
                for seed in range(HELD_OUT_DRAWS):
                    order = np.random.default_rng(seed).permutation(len(right))
                    known, new = order[:held_out], order[held_out:]
                    accepted = sure[new] >= confidence_threshold(sure[known], right[known], error)
                    outcomes.append((int(accepted.sum()), int((~right[new][accepted]).sum()), len(new)))
                found.setdefault(str(held_out), {})[str(error)] = outcomes
        return found

    def pile(self, size: int, exponent: float, number: int) -> dict[str, float] | None:
        """Return accuracy with estimated, equal and true proportions; None if ``fit`` estimates none."""
        pile = make_pile(self.task, self.embedder, size // len(self.task.names), exponent, number)
        if pile is None:
            return None
        classes = pile.targets.shape[1]
        estimate = label_proportions.estimate_proportions(pile.held_out, pile.targets, pile.documents).likeliest
        found = {}
        for name, proportions in (
            ("estimated", estimate),
            ("equal", np.full(classes, 1 / classes)),
            ("true", pile.document_counts / pile.document_counts.sum()),
        ):
            found[name] = shifted_figures(pile, of_all_texts(pile, proportions))["accuracy"]
        return found


if __name__ == "__main__":
    main()
