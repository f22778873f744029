"""Error of estimated class proportions, and what shifting the answers to them gains, where classes are unequal.

    OMP_NUM_THREADS=1 python -m benchmarks.quality.proportions --tasks data/snips data/dialog_acts

A task is a folder with train.jsonl and test.jsonl. The examples are balanced. The documents are a pile in which the
class of rank r has a proportion of ``r^-a``, in random order; with a = 0 they are equal. Of two or three classes, a is
doubled. Test texts are weighted to the proportions of the documents. The estimates are compared on the logits of one
fit, with its weights:

- equal: no estimate
- half_way: the likeliest proportions, moved half way to equal ones
- as_fit: the likeliest proportions, as far as held-out answers gain by them, as ``fit()`` does
- likeliest: by expectation maximization (Saerens et al. 2002), calibrated with biases (Alexandari et al. 2020)
- uncalibrated: the same with the probabilities as they are
- mean_prediction: the mean calibrated probabilities of the documents
- rlls: by the confusion of held-out examples, with a penalty (Azizzadenesheli et al. 2019)
- true: the true proportions

Records are lines of proportions.jsonl in --output; finished ones are kept.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple, TypedDict
from unittest import mock

import numpy as np
from scipy.special import softmax

from benchmarks.inputs import default_model
from benchmarks.quality.few_labels.embedder import Embedder
from benchmarks.quality.few_labels.protocol import FewLabels, as_one_text, draw, load_few_labels, rest
from benchmarks.quality.few_labels.records import add_record, read_records
from docsplit_hf import KNNDatastore
from docsplit_hf.fitting.ensemble import label_proportions, weighing
from docsplit_hf.fitting.ensemble.fit_experts import fit_experts
from docsplit_hf.fitting.ensemble.label_proportions import Proportions, calibration, proportions_of
from docsplit_hf.fitting.ensemble.problem import Problem, used_labels
from docsplit_hf.fitting.ensemble.scoring import prepare_experts, score_texts
from docsplit_hf.fitting.experts.label_names_expert import readable_names
from docsplit_hf.fitting.experts.log_linear_pool import smoothed
from docsplit_hf.training.markdown import table

RESULTS = Path(__file__).parents[2] / "docs" / "results" / "few_labels"
KEY = ("task", "per_label", "exponent", "draw")
MOST_DOCUMENTS = 1_500
FEW_CLASSES = 3  # with more, ranks alone make proportions unequal
RLLS_PENALTY = 0.3
LEAST_PROPORTION = 1e-3
ECE_BINS = 15
ESTIMATES = ("equal", "half_way", "as_fit", "likeliest", "uncalibrated", "mean_prediction", "rlls", "true")


class Pile(NamedTuple):
    """What a fit knows of a pile of documents with unequal classes, and its scores of test texts."""

    held_out: np.ndarray  # (m, C): pooled logits of held-out examples
    targets: np.ndarray  # (m, C), 0 or 1
    documents: np.ndarray  # (N, C): pooled logits of documents
    test: np.ndarray  # (M, C): pooled logits of test texts, before any shift
    test_labels: np.ndarray  # int64 (M,)
    example_counts: np.ndarray  # (C,)
    document_counts: np.ndarray  # (C,), true ones


class Measured(TypedDict):
    """Figures of one estimate, in percent."""

    error: float  # total variation distance from the true proportions of all texts, in points
    accuracy: float
    macro_f1: float
    calibration_error: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--tasks", nargs="*", default=[], help="Folders. None: print the report of the records.")
    add("--per_label", type=int, nargs="+", default=[5, 20], help="Examples of a class. Default: %(default)s.")
    add("--exponents", type=float, nargs="+", default=[0.0, 1.0], help="Of the ranks. Default: %(default)s.")
    add("--draws", type=int, default=1, help="Default: %(default)s.")
    add("--embeddings", default="output/embeddings", help="Where they are kept. Default: %(default)s.")
    add("--output", type=Path, default=RESULTS, help="Folder for the records. Default: %(default)s.")
    options = parser.parse_args()
    path = options.output / "proportions.jsonl"
    for folder in options.tasks:
        task = load_few_labels(folder)
        embedder = Embedder(default_model(), task, options.embeddings, precision="int8")
        for per_label in options.per_label:
            for exponent in options.exponents:
                for number in range(options.draws):
                    values = (task.name, per_label, exponent, number)
                    if values not in {tuple(record[name] for name in KEY) for record in read_records(path)}:
                        pile = make_pile(task, embedder, per_label, exponent, number)
                        found = None if pile is None else compare(pile)
                        add_record(path, dict(zip(KEY, values, strict=True)) | {"estimates": found})
    print(report(path))


def make_pile(task: FewLabels, embedder: Embedder, per_label: int, exponent: float, number: int) -> Pile | None:
    """Fit on a pile of documents; None if ``fit`` finds documents out of scope, and estimates nothing."""
    rows = draw(task.pool_labels, per_label, number)
    documents = unequal_rows(task, rows, exponent, number)
    texts = np.array(as_one_text(task.pool), dtype=object)
    pool = embedder.embed(task.pool)
    store = KNNDatastore(pool[rows], [task.names[i] for i in task.pool_labels[rows]], [], texts[rows])
    store.add_documents(pool[documents], texts[documents])
    inputs: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    estimate = weighing.estimate_proportions

    def remember(held_out: np.ndarray, targets: np.ndarray, logits: np.ndarray) -> Proportions:
        inputs.append((held_out, targets, logits))
        return estimate(held_out, targets, logits)

    with mock.patch.object(weighing, "estimate_proportions", remember):
        fitted = fit_experts(
            Problem(store.snapshot, name_embeddings=embedder.embed_anew(readable_names(used_labels(store.snapshot)))),
            show_progress=False,
        )
    if not inputs:
        return None
    held_out, targets, logits = inputs[0]
    store.fitted = fitted.to_state()
    scored = score_texts(prepare_experts(store.snapshot), embedder.embed(task.test), as_one_text(task.test), None)
    order = np.array([task.names.index(name) for name in fitted.ensemble.labels])
    return Pile(
        held_out=held_out,
        targets=targets,
        documents=logits,
        test=scored.weighted_logits.sum(0),
        test_labels=np.argsort(order)[task.test_labels],
        example_counts=np.bincount(task.pool_labels[rows], minlength=len(order))[order],
        document_counts=np.bincount(task.pool_labels[documents], minlength=len(order))[order],
    )


def unequal_rows(task: FewLabels, rows: np.ndarray, exponent: float, number: int) -> np.ndarray:
    """Rows of the largest pile of documents with these proportions."""
    classes = len(task.names)
    wanted = np.arange(1, classes + 1) ** -(exponent if classes > FEW_CLASSES else 2 * exponent)
    wanted = np.random.default_rng(100 + number).permutation(wanted / wanted.sum())
    rng = np.random.default_rng(number)
    free = rest(len(task.pool), rows)
    of_class = [rng.permutation(free[task.pool_labels[free] == label]) for label in range(classes)]
    size = min(MOST_DOCUMENTS, *(len(own) / share for own, share in zip(of_class, wanted, strict=True)))
    kept = [own[: round(size * share)] for own, share in zip(of_class, wanted, strict=True)]
    return np.sort(np.concatenate(kept))


def compare(pile: Pile) -> dict[str, Measured]:
    """Measure all estimates on a pile."""
    counts = pile.example_counts + pile.document_counts
    true = counts / counts.sum()
    found = {}
    for name, of_documents in estimates(pile).items():
        proportions = of_all_texts(pile, of_documents)
        if name == "half_way":
            proportions = smoothed(proportions)
        figures = shifted_figures(pile, proportions)
        found[name] = Measured(error=50 * float(np.abs(proportions - true).sum()), **figures)
    return found


def of_all_texts(pile: Pile, of_documents: np.ndarray) -> np.ndarray:
    """Proportions among examples and documents, ``(C,)``."""
    counts = of_documents * pile.document_counts.sum() + pile.example_counts
    return counts / counts.sum()


def shifted_figures(pile: Pile, proportions: np.ndarray) -> dict[str, float]:
    """Figures of the answers that are shifted to proportions among all texts."""
    examples = np.maximum(pile.example_counts / pile.example_counts.sum(), LEAST_PROPORTION)
    shift = np.log(np.maximum(proportions, LEAST_PROPORTION)) - np.log(examples)
    return weighted_figures(softmax(pile.test + shift, axis=1), pile.test_labels, pile.document_counts)


def estimates(pile: Pile) -> dict[str, np.ndarray]:
    """Proportions among the documents, ``(C,)``, by each estimate."""
    classes = pile.targets.shape[1]
    known = np.maximum(pile.targets.mean(0), 1 / (2 * len(pile.targets)))
    with mock.patch.object(label_proportions, "moved_toward_equal", lambda proportions, *_: proportions):
        found = label_proportions.estimate_proportions(pile.held_out, pile.targets, pile.documents)
    calibrate = calibration(pile.held_out, pile.targets)
    return {
        "equal": np.full(classes, 1 / classes),
        "half_way": found.likeliest,
        "as_fit": label_proportions.estimate_proportions(pile.held_out, pile.targets, pile.documents).likeliest,
        "likeliest": found.likeliest,
        "uncalibrated": proportions_of(softmax(pile.documents, axis=1), known),
        "mean_prediction": calibrate(pile.documents).mean(0),
        "rlls": regularized_by_confusion(calibrate(pile.held_out), pile.targets, calibrate(pile.documents).mean(0)),
        "true": pile.document_counts / pile.document_counts.sum(),
    }


def regularized_by_confusion(probabilities: np.ndarray, targets: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Proportions ``(C,)`` whose mean prediction by the confusion of held-out texts is nearest to ``mean`` ``(C,)``."""
    classes = len(mean)
    equal = np.full(classes, 1 / classes)
    confusion = (probabilities.T @ targets) / np.maximum(targets.sum(0), 1)
    penalized = confusion.T @ confusion + RLLS_PENALTY * np.eye(classes)
    found = equal + np.linalg.solve(penalized, confusion.T @ (mean - confusion @ equal))
    found = np.maximum(found, LEAST_PROPORTION)
    return found / found.sum()


def weighted_figures(probabilities: np.ndarray, labels: np.ndarray, counts: np.ndarray) -> dict[str, float]:
    """Accuracy, macro F1 and calibration error (%) of test texts that are weighted to the proportions of ``counts``."""
    classes = len(counts)
    weights = (counts / np.maximum(np.bincount(labels, minlength=classes), 1))[labels]
    weights = weights / weights.sum()
    answers = probabilities.argmax(1)
    is_right = answers == labels
    true_positives = np.bincount(labels, weights=weights * is_right, minlength=classes)
    both = np.bincount(answers, weights=weights, minlength=classes) + np.bincount(
        labels, weights=weights, minlength=classes
    )
    confidence = probabilities.max(1)
    bins = np.minimum((confidence * ECE_BINS).astype(int), ECE_BINS - 1)
    excess = np.bincount(bins, weights=weights * (is_right - confidence), minlength=ECE_BINS)
    return {
        "accuracy": 100 * float(weights @ is_right),
        "macro_f1": 100 * float(np.mean(2 * true_positives / np.maximum(both, 1e-12))),
        "calibration_error": 100 * float(np.abs(excess).sum()),
    }


def report(path: Path) -> str:
    """Make a table of the means, and of the largest error."""
    records = read_records(path)
    lines = []
    for per_label, exponent in sorted({(record["per_label"], record["exponent"]) for record in records}):
        own = [record for record in records if (record["per_label"], record["exponent"]) == (per_label, exponent)]
        measured = [record["estimates"] for record in own if record["estimates"] is not None]
        for name in ESTIMATES:
            figures = [found[name] for found in measured]
            shown = [f"{np.mean([one[figure] for one in figures]):.1f}" for figure in Measured.__annotations__]
            largest = f"{max(one['error'] for one in figures):.1f}"
            piles = f"{len(measured)} of {len(own)}"
            lines.append((str(per_label), f"{exponent:g}", piles, name, shown[0], largest, *shown[1:]))
    heads = ("labels of each class", "exponent", "piles", "proportions", "error", "largest error")
    return table((*heads, "accuracy", "macro F1", "calibration error"), lines)


if __name__ == "__main__":
    main()
