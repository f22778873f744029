"""Few labels per class: this package and its alternatives on the same draws.

    python -m benchmarks.quality.few_labels.run --tasks data/20news data/bbc --records output/few_labels.jsonl \\
        --systems ours ours_without_documents two_way probe tfidf setfit name_cosine --per_label 0 1 5 20 100 all
    python -m benchmarks.quality.few_labels.report --records output/few_labels.jsonl --out output/few_labels

The pool is 2,500 random documents of a task's training set. The labeled examples are drawn from it, equally many of
each class; the rest of the pool is unlabeled. SetFit needs an environment, see rivals_requirements.txt. Its options
follow its name: ``setfit#num_iterations=20``; so do other constants of the experts:
``ours#experts.SELF_TRAINING_ROUNDS=1``. Run it again to continue a stopped run: finished records are kept.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from unittest import mock

import numpy as np

from benchmarks.inputs import default_model
from benchmarks.quality.few_labels.embedder import Embedder
from benchmarks.quality.few_labels.protocol import FEWEST_DOCUMENTS, FewLabels, draw, load_few_labels, scores
from benchmarks.quality.few_labels.records import KEY, add_record, read_records
from benchmarks.quality.few_labels.rivals import RIVALS, run_rival
from benchmarks.quality.few_labels.systems import SYSTEMS, WITHOUT_LABELS
from docsplit_hf.encoding.backends.endpoint_classifier import split_name


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--tasks", nargs="+", required=True, help="Folders of jsonl with train and test, or the paper's tasks by name.")
    add("--systems", nargs="+", default=["two_way", "probe", "tfidf"], help="Default: %(default)s.")
    add(
        "--per_label", nargs="+", default=["1", "5", "20", "100", "all"], help="Labels per class. Default: %(default)s."
    )
    add("--draws", type=int, default=5, help="Of the examples; of 0 and all there is one. Default: %(default)s.")
    add("--encoder", help="Any encoder. Default: the installed all-MiniLM-L6-v2.")
    add("--long_documents", help="What is read of long texts. Default: as the pipeline has it.")
    add("--int8", action="store_true", help="Embed in int8 by OpenVINO: several times as fast.")
    add("--records", type=Path, required=True, help="A file of jsonl. What is in it is not measured again.")
    add("--pool_size", type=int, default=2500, help="Default: %(default)s.")
    add(
        "--fewest",
        type=int,
        default=FEWEST_DOCUMENTS,
        help="Documents of a class, or it is left out. Default: %(default)s.",
    )
    add("--embeddings", default="output/embeddings", help="Where they are kept. Default: %(default)s.")
    add("--python", default="output/rivals/bin/python", help="Of the rivals' environment. Default: %(default)s.")
    options = parser.parse_args()
    known = [*SYSTEMS, *RIVALS]
    for system in options.systems:
        name, _ = split_name(system)
        if name not in known:
            parser.error(f"There is no system {name!r}: choose of {', '.join(known)}.")
    encoder = options.encoder or default_model()
    name = Path(encoder).name if options.encoder else "all-MiniLM-L6-v2"
    if options.int8:
        name += " int8"
    if options.long_documents is not None:
        name += f" {options.long_documents}"
    done = {tuple(record[field] for field in KEY) for record in read_records(options.records)}
    for folder in options.tasks:
        wanted = [key for key in plan(options, Path(folder).name, name) if key not in done]
        if wanted:
            measure(load_few_labels(folder, options.pool_size, fewest=options.fewest), wanted, encoder, options)


def plan(options: argparse.Namespace, task: str, encoder: str) -> list[tuple]:
    """The keys of a task's records, in the order of ``KEY``; with 0 labels, only of systems that need none."""
    keys = []
    for per_label in options.per_label:
        draws = 1 if per_label in ("0", "all") else options.draws
        for number in range(draws):
            for system in options.systems:
                is_possible = system in WITHOUT_LABELS if per_label == "0" else system != "name_cosine"
                if is_possible:
                    keys.append((task, system, encoder, per_label, number))
    return keys


def pipeline_options(options: argparse.Namespace) -> dict[str, str]:
    """Options of the pipeline's embedding."""
    given = {}
    if options.long_documents is not None:
        given["long_documents"] = options.long_documents
    if options.int8:
        given["precision"] = "int8"
    return given


@contextmanager
def constants(given: dict[str, str]) -> Iterator[None]:
    """Set constants of the experts, given as ``file.NAME``, for the duration of the block."""
    with ExitStack() as stack:
        for where, value in given.items():
            file, name = where.split(".")
            module = import_module(f"docsplit_hf.fitting.ensemble.{file}")
            stack.enter_context(mock.patch.object(module, name, json.loads(value)))
        yield


def measure(task: FewLabels, wanted: list[tuple], encoder: str, options: argparse.Namespace) -> None:
    """Append a record for each key."""
    embedder = None
    for key in wanted:
        _, name, _, per_label, number = key
        rows = np.arange(len(task.pool)) if per_label == "all" else draw(task.pool_labels, int(per_label), number)
        system, given = split_name(name)
        if system in RIVALS:
            settings = {option: json.loads(value) for option, value in given.items()}
            answer = run_rival(options.python, system, settings, task, rows, encoder, number)
        else:
            embedder = embedder or Embedder(encoder, task, options.embeddings, **pipeline_options(options))
            with constants(given):
                answer = SYSTEMS[system](task, rows, embedder, number)
        metrics = scores(answer.probabilities, task.test_labels)
        fields = {name: value for name, value in vars(answer).items() if name != "probabilities"}
        record = dict(zip(KEY, key, strict=True)) | {"examples": len(rows), "classes": len(task.names)}
        add_record(options.records, record | metrics | fields)
        shown = [f"{name} {value:.4f}" for name, value in metrics.items()]
        print(*key, *shown, f"{answer.fit_seconds:.1f} s", flush=True)


if __name__ == "__main__":
    main()
