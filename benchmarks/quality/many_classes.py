"""Macro F1 with many classes, beside scikit-learn's self-training, and what each change of the ensemble adds.

    OMP_NUM_THREADS=1 python -m benchmarks.quality.many_classes --tasks data/banking77 data/hwu64 data/clinc150

A task is a folder with train.jsonl and test.jsonl. The pool is 2,500 random documents; some examples of each class have
labels. Systems:

- ours, ours_without_documents: ``fit()``
- before: an earlier version, with both changes below undone and proportions moved half way to equal ones; its records
  are in the file, and it is not measured again
- one_probe: ours, with a classifier that learns from no document and has one regression
- equal_votes: ours, with documents that vote like examples as neighbors
- probe; self_training at several thresholds, with the regularization of the probe

Records are lines of many_classes.jsonl in --output; finished ones are kept.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from unittest import mock

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.semi_supervised import SelfTrainingClassifier

from benchmarks.inputs import default_model
from benchmarks.quality.few_labels.embedder import Embedder
from benchmarks.quality.few_labels.protocol import FewLabels, draw, load_few_labels, rest, scores
from benchmarks.quality.few_labels.records import KEY, add_record, read_records
from benchmarks.quality.few_labels.systems import logistic_regression, ours
from docsplit_hf.fitting.ensemble import fit_experts as fitting
from docsplit_hf.fitting.ensemble.held_out_scores import Voters
from docsplit_hf.fitting.experts.expert import Expert
from docsplit_hf.fitting.experts.vector_experts import HeadOrProbe
from docsplit_hf.training.markdown import table

RESULTS = Path(__file__).parents[2] / "docs" / "results" / "few_labels"
ENCODER = "all-MiniLM-L6-v2 int8"
OURS = ("ours", "ours_without_documents", "one_probe", "equal_votes")
THRESHOLDS = (0.6, 0.75, 0.9)
RIVALS = ("probe", *(f"self_training {threshold}" for threshold in THRESHOLDS))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--tasks", nargs="*", default=[], help="Folders. None: print the report of the records.")
    add("--systems", nargs="+", default=[*OURS, *RIVALS], help="Default: %(default)s.")
    add("--per_label", type=int, nargs="+", default=[5, 20], help="Examples of a class. Default: %(default)s.")
    add("--draws", type=int, default=1, help="Default: %(default)s.")
    add("--embeddings", default="output/embeddings", help="Where they are kept. Default: %(default)s.")
    add("--output", type=Path, default=RESULTS, help="Folder for the records. Default: %(default)s.")
    options = parser.parse_args()
    path = options.output / "many_classes.jsonl"
    for folder in options.tasks:
        task = load_few_labels(folder)
        embedder = Embedder(default_model(), task, options.embeddings, precision="int8")
        for per_label in options.per_label:
            for number in range(options.draws):
                measure(path, task, embedder, per_label, number, options.systems)
    print(report(path))


def measure(
    path: Path, task: FewLabels, embedder: Embedder, per_label: int, number: int, systems: Sequence[str]
) -> None:
    """Add the records of a draw that are missing."""
    known = {tuple(record[name] for name in KEY) for record in read_records(path)}
    rows = draw(task.pool_labels, per_label, number)
    chosen = None
    for system in systems:
        values = (task.name, system, ENCODER, per_label, number)
        if values in known:
            continue
        seconds = None
        if system in OURS:
            with changed(system):
                answer = ours(task, rows, embedder, seed=1, documents=system != "ours_without_documents", fit=True)
            probabilities = answer.probabilities
            seconds = answer.fit_cpu_seconds
        else:
            if chosen is None:
                examples = embedder.embed([task.pool[row] for row in rows])
                chosen = logistic_regression(examples, task.pool_labels[rows], seed=number)
            probabilities = rival(system, chosen, task, rows, embedder)
        sizes = {"examples": len(rows), "documents": len(task.pool) - len(rows), "classes": len(task.names)}
        found = scores(probabilities, task.test_labels)
        add_record(path, dict(zip(KEY, values, strict=True)) | sizes | found | {"fit_cpu_seconds": seconds})


def rival(system: str, chosen: LogisticRegression, task: FewLabels, rows: np.ndarray, embedder: Embedder) -> np.ndarray:
    """Probabilities (N, C) of the test texts by the probe, or by self-training with it."""
    test = embedder.embed(task.test)
    if system == "probe":
        return chosen.predict_proba(test)
    others = rest(len(task.pool), rows)
    pool = embedder.embed([task.pool[row] for row in [*rows, *others]])
    labels = np.concatenate([task.pool_labels[rows], np.full(len(others), -1)])
    threshold = float(system.removeprefix("self_training "))
    return SelfTrainingClassifier(chosen, threshold=threshold).fit(pool, labels).predict_proba(test)


@contextmanager
def changed(system: str) -> Iterator[None]:
    """Undo a change of the ensemble for the duration of the block."""
    with one_probe() if system == "one_probe" else nullcontext():
        with equal_votes() if system == "equal_votes" else nullcontext():
            yield


@contextmanager
def one_probe() -> Iterator[None]:
    """Leave out the regression that learns from documents."""
    with mock.patch.object(HeadOrProbe, "learn_from_posterior", Expert.learn_from_posterior):
        yield


@contextmanager
def equal_votes() -> Iterator[None]:
    """Let documents vote like examples."""
    ensemble = fitting.Ensemble

    def with_equal_votes(**fields: object) -> fitting.Ensemble:
        return ensemble(**(fields | {"document_vote": 1.0}))

    with (
        mock.patch.object(fitting, "Ensemble", with_equal_votes),
        mock.patch.object(Voters, "votes", lambda voters, rows, text_weights: voters.weights[rows]),
    ):
        yield


def report(path: Path) -> str:
    """Make a table of macro F1 (%), the mean of the draws."""
    records = read_records(path)
    systems = [system for system in ("before", *OURS, *RIVALS) if any(record["system"] == system for record in records)]
    lines = []
    for task, per_label in dict.fromkeys((record["task"], record["per_label"]) for record in records):
        own = [record for record in records if (record["task"], record["per_label"]) == (task, per_label)]
        shown = []
        for system in systems:
            found = [record["macro_f1"] for record in own if record["system"] == system]
            shown.append(f"{100 * np.mean(found):.1f}" if found else "")
        lines.append((task, str(own[0]["classes"]), str(own[0]["documents"]), str(per_label), *shown))
    return table(("task", "classes", "documents", "labels of each class", *systems), lines)


if __name__ == "__main__":
    main()
