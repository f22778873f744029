"""The commands in the cards are those that the scripts take."""

import shlex
from pathlib import Path

import pytest

from ..commands import commands_in, parse
from .conftest import every_card


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
                arguments = parse(command, monkeypatch)[2]
                options = generator.card_results.read_command(stage.command)
                assert (arguments.seed, arguments.max_steps) == (options.seed, options.max_steps)
                assert Path(arguments.output_dir).name in ("start", checkpoint.name)
