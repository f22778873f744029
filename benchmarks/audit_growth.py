"""How the cost of an audit grows with the examples: seconds, and memory at its peak, beside those of fit().

    OMP_NUM_THREADS=2 python benchmarks/audit_growth.py

The examples are those of fitting_growth.py, all of them with a label: about 200 words each, and embeddings of 384
dimensions. One in a hundred is added a second time, with ten of its words changed. Nothing is downloaded.

Each number of examples has a process of its own. "memory" is what an audit takes at its peak beyond what the process
held before, which is the datastore and what was fitted.
"""

import argparse
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

import numpy as np
from fitting_growth import DIMENSION, make_datastore, peak

from docsplit_hf import KNNDatastore
from docsplit_hf.neighbors.audit.examine import audit_snapshot
from docsplit_hf.neighbors.experts.fit_experts import fit_experts
from docsplit_hf.neighbors.store.snapshot import FittedState
from docsplit_hf.training.markdown import table

COPIES, CHANGED_WORDS = 0.01, 10


class Cost(NamedTuple):
    """What fit() and the audit took; the processor's seconds are those of all cores together."""

    examples: int
    fit_seconds: float
    fit_processor: float
    seconds: float
    processor: float
    memory: float  # MiB
    found: float  # the share of the copies


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sizes = [10_000, 30_000, 100_000]
    parser.add_argument("--examples", type=int, nargs="+", default=sizes, help="Default: %(default)s.")
    costs = []
    for examples in parser.parse_args().examples:
        state = in_a_process(fitted, examples)
        costs.append(in_a_process(measure, examples, *state))
        print(costs[-1], flush=True)
    columns = ("examples", "fit(), s", "of all cores", "audit, s", "of all cores", "memory, MiB", "copies found")
    rows = [(f"{c[0]:,}", *(f"{value:,.1f}" for value in c[1:5]), f"{c[5]:,.0f}", f"{c[6]:.1%}") for c in costs]
    print(table(columns, rows))


def in_a_process(function, *arguments):
    """Call a function in a process of its own, whose memory is that of this call alone."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(function, *arguments).result()


def fitted(examples: int) -> tuple[FittedState, float, float]:
    """What fit() gives for so many examples, its seconds, and those of all cores."""
    datastore = make_examples(examples)
    start, used = time.perf_counter(), time.process_time()
    state = fit_experts(datastore.snapshot, show_progress=False).to_state()
    return state, time.perf_counter() - start, time.process_time() - used


def measure(examples: int, state: FittedState, *of_fit: float) -> Cost:
    """Audit so many examples."""
    datastore = make_examples(examples)
    datastore.fitted = state
    before, start, used = peak(), time.perf_counter(), time.process_time()
    audit = audit_snapshot(datastore.snapshot, show_progress=False)
    seconds, used = time.perf_counter() - start, time.process_time() - used
    found = {row_id for group in audit.duplicates for row_id in group.ids}
    copies = [row_id for row_id in datastore.ids if row_id.startswith("copy")]
    return Cost(examples, *of_fit, seconds, used, peak() - before, float(np.mean([row in found for row in copies])))


def make_examples(count: int) -> KNNDatastore:
    """So many examples, of which one in a hundred is a copy of another with some words changed."""
    copies = round(count * COPIES)
    datastore = make_datastore(count - copies - 100, labeled=True)
    rng = np.random.default_rng(1)
    rows, texts = rng.choice(len(datastore), copies, replace=False), datastore.texts
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
