"""The papers' experiments on their tasks, or on your own files and folders.

The papers' tasks, from the Hub or from folders:

    python -m experiments --models output/pretrain google-bert/bert-base-uncased tfidf \\
        --tasks 20News BBCNews AAN --task_folders AAN=data/aan --protocol full few_shot citation

With the papers' probe, examples per class, repeats and texts:

    python -m experiments --preset papers --models output/pretrain --tasks 20News --task_folders 20News=data

Measurements that are in results.json are not repeated: run the same command again to continue a stopped run.
"""

import sys
from pathlib import Path
from typing import Any

from transformers import HfArgumentParser

from docsplit_hf.apps.cli.run_command import parse_arguments, run_script

from .evaluation.command import WHEN_STOPPED, check, evaluate, load_systems, load_tasks
from .evaluation.results import Record, ResultStore, summarize_records
from .evaluation.tasks import EvaluationTask
from .papers import PROTOCOLS, run_papers
from .papers_arguments import MAIN_OPTIONS, PaperArguments
from .papers_options import PAPERS, PaperSettings
from .report.figures import save_figures
from .report.paper_figures import FIGURES
from .report.paper_report import main_table, results_markdown
from .systems import ALL_SYSTEMS_WITHOUT_ENCODER, with_passages
from .tasks.load_paper_task import load_paper_task


def main() -> None:
    parser = HfArgumentParser((PaperArguments, PaperSettings), description=__doc__.split("\n")[0])
    arguments, settings = parse_arguments(parser, main=MAIN_OPTIONS)
    if arguments.preset == "papers":
        parser.set_defaults(**PAPERS)
        arguments, settings = parser.parse_args_into_dataclasses()
    check(parser, arguments, PROTOCOLS)
    folders = {name: arguments.folder_of(name) for name in arguments.tasks}

    def load_task(name: str, **options: Any) -> EvaluationTask:
        return load_paper_task(name, folders[name], **options)

    def report(records: list[Record], store: ResultStore, command: str, left_out: list[str]) -> tuple[str, str]:
        figures = []
        if arguments.figures:
            figures = save_figures(summarize_records(records), settings, Path(arguments.output_dir), FIGURES)
        text = results_markdown(
            records,
            store.runs,
            store.tasks,
            settings,
            command,
            left_out,
            figures,
            preset=arguments.preset_line(settings),
        )
        return text, main_table(records, store.tasks, settings)

    tasks = load_tasks(
        load_task,
        arguments.tasks,
        max_train_examples=settings.max_train_examples,
        max_test_examples=settings.max_test_examples,
        seed=settings.seed,
        newsgroups=settings.newsgroups,
        **arguments.file_options(),
    )
    systems = load_systems(arguments, settings.max_length, ALL_SYSTEMS_WITHOUT_ENCODER)
    evaluate(
        arguments,
        settings,
        tasks,
        systems={name: with_passages(system) for name, system in systems.items()},
        command=["-m", "experiments", *sys.argv[1:]],
        measure=run_papers,
        report=report,
    )


if __name__ == "__main__":
    run_script(main, WHEN_STOPPED)
