"""A teacher at fit time: macro F1 with and without the answers of a decision model that is right in a given share.

    python -m benchmarks.quality.teacher --tasks data/20news data/bbc --records output/teacher.jsonl

The teacher is a stand-in whose wrong answers are any other label; "chance" chooses any label.
0 labels: the names of the labels alone, by add_labels.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import process_time
from typing import Any
from zlib import crc32

import numpy as np

from benchmarks.quality.few_labels.embedder import Embedder
from benchmarks.quality.few_labels.options import encoder_name, task_parser
from benchmarks.quality.few_labels.protocol import FewLabels, as_one_text, draw, load_few_labels, rest, scores

CHANCE = "chance"
CONFIDENCE = 0.9  # of the chosen label, whether it is right or wrong


def main() -> None:
    """Measure all combinations that are not in the file of records."""
    parser = task_parser(__doc__)
    add = parser.add_argument
    add("--records", type=Path, required=True, help="A file of jsonl. What is in it is not measured again.")
    add("--per_label", nargs="+", type=int, default=[0, 1, 5], help="Labels per class. Default: 0 1 5.")
    add("--accuracies", nargs="+", default=["none", CHANCE, "0.7", "0.85", "0.95"], help="Of the teacher.")
    add("--draws", type=int, default=3, help="Of the examples. Default: %(default)s.")
    add("--texts", type=int, default=200, help="Texts that the teacher is asked about. Default: %(default)s.")
    add("--pool_size", type=int, default=1500, help="Documents. Default: %(default)s.")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    done = set()
    if options.records.exists():
        done = {_key(json.loads(line)) for line in options.records.read_text(encoding="utf-8").splitlines()}
    options.records.parent.mkdir(parents=True, exist_ok=True)
    for folder in options.tasks:
        task = load_few_labels(folder, options.pool_size)
        embedder = Embedder(options.encoder, task, options.embeddings, precision="int8")
        for per_label in options.per_label:
            for seed in range(options.draws if per_label else 1):
                for accuracy in options.accuracies:
                    record = {
                        "task": task.name,
                        "encoder": encoder_name(options.encoder),
                        "per_label": per_label,
                        "seed": seed,
                        "teacher": accuracy,
                        "texts": options.texts,
                    }
                    if _key(record) in done:
                        continue
                    record |= _measure(task, embedder, per_label, seed, accuracy, options.texts)
                    print(record, flush=True)
                    with open(options.records, "a", encoding="utf-8") as file:
                        file.write(json.dumps(record) + "\n")


def _key(record: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(record[name] for name in ("task", "encoder", "per_label", "seed", "teacher", "texts"))


def _measure(
    task: FewLabels, embedder: Embedder, per_label: int, seed: int, accuracy: str, texts: int
) -> dict[str, Any]:
    """Fit with or without a teacher, and measure on the test texts."""
    rows = draw(task.pool_labels, per_label, seed) if per_label else np.zeros(0, int)
    labels = [task.names[label] for label in task.pool_labels]
    truth = dict(zip(as_one_text(task.pool), labels, strict=True))
    share = 1 / len(task.names) if accuracy == CHANCE else 0.0 if accuracy == "none" else float(accuracy)
    pipe = embedder.pipeline()
    with embedder.remembered():
        if per_label:
            pipe.add_examples([task.pool[row] for row in rows], [labels[row] for row in rows])
        else:
            pipe.add_labels(dict(zip(task.names, task.descriptions, strict=True)))
        pipe.add_documents([task.pool[row] for row in rest(len(task.pool), rows)])
        start = process_time()
        report = pipe.fit(show_progress=False)
        if accuracy != "none":
            documents = pipe.suggest(min(texts, len(pipe.datastore.documents)))
            given = {one["id"]: choose(one["text"], truth, task.names, share) for one in documents}
            report = pipe.fit(show_progress=False, teacher=given)
        seconds = process_time() - start
        answers = pipe(task.test, top_k=None)
    of_text = [{one["label"]: one["score"] for one in answer} for answer in answers]
    probabilities = np.array([[scored.get(name, 0.0) for name in task.names] for scored in of_text])
    found = {name: float(value) for name, value in scores(probabilities, task.test_labels).items()}
    return found | {
        "share": report.shares.get("teacher", 0.0),
        "agreement": _agreement(pipe),
        "fit_cpu_seconds": round(seconds, 2),
    }


def choose(text: str, truth: Mapping[str, str], names: Sequence[str], accuracy: float) -> dict[str, float]:
    """Probabilities of the labels of a text, the same each time: right in the given share of the texts."""
    rng = np.random.default_rng(crc32(text.encode()))
    right = truth[text]
    others = [name for name in names if name != right]
    chosen = right if rng.random() < accuracy else others[rng.integers(len(others))]
    rest = (1 - CONFIDENCE) / (len(names) - 1)
    return {name: CONFIDENCE if name == chosen else rest for name in names}


def _agreement(pipe: Any) -> float | None:
    """Agreement of the teacher with the other experts, in standard errors above chance."""
    saved = pipe.datastore.fitted.settings.get("teacher")
    return None if saved is None else saved["agreement"]


if __name__ == "__main__":
    main()
