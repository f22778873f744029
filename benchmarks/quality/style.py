"""Macro F1 with and without the expert on how texts are written, on data sets of benchmarks.quality.sets.

    OMP_NUM_THREADS=1 python -m benchmarks.quality.style --tasks SETS/asset SETS/snips

The pool is 400 texts, of which 5 or 20 of each class are labeled; the others are documents; one draw. Records are lines
of style.jsonl in --output; finished ones are kept. style_topics.jsonl: --test_texts 1000 --systems ours
ours_without_style, on labels that are topics.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from unittest import mock

import numpy as np

from benchmarks.quality.few_labels.embedder import Embedder
from benchmarks.quality.few_labels.options import encoder_name
from benchmarks.quality.few_labels.protocol import FewLabels, draw, load_few_labels, rest, scores
from benchmarks.quality.few_labels.records import KEY, add_record, read_records
from benchmarks.quality.few_labels.systems import probe, tfidf
from benchmarks.quality.learned_prior import collect
from docsplit_hf.encoding.checkpoints.checkpoint import DEFAULT_FOLDER
from docsplit_hf.fitting.experts.registry import EXPERTS
from docsplit_hf.training.markdown import table

RESULTS = Path(__file__).parents[2] / "docs" / "results" / "few_labels"
POOL = 400
PER_LABEL = (5, 20)
WITHOUT = [name for name, expert in EXPERTS.items() if not (expert.reads_style or expert.needs_teacher)]
EXPERTS_OF_SYSTEM = {"ours": None, "ours_without_style": WITHOUT, "style": ["style"]}
SYSTEMS = (*EXPERTS_OF_SYSTEM, "probe", "tfidf")
METRICS = ("macro_f1", "expected_calibration_error", "log_loss")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--tasks", nargs="*", default=[], help="Folders with train.jsonl and test.jsonl.")
    add("--encoder", help="Any encoder. Default: the one that ships.")
    add("--embeddings", default="output/embeddings", help="Where they are kept. Default: %(default)s.")
    add("--systems", nargs="+", default=SYSTEMS, help="Default: %(default)s.")
    add("--test_texts", type=int, default=300, help="Default: %(default)s.")
    add("--records", default="style.jsonl", help="Name of the file. Default: %(default)s.")
    add("--output", type=Path, default=RESULTS, help="Folder for the records. Default: %(default)s.")
    options = parser.parse_args()
    path = options.output / options.records
    encoder = options.encoder or str(DEFAULT_FOLDER)
    for folder in options.tasks:
        with mock.patch.multiple(collect, POOL_SIZE=POOL, TEST_SIZE=options.test_texts):
            task = collect.shorten(load_few_labels(folder))
        embedder = Embedder(encoder, task, options.embeddings)
        known = {tuple(record[name] for name in KEY) for record in read_records(path)}
        for count in PER_LABEL:
            rows = draw(task.pool_labels, count, 0)
            for system in options.systems:
                values = (task.name, system, encoder_name(encoder), count, 0)
                key = dict(zip(KEY, values, strict=True))
                if tuple(key.values()) not in known:
                    add_record(path, key | answer(system, task, rows, embedder))
    report(path)


def answer(system: str, task: FewLabels, rows: np.ndarray, embedder: Embedder) -> dict[str, float]:
    """Fit a system on the examples at ``rows``, and measure its answers to the test texts."""
    if system == "probe":
        return scores(probe(task, rows, embedder, 1).probabilities, task.test_labels)
    if system == "tfidf":
        return scores(tfidf(task, rows, embedder, 1).probabilities, task.test_labels)
    pipe = embedder.pipeline()
    others = rest(len(task.pool), rows)
    with embedder.remembered():
        pipe.add_examples([task.pool[row] for row in rows], [task.names[i] for i in task.pool_labels[rows]])
        if len(others):
            pipe.add_documents([task.pool[row] for row in others])
        pipe.fit(experts=EXPERTS_OF_SYSTEM[system], show_progress=False)
        answers = pipe(task.test, top_k=None)
    by_label = [{one["label"]: one["score"] for one in given} for given in answers]
    return scores(np.array([[given[name] for name in task.names] for given in by_label]), task.test_labels)


def report(path: Path) -> None:
    """Print macro F1, calibration error and log loss of each set."""
    records = {tuple(record[name] for name in KEY): record for record in read_records(path)}
    lines = []
    for name, encoder, count in dict.fromkeys((key[0], key[2], key[3]) for key in records):
        found = [records.get((name, system, encoder, count, 0)) for system in SYSTEMS]
        cells = ["" if one is None else " / ".join(f"{one[metric]:.3f}" for metric in METRICS) for one in found]
        lines.append((name, str(count), *cells))
    print(table(("task", "labels of each class", *SYSTEMS), lines))


if __name__ == "__main__":
    main()
