"""Is an encoder worth it on your documents? Encoders and word counts on equal terms: tables, figures, every number.

A file with a column of texts and a column of labels, and any checkpoints:

    docsplit evaluate --models output/pretrain sentence-transformers/all-MiniLM-L6-v2 tfidf \
        --tasks my.csv --protocol full few_shot curve half_documents --output_dir output/mine

To try it: the documentation of installed packages, by package; needs no network.

    docsplit evaluate --models output/pretrain tfidf --tasks documentation

The same command again computes nothing that is in results.json: a run that was stopped goes on where it was. The
papers' tasks and protocols are experiments of the repository: python -m experiments --help
"""

import json
import logging
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from evaluation_arguments import MAIN_OPTIONS, EvaluationArguments
from transformers import HfArgumentParser

from docsplit_hf.encoders.checkpoints.inside_folder import write_file
from docsplit_hf.evaluation.experiment import EvaluationSettings, check_protocols
from docsplit_hf.evaluation.figures import FIGURES, Draw, save_figures
from docsplit_hf.evaluation.markdown_report import main_table, results_markdown
from docsplit_hf.evaluation.results import ResultStore, describe_run, summarize_records
from docsplit_hf.evaluation.runner import PROTOCOLS, run_protocols, short_names
from docsplit_hf.evaluation.systems import WORD_COUNTS, EncoderSystem, System, load_system
from docsplit_hf.evaluation.tasks import EvaluationTask, load_evaluation_task
from docsplit_hf.extras import install_line, is_installed
from docsplit_hf.training.command_line import parse_arguments, run_script

CLASSIFYING = {"full", "few_shot", "curve"}
WHEN_STOPPED = "What was measured is kept: the same command again goes on where it was."
WHY_WORD_COUNTS_WIN = (
    "Why word counts win here: they read documents whole, of which encoders read {max_length} tokens; and with all "
    "examples to learn from, many classes are known by words of their own, as a package is by its names. Encoders can "
    "know words that are not in the examples, which counts where those are few: compare few_shot and curve."
)


def word_counts_win(records: Sequence[Mapping[str, Any]], names: set[str]) -> bool:
    """Whether word counts, the systems of these names, are the most accurate on all examples of a task."""
    frame = summarize_records(record for record in records if record["protocol"] == "full")
    best = frame[frame["metric"] == "accuracy"].sort_values("mean").groupby("task")["system"].last()
    return bool(best.isin(names).any())


def load_tasks(load: Callable[..., EvaluationTask], names: Sequence[Any], **options: Any) -> list[EvaluationTask]:
    """The tasks, of which no two have one name."""
    tasks = []
    for name in names:
        task = load(name, **options)
        if task.name in (other.name for other in tasks):
            raise ValueError(f"Two tasks are called {task.name!r}: rename a file, since the tables go by the name.")
        tasks.append(task)
    return tasks


def load_systems(
    arguments: EvaluationArguments, max_length: int, word_counts: Mapping[str, Any] = WORD_COUNTS
) -> dict[str, System]:
    """The systems by what names them, under short names."""
    cache = arguments.cache_dir or Path(arguments.output_dir) / "embeddings"
    systems, names = {}, arguments.models
    if not any(name.startswith("tfidf") for name in names) and CLASSIFYING & set(arguments.protocol):
        names = [*names, "tfidf#name=word counts"]
    for name, short in zip(names, short_names(names), strict=True):
        strategies = arguments.long_documents
        system = load_system(name, cache, max_length, arguments.bf16, strategies[0], word_counts)
        system.name = short
        several = system.reading(strategies) if len(strategies) > 1 and isinstance(system, EncoderSystem) else [system]
        systems |= {f"{name}#name={system.name}": system for system in several}
    return systems


def check(parser: HfArgumentParser, arguments: EvaluationArguments, protocols: Mapping[str, Any]) -> None:
    """Refuse what cannot work before anything is loaded."""
    if not arguments.models:
        parser.error("--models must be given: tfidf, docsplit-small-en, a folder with a checkpoint, a model on the Hub")
    if not arguments.tasks:
        parser.error("--tasks must be given: files and folders of your own, or documentation")
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    check_protocols(arguments.protocol, protocols)
    if arguments.figures and not is_installed("evaluation"):
        arguments.figures = False
        print(f"No figures are drawn, as matplotlib is not installed: {install_line('evaluation')}.")


def evaluate(
    arguments: EvaluationArguments,
    settings: EvaluationSettings,
    tasks: Sequence[EvaluationTask],
    systems: Mapping[str, System],
    command: Sequence[str],
    measure: Callable[..., tuple[list[dict[str, Any]], list[str]]] = run_protocols,
    report: Callable[..., str] = results_markdown,
    first_table: Callable[..., str] = main_table,
    figures: Mapping[str, Draw] = FIGURES,
) -> dict[str, Any]:
    """Measure what is not measured yet, write the report, and show the last screen; the figures for ``--json``."""
    folder = Path(arguments.output_dir)
    run = describe_run(command)
    store = ResultStore(folder, run)
    before, start = len(store.records), time.monotonic()
    records, left_out = measure(systems, tasks, arguments.protocol, settings, store)
    if not records:
        raise ValueError("Nothing was measured: " + " ".join(left_out))
    drawn = save_figures(summarize_records(records), settings, folder, figures) if arguments.figures else []
    text = report(records, store.runs, store.tasks, settings, run["command"], left_out, drawn)
    write_file(folder / "results.md", text)
    print(f"\n{first_table(records, settings)}\n")
    word_counts = {system.name for system in systems.values() if not isinstance(system, EncoderSystem)}
    if 0 < len(word_counts) < len(systems) and word_counts_win(records, word_counts):
        print(f"{WHY_WORD_COUNTS_WIN.format(max_length=settings.max_length)}\n")
    for line in left_out:
        print(f"Left out: {line}")
    minutes, seconds = divmod(round(time.monotonic() - start), 60)
    new = len(store.records) - before
    print(f"{len(records):,} records, {new:,} of them measured now in {minutes} min {seconds} s.")
    print(f"All tables and figures: {folder / 'results.md'}")
    print(f"Every number, with its seed and settings: {store.path}")
    summary = json.loads(summarize_records(records).to_json(orient="records"))
    return {"output_dir": arguments.output_dir, "summary": summary, "left_out": left_out}


def main() -> dict[str, Any]:
    parser = HfArgumentParser((EvaluationArguments, EvaluationSettings), description=__doc__.split("\n")[0])
    arguments, settings = parse_arguments(parser, main=MAIN_OPTIONS)
    check(parser, arguments, PROTOCOLS)
    limits = {name: getattr(settings, name) for name in ("max_train_examples", "max_test_examples", "seed")}
    tasks = load_tasks(load_evaluation_task, arguments.tasks, **limits, **arguments.file_options())
    return evaluate(arguments, settings, tasks, load_systems(arguments, settings.max_length), sys.argv)


if __name__ == "__main__":
    run_script(main, WHEN_STOPPED)
