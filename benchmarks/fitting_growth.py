"""How the cost of fit() grows with the documents without labels: seconds, and memory at its peak.

    OMP_NUM_THREADS=1 python benchmarks/fitting_growth.py

A hundred examples of ten labels, and 1,000 up to 100,000 documents, all of about 200 words. Words are drawn from a
vocabulary of 100,000 by Zipf's law, a third of them from the label's own part of it. The embeddings, of 384 dimensions,
lie around the center of their label, spread over 32 dimensions. Nothing is downloaded, and nothing is embedded.

Each number of documents has a process of its own. What is drawn are the seconds of all cores together: with one thread
they are the same on a busy machine, where two threads would wait for each other. "memory" is what fit() takes at its
peak beyond what the process held before, which is the datastore and what was imported.
"""

import argparse
import json
import multiprocessing
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib import pyplot

from docsplit_hf import KNNDatastore
from docsplit_hf.metrics.registry import metric_class
from docsplit_hf.neighbors.experts.fit_experts import fit_experts
from docsplit_hf.training.markdown import table

PICTURE = Path(__file__).parents[1] / "docs" / "pictures" / "fitting_growth.png"
LABELS, EXAMPLES, DIMENSION, LATENT, WORDS, VOCABULARY, OWN_WORDS = 10, 100, 384, 32, 200, 100_000, 2_000
TARGETS = {10_000: 10, 100_000: 60}  # seconds
BLUE = "#0072B2"


class Cost(NamedTuple):
    """What fit() took."""

    documents: int
    seconds: float
    processor: float  # seconds of all cores: what counts where others run too
    memory: float  # MiB
    accuracy: float  # of the mixture by folds: something was learned


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    sizes = [1_000, 3_000, 10_000, 30_000, 100_000]
    add("--documents", type=int, nargs="+", default=sizes, help="How many, one after the other. Default: %(default)s.")
    add("--output", type=Path, default=PICTURE, help="The picture. Default: docs/pictures/fitting_growth.png.")
    add("--record", type=Path, help="A JSONL file, a line for each number of documents.")
    options = parser.parse_args()
    costs = []
    for documents in options.documents:
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
            costs.append(process.submit(measure, documents).result())
        print(costs[-1], flush=True)
    columns = ("documents", "seconds", "of all cores", "memory, MiB", "accuracy by folds")
    print(table(columns, [(f"{c[0]:,}", f"{c[1]:.1f}", f"{c[2]:.1f}", f"{c[3]:,.0f}", f"{c[4]:.0%}") for c in costs]))
    if options.record is not None:
        options.record.write_text("".join(json.dumps(cost._asdict()) + "\n" for cost in costs), encoding="utf-8")
    if len(costs) > 1:
        draw(costs, options.output)


def measure(documents: int) -> Cost:
    """Fit on a datastore, in a process of its own."""
    datastore = make_datastore(documents)
    metric_class("accuracy")  # which imports evaluate, as the pipeline does

    before, start, used = peak(), time.perf_counter(), time.process_time()
    fitted = fit_experts(datastore.snapshot, show_progress=False)
    datastore.fitted = fitted.to_state()
    seconds, used = time.perf_counter() - start, time.process_time() - used
    mixture = next(record for record in fitted.settings["measured"] if record["expert"] == "mixture")
    return Cost(documents, seconds, used, peak() - before, mixture["accuracy"])


def peak() -> float:
    """The most memory that the process has had, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def make_datastore(documents: int, labeled: bool = False) -> KNNDatastore:
    """Examples and documents of ten labels, or only examples; the first are the same, however many there are."""
    rng = np.random.default_rng(0)
    centers = rng.standard_normal((LABELS, LATENT)) * 0.5
    projection = rng.standard_normal((LATENT, DIMENSION))
    frequency = 1 / np.arange(1, VOCABULARY + 1)
    common, own = (np.cumsum(f / f.sum()) for f in (frequency, frequency[:OWN_WORDS]))
    terms = np.array([f"w{number:x}" for number in range(VOCABULARY)], dtype=object)

    def make(count: int, labels: np.ndarray) -> tuple[np.ndarray, list[str]]:
        keys = (centers[labels] + rng.standard_normal((count, LATENT))) @ projection
        keys += rng.standard_normal((count, DIMENSION))
        texts = []
        for label in labels:
            length = max(int(rng.normal(WORDS, WORDS / 5)), 5)
            ranks = np.searchsorted(common, rng.random(length)).clip(0, VOCABULARY - 1)
            mine = rng.random(length) < 1 / 3
            of_label = np.searchsorted(own, rng.random(int(mine.sum()))).clip(0, OWN_WORDS - 1)
            ranks[mine] = VOCABULARY - 1 - label * OWN_WORDS - of_label
            texts.append(" ".join(terms[ranks]))
        return (keys / np.linalg.norm(keys, axis=1, keepdims=True)).astype(np.float32), texts

    numbers = np.arange(EXAMPLES) % LABELS
    keys, texts = make(EXAMPLES, numbers)
    datastore = KNNDatastore(keys, numbers, [f"label {i}" for i in range(LABELS)], texts)
    for start in range(0, documents, 10_000):
        labels = rng.integers(0, LABELS, min(documents - start, 10_000))
        keys, texts = make(len(labels), labels)
        if labeled:
            datastore.add(keys, labels, texts)
        else:
            datastore.add_documents(keys, texts)
    return datastore


def draw(costs: list[Cost], path: Path) -> None:
    """Seconds and memory over the number of documents, all logarithmic, with a line of what is proportional."""
    figure, panels = pyplot.subplots(1, 2, figsize=(9, 4), layout="constrained")
    documents = np.array([cost.documents for cost in costs])
    measured = (
        ("seconds of all cores together", [c.processor for c in costs]),
        ("memory, MiB", [c.memory for c in costs]),
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
