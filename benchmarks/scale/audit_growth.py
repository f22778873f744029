"""How the cost of an audit grows with the examples: seconds, and memory at its peak, beside those of fit().

    OMP_NUM_THREADS=2 python -m benchmarks.scale.audit_growth

The examples are those of fitting_growth.py, all of them with a label: about 200 words each, and embeddings of 384
dimensions. One in a hundred is added a second time, with ten of its words changed. Nothing is downloaded.

Each number of examples has a process of its own. "memory" is the peak of an audit beyond the memory of the process
before it, with the datastore and the fitted experts.
"""

import argparse
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

import numpy as np

from benchmarks.scale.fitting_growth import DIMENSION, Spent, make_datastore, spent_on
from docsplit_hf import KNNDatastore
from docsplit_hf.arrays.fitted_state import FittedState
from docsplit_hf.fitting.audit.audit_snapshot import audit_snapshot
from docsplit_hf.fitting.ensemble.fit_experts import fit_experts
from docsplit_hf.fitting.ensemble.problem import Problem
from docsplit_hf.training.markdown import table

COPIES = 0.01  # share of the examples
CHANGED_WORDS = 10


class Cost(NamedTuple):
    """The cost of fit() and of the audit; the processor's seconds are those of all cores together."""

    examples: int
    fit_seconds: float
    fit_processor: float
    seconds: float
    processor: float
    memory: float  # MiB
    found: float  # share of the copies

    def cells(self) -> tuple[str, ...]:
        """A row of the table."""
        return (
            f"{self.examples:,}",
            f"{self.fit_seconds:,.1f}",
            f"{self.fit_processor:,.1f}",
            f"{self.seconds:,.1f}",
            f"{self.processor:,.1f}",
            f"{self.memory:,.0f}",
            f"{self.found:.1%}",
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sizes = [10_000, 30_000, 100_000]
    parser.add_argument("--examples", type=int, nargs="+", default=sizes, help="Default: %(default)s.")
    costs = []
    for examples in parser.parse_args().examples:
        state, fitting = in_a_process(fitted, examples)
        costs.append(in_a_process(measure, examples, state, fitting))
        print(costs[-1], flush=True)
    columns = ("examples", "fit(), s", "of all cores", "audit, s", "of all cores", "memory, MiB", "copies found")
    print(table(columns, [cost.cells() for cost in costs]))


def in_a_process(function, *arguments):
    """Call a function in a process of its own, so that its memory is measured separately."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(function, *arguments).result()


def fitted(examples: int) -> tuple[FittedState, Spent]:
    """The fitted state of this number of examples, and the cost of fitting."""
    datastore = make_examples(examples)
    return spent_on(lambda: fit_experts(Problem(datastore.snapshot), show_progress=False).to_state())


def measure(examples: int, state: FittedState, fitting: Spent) -> Cost:
    """The cost of auditing this number of examples."""
    datastore = make_examples(examples)
    datastore.fitted = state
    audit, auditing = spent_on(lambda: audit_snapshot(datastore.snapshot, show_progress=False))
    found = {row_id for group in audit.duplicates for row_id in group.ids}
    copies = [row_id for row_id in datastore.ids if row_id.startswith("copy")]
    return Cost(
        examples=examples,
        fit_seconds=fitting.seconds,
        fit_processor=fitting.processor,
        seconds=auditing.seconds,
        processor=auditing.processor,
        memory=auditing.memory,
        found=float(np.mean([row in found for row in copies])),
    )


def make_examples(count: int) -> KNNDatastore:
    """This number of examples; one in a hundred is a copy of another with some words changed."""
    copies = round(count * COPIES)
    datastore = make_datastore(count - copies - 100, labeled=True)
    rng = np.random.default_rng(1)
    rows = rng.choice(len(datastore), copies, replace=False)
    texts = datastore.texts
    keys = datastore.keys[rows] + 0.01 * rng.standard_normal((copies, DIMENSION), dtype=np.float32)
    changed = []
    for row in rows:
        words = texts[row].split()
        start = rng.integers(max(len(words) - CHANGED_WORDS, 1))
        words[start : start + CHANGED_WORDS] = [f"new{number}" for number in rng.integers(0, 10_000, CHANGED_WORDS)]
        changed.append(" ".join(words))
    datastore.add(keys, datastore.labels[rows], changed, ids=[f"copy{row}" for row in rows])
    return datastore


if __name__ == "__main__":
    main()
