"""How the cost of fit() grows with the unlabeled documents and with the labels: seconds, and peak memory.

    OMP_NUM_THREADS=1 python -m benchmarks.scale.fitting_growth

First a hundred examples of ten labels, and 1,000 up to 100,000 documents; then five examples of each of 8, 46 and 1,000
labels, and 2,500 documents. All texts have about 200 words. Words are drawn from a vocabulary of 100,000 by Zipf's law,
a third of them from the label's own part of it. The embeddings, of 384 dimensions, lie around the center of their
label, spread over 32 dimensions; so do those of the labels' names. Nothing is downloaded, and nothing is embedded.

Each size has a process of its own. The picture shows the seconds of all cores together for ten labels, since with one
thread they do not depend on other work on the machine. "memory" is the peak of fit() beyond the memory of the process
before it, with the datastore and the imported modules.
"""

import argparse
import json
import multiprocessing
import resource
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
from matplotlib import pyplot

from docsplit_hf import KNNDatastore
from docsplit_hf.fitting.ensemble.fit_experts import fit_experts
from docsplit_hf.fitting.ensemble.fitted_ensemble import Fit
from docsplit_hf.fitting.ensemble.problem import Problem
from docsplit_hf.metrics.registry import metric_class
from docsplit_hf.training.markdown import table

PICTURE = Path(__file__).parents[2] / "docs" / "pictures" / "fitting_growth.png"
LABELS = 10
EXAMPLES = 100
DIMENSION = 384
LATENT = 32  # dimensions of the spread around a label's center
WORDS = 200  # of a text
VOCABULARY = 100_000
OWN_WORDS = 2_000  # words of the vocabulary that belong to a label, at most
DOCUMENTS_OF_MANY_LABELS = 2_500
EXAMPLES_OF_MANY_LABELS = 5  # of each
TARGETS = {10_000: 10, 100_000: 25}  # seconds
BLUE = "#0072B2"

Result = TypeVar("Result")


class Spent(NamedTuple):
    """The cost of some work."""

    seconds: float
    processor: float  # seconds of all cores, which do not depend on other processes
    memory: float  # MiB


class Size(NamedTuple):
    """How much fit() learns from."""

    documents: int
    labels: int
    examples: int


class Space(NamedTuple):
    """Where embeddings lie."""

    centers: np.ndarray  # (C, LATENT), of the labels
    projection: np.ndarray  # (LATENT, DIMENSION)

    def embed(self, labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Embeddings of one text of each label, float32 ``(n, D)``, of norm 1."""
        keys = (self.centers[labels] + rng.standard_normal((len(labels), LATENT))) @ self.projection
        keys += rng.standard_normal((len(labels), DIMENSION))
        return (keys / np.linalg.norm(keys, axis=1, keepdims=True)).astype(np.float32)


class Cost(NamedTuple):
    """The cost of fit()."""

    documents: int
    labels: int
    examples: int
    seconds: float
    processor: float
    memory: float
    accuracy: float  # of the ensemble in cross-validation, to show that something was learned

    def cells(self) -> tuple[str, ...]:
        """A row of the table."""
        return (
            f"{self.documents:,}",
            f"{self.labels:,}",
            f"{self.examples:,}",
            f"{self.seconds:.1f}",
            f"{self.processor:.1f}",
            f"{self.memory:,.0f}",
            f"{self.accuracy:.0%}",
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    sizes = [1_000, 3_000, 10_000, 30_000, 100_000]
    add("--documents", type=int, nargs="+", default=sizes, help="How many, one after the other. Default: %(default)s.")
    of_labels = [8, 46, 1_000]
    add("--labels", type=int, nargs="*", default=of_labels, help="Then with as many labels. Default: %(default)s.")
    add("--output", type=Path, default=PICTURE, help="The picture. Default: docs/pictures/fitting_growth.png.")
    add("--record", type=Path, help="A JSONL file, a line for each size.")
    options = parser.parse_args()
    of_documents = [Size(documents, LABELS, EXAMPLES) for documents in options.documents]
    of_labels = [Size(DOCUMENTS_OF_MANY_LABELS, count, EXAMPLES_OF_MANY_LABELS * count) for count in options.labels]
    costs = []
    for size in of_documents + of_labels:
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
            costs.append(process.submit(measure, size).result())
        print(costs[-1], flush=True)
    columns = ("documents", "labels", "examples", "seconds", "of all cores", "memory, MiB", "accuracy by folds")
    print(table(columns, [cost.cells() for cost in costs]))
    if options.record is not None:
        options.record.write_text("".join(json.dumps(cost._asdict()) + "\n" for cost in costs), encoding="utf-8")
    if len(of_documents) > 1:
        draw(costs[: len(of_documents)], options.output)


def measure(size: Size) -> Cost:
    """Fit on a datastore, in a process of its own."""
    datastore = make_datastore(size.documents, labels=size.labels, examples=size.examples)
    names = make_space(size.labels, np.random.default_rng(0)).embed(np.arange(size.labels), np.random.default_rng(1))
    metric_class("accuracy")  # imports evaluate, like the pipeline

    def fit() -> Fit:
        fitted = fit_experts(Problem(datastore.snapshot, name_embeddings=names), show_progress=False)
        datastore.fitted = fitted.to_state()
        return fitted

    fitted, spent = spent_on(fit)
    accuracy = fitted.report.ensemble_accuracy().accuracy
    return Cost(*size, spent.seconds, spent.processor, spent.memory, accuracy)


def spent_on(work: Callable[[], Result]) -> tuple[Result, Spent]:
    """The result of some work, and its cost; memory counts beyond the earlier peak of the process."""
    peak_before = peak()
    start = time.perf_counter()
    processor_start = time.process_time()
    result = work()
    seconds = time.perf_counter() - start
    processor = time.process_time() - processor_start
    return result, Spent(seconds, processor, peak() - peak_before)


def peak() -> float:
    """The peak memory of this process, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def make_space(labels: int, rng: np.random.Generator) -> Space:
    """Centers of labels; the first that a generator draws."""
    centers = rng.standard_normal((labels, LATENT)) * 0.5
    return Space(centers, rng.standard_normal((LATENT, DIMENSION)))


def make_datastore(
    documents: int, labeled: bool = False, labels: int = LABELS, examples: int = EXAMPLES
) -> KNNDatastore:
    """Examples and documents of some labels, or examples only; larger stores begin with the rows of smaller ones."""
    rng = np.random.default_rng(0)
    space = make_space(labels, rng)
    own_words = min(OWN_WORDS, VOCABULARY // labels)
    frequency = 1 / np.arange(1, VOCABULARY + 1)
    common = np.cumsum(frequency / frequency.sum())
    own = np.cumsum(frequency[:own_words] / frequency[:own_words].sum())
    terms = np.array([f"w{number:x}" for number in range(VOCABULARY)], dtype=object)

    def make(numbers: np.ndarray) -> tuple[np.ndarray, list[str]]:
        keys = space.embed(numbers, rng)
        texts = []
        for label in numbers:
            length = max(int(rng.normal(WORDS, WORDS / 5)), 5)
            ranks = np.searchsorted(common, rng.random(length)).clip(0, VOCABULARY - 1)
            mine = rng.random(length) < 1 / 3
            of_label = np.searchsorted(own, rng.random(int(mine.sum()))).clip(0, own_words - 1)
            ranks[mine] = VOCABULARY - 1 - label * own_words - of_label
            texts.append(" ".join(terms[ranks]))
        return keys, texts

    numbers = np.arange(examples) % labels
    keys, texts = make(numbers)
    datastore = KNNDatastore(keys, numbers, [f"label {i}" for i in range(labels)], texts)
    for start in range(0, documents, 10_000):
        numbers = rng.integers(0, labels, min(documents - start, 10_000))
        keys, texts = make(numbers)
        if labeled:
            datastore.add(keys, numbers, texts)
        else:
            datastore.add_documents(keys, texts)
    return datastore


def draw(costs: list[Cost], path: Path) -> None:
    """Seconds and memory over the number of documents, all logarithmic, beside lines of proportional growth."""
    figure, panels = pyplot.subplots(1, 2, figsize=(9, 4), layout="constrained")
    documents = np.array([cost.documents for cost in costs])
    measured = (
        ("seconds of all cores together", [cost.processor for cost in costs]),
        ("memory, MiB", [cost.memory for cost in costs]),
    )
    for axes, (name, values) in zip(panels, measured, strict=True):
        axes.plot(documents, values, "o-", color=BLUE, label="fit()")
        axes.plot(documents, values[-1] * documents / documents[-1], ":", color="gray", label="proportional")
        axes.set(xlabel="documents without labels", ylabel=name, xscale="log", yscale="log")
        axes.grid(alpha=0.3, which="both")
    panels[0].plot(list(TARGETS), list(TARGETS.values()), "k_", markersize=14, label="target")
    for axes in panels:
        axes.legend(loc="upper left")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
