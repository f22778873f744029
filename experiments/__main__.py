"""The papers' experiments on their tasks, or on files and folders of one's own.

The papers' tasks, from the Hub or from folders:

    python -m experiments --models output/pretrain google-bert/bert-base-uncased tfidf \\
        --tasks 20News BBCNews AAN --task_folders AAN=data/aan --protocol full few_shot citation

As the papers did it, with their probe, examples per class, repeats and texts:

    python -m experiments --preset papers --models output/pretrain --tasks 20News --task_folders 20News=data

The same command again computes nothing that is in results.json: a run that was stopped goes on where it was.
"""

import sys
from functools import partial
from pathlib import Path

from transformers import HfArgumentParser

from docsplit_hf.training.command_line import parse_arguments, run_script

sys.path.append(str(Path(__file__).parents[1] / "examples"))  # scripts import the modules beside them

from run_evaluation import WHEN_STOPPED, check, evaluate, load_systems, load_tasks

from .papers import PROTOCOLS, run_papers
from .papers_arguments import MAIN_OPTIONS, PaperArguments
from .papers_options import PAPERS, PaperSettings
from .report.paper_figures import FIGURES
from .report.paper_report import main_table, results_markdown
from .systems import ALL_WORD_COUNTS, with_passages
from .tasks.load_paper_task import load_paper_task


def main() -> None:
    parser = HfArgumentParser((PaperArguments, PaperSettings), description=__doc__.split("\n")[0])
    arguments, settings = parse_arguments(parser, main=MAIN_OPTIONS)
    if arguments.preset == "papers":
        parser.set_defaults(**PAPERS)
        arguments, settings = parser.parse_args_into_dataclasses()
    check(parser, arguments, PROTOCOLS)
    options = {name: getattr(settings, name) for name in ("max_train_examples", "max_test_examples", "seed")}
    options |= {"newsgroups": settings.newsgroups, **arguments.file_options()}
    folders = {name: arguments.folder_of(name) for name in arguments.tasks}
    tasks = load_tasks(lambda name, **own: load_paper_task(name, folders[name], **own), arguments.tasks, **options)
    systems = load_systems(arguments, settings.max_length, ALL_WORD_COUNTS)
    systems = {name: with_passages(system) for name, system in systems.items()}
    report = partial(results_markdown, preset=arguments.preset_line(settings))
    command = ["-m", "experiments", *sys.argv[1:]]
    evaluate(arguments, settings, tasks, systems, command, run_papers, report, main_table, FIGURES)


if __name__ == "__main__":
    run_script(main, WHEN_STOPPED)
