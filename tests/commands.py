"""Parse the commands in Markdown pages as the scripts do, without running them."""

import re
import shlex
from pathlib import Path
from unittest import mock

from transformers import HfArgumentParser

from docsplit_hf.apps.cli import demo, pretrain_arguments, serve
from docsplit_hf.apps.cli.audit import AuditArguments
from docsplit_hf.apps.cli.classify import AnswerArguments, PredictionArguments
from docsplit_hf.apps.cli.commands import with_options
from docsplit_hf.apps.cli.embed import EmbeddingArguments
from docsplit_hf.apps.cli.evaluate import EvaluationArguments
from docsplit_hf.apps.cli.export import ExportArguments
from docsplit_hf.apps.cli.fit_and_classify import two_commands
from docsplit_hf.apps.cli.fit_arguments import FitArguments
from docsplit_hf.apps.cli.labeled_arguments import LabeledArguments
from docsplit_hf.apps.cli.suggest import SuggestionArguments
from docsplit_hf.apps.cli.train import DataArguments, ModelArguments, RunArguments
from docsplit_hf.apps.cli.undo import UndoArguments
from docsplit_hf.apps.cli.watch import WatchArguments
from docsplit_hf.evaluation.settings import ComparisonSettings
from docsplit_hf.pretraining.objectives import OBJECTIVES
from docsplit_hf.pretraining.views import VIEWS
from experiments import papers
from experiments.baselines.objectives import register
from experiments.evaluation.experiment import check_protocols
from experiments.papers_arguments import PaperArguments
from experiments.papers_options import PaperSettings

ROOT = Path(__file__).parents[1]
OF_CLASSIFIERS = {
    "fit": (LabeledArguments, FitArguments),
    "train": (DataArguments, ModelArguments, RunArguments),
    "audit": (AuditArguments,),
    "classify": (PredictionArguments, AnswerArguments),
}
OTHERS = {
    "embed": (EmbeddingArguments,),
    "suggest": (SuggestionArguments,),
    "undo": (UndoArguments,),
    "watch": (WatchArguments,),
    "export": (ExportArguments,),
}


def blocks_in(markdown, language):
    """Return the code of all blocks in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", markdown, flags=re.DOTALL | re.MULTILINE)


def commands_in(markdown):
    """Return the commands of the bash blocks as lists of words, with joined lines and an inlined function ``run``."""
    commands = []
    for block in blocks_in(markdown, "bash"):
        text = block.replace("\\\n", " ")
        function = re.search(r'^run\(\) \{ (.*?) "\$@"; \}$', text, flags=re.MULTILINE)
        if function:
            text = text.replace(function[0], "")
            text = re.sub("^run", lambda _, body=function[1]: body, text, flags=re.MULTILINE)
        lines = (line for line in text.splitlines() if line.strip() and not line.startswith("#"))
        commands += [shlex.split(line) for line in lines]
    return commands


def launched(command):
    """Return the command of docsplit that a line of accelerate launches, by the module or by its script."""
    assert command[1] == "launch"
    if command[2] == "--config_file":
        assert (ROOT / command[3]).exists()
    if "docsplit_hf" in command:
        return ["docsplit", *command[command.index("docsplit_hf") + 1 :]]
    script = command.index("examples/run_pretrain.py")
    return ["docsplit", "pretrain", *command[script + 1 :]]


def parse(command):
    """Parse and check the arguments of a command; return them as dataclasses."""
    with mock.patch.dict(OBJECTIVES), mock.patch.dict(VIEWS):  # baselines are registered for this command alone
        return _parsed(command)


def _parsed(command):
    if command[:3] == ["python", "-m", "experiments"]:
        parsed = HfArgumentParser((PaperArguments, PaperSettings)).parse_args_into_dataclasses(command[3:])
        check_protocols(parsed[0].protocol, papers.PROTOCOLS)
        return parsed
    if command[:2] == ["python", "-m"] and command[2].startswith("benchmarks."):
        text = ROOT.joinpath(*command[2].split(".")).with_suffix(".py").read_text(encoding="utf-8")
        assert all(f'"{word}"' in text for word in command if word.startswith("--")), command
        return []
    if command[0] == "accelerate":
        command = launched(command)
    if command[:3] == ["python", "-m", "experiments.pretrain"]:
        register()
        command = ["docsplit", "pretrain", *command[3:]]
    name, arguments = command[1], [word for word in command[2:] if word != "--json"]  # run_script takes it out
    if name == "demo":
        return demo.make_parser().parse_args(arguments)
    if name in ("export", "suggest", "audit"):
        arguments = with_options(("model",), arguments)
    if name == "undo":
        arguments = with_options(("sorted",), arguments)
    if name == "watch":
        arguments = with_options(("inbox", "sorted"), arguments)
    if name == "serve":
        return serve.make_parser().parse_args(arguments)
    if name in OTHERS:
        return HfArgumentParser(OTHERS[name]).parse_args_into_dataclasses(arguments)
    if name == "evaluate":
        return HfArgumentParser((EvaluationArguments, ComparisonSettings)).parse_args_into_dataclasses(arguments)
    arguments += [] if "--use_cpu" in arguments else ["--use_cpu"]
    if name == "pretrain":
        return pretrain_arguments.parse_command_line("", arguments)[1]
    if name == "classify" and (commands := two_commands(arguments)):
        return [
            part
            for kind, words in zip(("fit", "classify"), commands, strict=True)
            for part in HfArgumentParser(OF_CLASSIFIERS[kind]).parse_args_into_dataclasses(words)
        ]
    return HfArgumentParser(OF_CLASSIFIERS[name]).parse_args_into_dataclasses(arguments)
