"""Evaluate encoders and word counts by the papers' experiments, on equal terms: tables, figures, and every number.

To try it: the documentation of installed packages, by package; needs no network.

    python examples/run_evaluation.py --models output/pretrain tfidf --tasks documentation

Is DocSplit worth it on your documents? A file with a column of texts and a column of labels, and any checkpoints:

    python examples/run_evaluation.py --models output/pretrain sentence-transformers/all-MiniLM-L6-v2 tfidf \
        --tasks my.csv --protocol full few_shot curve half_documents --output_dir output/mine

The papers' tasks, from the Hub or from folders:

    python examples/run_evaluation.py --models output/pretrain google-bert/bert-base-uncased tfidf \
        --tasks 20News BBCNews AAN --task_folders AAN=data/aan --protocol full few_shot citation

As the papers did it, with their probe, examples per class, repeats and texts:

    python examples/run_evaluation.py --preset papers --models output/pretrain --tasks 20News --task_folders 20News=data

The same command again computes nothing that is in results.json: a run that was stopped goes on where it was.
"""

import logging
import sys
import time
from pathlib import Path

from evaluation_arguments import MAIN_OPTIONS, EvaluationArguments
from transformers import HfArgumentParser

from docsplit_hf.experiments.protocols.registry import check_protocols
from docsplit_hf.experiments.protocols.settings import PAPERS, EvaluationSettings
from docsplit_hf.experiments.records.provenance import describe_run
from docsplit_hf.experiments.records.results import ResultStore
from docsplit_hf.experiments.records.runner import run_protocols, short_names
from docsplit_hf.experiments.report.figures import DRAWN, save_figures
from docsplit_hf.experiments.report.markdown_report import main_table, results_markdown
from docsplit_hf.experiments.report.panels import check_matplotlib
from docsplit_hf.experiments.report.summary import summarize_records
from docsplit_hf.experiments.systems.load_system import WORD_COUNTS, EncoderSystem, load_system
from docsplit_hf.experiments.tasks.load_evaluation_task import load_evaluation_task
from docsplit_hf.training.command_line import parse_arguments, run_script

CLASSIFYING = {"full", "few_shot", "curve", "knn"}
WHY_WORD_COUNTS_WIN = (
    "Why word counts win here: they read documents whole, of which encoders read {max_length} tokens; and with all "
    "examples to learn from, many classes are known by words of their own, as a package is by its names. Encoders can "
    "know words that are not in the examples, which counts where those are few: compare few_shot and curve."
)


def word_counts_win(cells, names: set[str]) -> bool:
    """Whether word counts, the systems of these names, are the most accurate on all examples of a task."""
    best = {}
    for cell in (cell for cell in cells if cell.protocol == "full" and "accuracy" in cell.metrics):
        best[cell.task] = max(best.get(cell.task, (0.0, "")), (cell.metrics["accuracy"].mean, cell.system))
    return any(system in names for _, system in best.values())


def load_tasks(arguments: EvaluationArguments, settings: EvaluationSettings):
    """The tasks, of which no two have one name."""
    limits = settings.max_train_examples, settings.max_test_examples
    files = {name: getattr(arguments, name) for name in ("text_column", "label_column", "csv_separator", "encoding")}
    options = files | {"seed": settings.seed, "newsgroups": settings.newsgroups}
    tasks = []
    for name in arguments.tasks:
        task = load_evaluation_task(name, arguments.folder_of(name), *limits, **options)
        if task.name in (other.name for other in tasks):
            raise ValueError(f"Two tasks are called {task.name!r}: rename a file, since the tables go by the name.")
        tasks.append(task)
    return tasks


def load_systems(arguments: EvaluationArguments, settings: EvaluationSettings):
    """The systems by what names them, under short names."""
    cache = arguments.cache_dir or Path(arguments.output_dir) / "embeddings"
    systems, names = {}, arguments.models
    if not any(name.startswith("tfidf") for name in names) and CLASSIFYING & set(arguments.protocol):
        names = [*names, "tfidf#name=word counts"]
    for name, short in zip(names, short_names(names), strict=True):
        strategies = arguments.long_documents
        system = load_system(name, cache, settings.max_length, arguments.bf16, strategies[0])
        system.name = short
        several = system.reading(strategies) if len(strategies) > 1 and isinstance(system, EncoderSystem) else [system]
        systems |= {f"{name}#name={system.name}": system for system in several}
    return systems


def main() -> None:
    parser = HfArgumentParser((EvaluationArguments, EvaluationSettings), description=__doc__.split("\n")[0])
    arguments, settings = parse_arguments(parser, main=MAIN_OPTIONS)
    if arguments.preset == "papers":
        parser.set_defaults(**PAPERS)
        arguments, settings = parser.parse_args_into_dataclasses()
    if not arguments.models:
        parser.error("--models must be given: tfidf, docsplit-small-en, a folder with a checkpoint, a model on the Hub")
    if not arguments.tasks:
        parser.error("--tasks must be given: files and folders of your own, names of the papers' tasks, documentation")
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    check_protocols(arguments.protocol)
    if arguments.figures and set(arguments.protocol) & set(DRAWN):
        check_matplotlib()
    folder = Path(arguments.output_dir)
    run = describe_run(sys.argv)
    store = ResultStore(folder, run)
    tasks, systems = load_tasks(arguments, settings), load_systems(arguments, settings)
    before, start = len(store.records), time.monotonic()
    records, left_out = run_protocols(systems, tasks, arguments.protocol, settings, store)
    if not records:
        raise ValueError("Nothing was measured: " + " ".join(left_out))
    cells = summarize_records(records)
    figures = save_figures(cells, settings, folder) if arguments.figures else []
    preset = arguments.preset_line(settings)
    report = results_markdown(records, store.runs, store.tasks, settings, run["command"], left_out, figures, preset)
    (folder / "results.md").write_text(report, encoding="utf-8")
    new = len(store.records) - before
    print(f"\n{main_table(records, settings)}\n")
    word_counts = {system.name for system in systems.values() if type(system) in WORD_COUNTS.values()}
    if 0 < len(word_counts) < len(systems) and word_counts_win(cells, word_counts):
        print(f"{WHY_WORD_COUNTS_WIN.format(max_length=settings.max_length)}\n")
    seconds = round(time.monotonic() - start)
    took = f"in {seconds // 60} min {seconds % 60} s"
    for line in left_out:
        print(f"Left out: {line}")
    print(f"{len(records):,} records, {new:,} of them measured now {took}.")
    print(f"All tables and figures: {folder / 'results.md'}")
    print(f"Every number, with its seed and settings: {store.path}")


if __name__ == "__main__":
    run_script(main, "What was measured is kept: the same command again goes on where it was.")
