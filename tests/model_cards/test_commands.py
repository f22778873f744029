"""The commands in the cards are those that the scripts take."""

import re
import shlex
from pathlib import Path

import pytest

from .conftest import ROOT, every_card


def commands_in(card):
    """The commands of a card's bash blocks, continued lines joined."""
    blocks = re.findall(r"```bash\n(.*?)```", card, flags=re.DOTALL)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    return [shlex.split(line) for line in lines if line.strip() and not line.startswith("#")]


def parse(command, monkeypatch):
    """Have a command's arguments parsed as its script does, and checked; nothing runs."""
    from transformers import HfArgumentParser

    monkeypatch.syspath_prepend(ROOT / "examples")
    from evaluation_arguments import EvaluationArguments
    from pretrain_arguments import DataArguments, ModelArguments, RunArguments

    from docsplit_hf.experiments.protocols import check_protocols
    from docsplit_hf.experiments.settings import EvaluationSettings

    [place] = [place for place, word in enumerate(command) if word.startswith("examples/run_")]
    assert (ROOT / command[place]).exists()
    launcher, arguments = command[:place], command[place + 1 :]
    if launcher != ["python"]:
        assert launcher[:3] == ["accelerate", "launch", "--config_file"] and (ROOT / launcher[3]).exists()
    if command[place] == "examples/run_evaluation.py":
        parser = HfArgumentParser((EvaluationArguments, EvaluationSettings))
        evaluation, _ = parser.parse_args_into_dataclasses(arguments)
        check_protocols(evaluation.protocol)
        return evaluation
    parser = HfArgumentParser((ModelArguments, DataArguments, RunArguments))
    return parser.parse_args_into_dataclasses([*arguments, *([] if "--use_cpu" in arguments else ["--use_cpu"])])[2]


@every_card
def test_the_commands_parse(name, card_of, monkeypatch):
    commands = commands_in(card_of(name)[0])
    assert len(commands) >= 2
    for command in commands:
        parse(command, monkeypatch)


def test_a_mistyped_option_does_not_parse(monkeypatch, capsys):
    with pytest.raises(ValueError, match="--max_step_s"):
        parse(shlex.split("python examples/run_pretrain.py --max_step_s 3"), monkeypatch)


def test_the_commands_that_are_not_published_yet_parse(generator, monkeypatch):
    """Of a checkpoint whose training is being written down."""
    for checkpoint in generator.checkpoints.CHECKPOINTS:
        for stage in checkpoint.stages:
            if stage.command:
                [command] = commands_in(f"```bash\n{stage.command}\n```")
                arguments = parse(command, monkeypatch)
                options = generator.card_results.read_command(stage.command)
                assert (arguments.seed, arguments.max_steps) == (options.seed, options.max_steps)
                assert Path(arguments.output_dir).name in ("start", checkpoint.name)
