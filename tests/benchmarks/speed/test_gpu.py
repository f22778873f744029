"""The commands of the run on a GPU: their sizes, their logs, and what is left out."""

import json
from pathlib import Path

import pytest

from benchmarks.speed import gpu
from benchmarks.speed.gpu import CARDS, ROOT, closest_card, commands_for


@pytest.mark.parametrize(
    "gib, card",
    [(140, 141), (79.2, 80), (44.4, 48), (47.5, 48), (39.4, 24), (23.6, 24), (15.7, 24), (0, 24)],
    ids=["H200", "H100", "L40S", "A6000", "A100 of 40 GB", "4090", "T4", "no GPU"],
)
def test_batches_are_those_of_the_largest_card_that_is_no_larger(gib, card):
    assert closest_card(gib * 2**30 / 1e9) == card


def test_smaller_cards_have_smaller_batches_in_the_same_commands():
    cards = sorted(CARDS)
    commands = [commands_for(CARDS[card]) for card in cards]
    assert all([command.name for command in of_card] == [c.name for c in commands[0]] for of_card in commands)
    for smaller, larger in zip(cards, cards[1:], strict=False):
        assert CARDS[smaller].train <= CARDS[larger].train
        assert CARDS[smaller].growth < CARDS[larger].growth
        assert CARDS[smaller].longer < CARDS[larger].longer


def test_commands_name_scripts_that_exist():
    for command in commands_for(CARDS[24]):
        words = command.arguments.split()
        scripts = [word for word in words if word.startswith("examples/") and word.endswith(".py")]
        scripts += [word.replace(".", "/") + ".py" for word in words if word.startswith("benchmarks.")]
        assert scripts, command.name
        for script in scripts:
            assert Path(ROOT, script).is_file(), script


@pytest.fixture
def run_gpu(monkeypatch, tmp_path):
    """Call the script in a dry run whose commands do nothing; gives the names of their logs."""

    def run(*arguments):
        logs = []

        def note(arguments, limit, log, on_the_cpu):
            logs.append(log.name)
            return 0, 1.0

        monkeypatch.setattr(gpu, "run", note)
        monkeypatch.setattr(gpu, "write_random_weights", lambda folder, **sizes: None)
        monkeypatch.setattr("sys.argv", ["gpu", "--dry_run", "--output", str(tmp_path), *arguments])
        gpu.main()
        return sorted(logs)

    return run


def test_logs_have_the_numbers_of_their_commands_whatever_is_chosen(run_gpu, tmp_path):
    names = [command.name for command in commands_for(CARDS[24])]
    assert run_gpu() == [f"{number:02d}.log" for number in range(len(names))]
    training = [number for number, name in enumerate(names) if name.startswith("train")]
    assert run_gpu("--only", "train") == [f"{number:02d}.log" for number in training]
    records = [json.loads(line) for line in (tmp_path / "gpu.jsonl").read_text().splitlines()]
    assert len(records) == len(names) + len(training)


def test_commands_that_need_what_is_not_installed_are_left_out_and_named(run_gpu, monkeypatch, capsys):
    monkeypatch.setattr(gpu.importlib.util, "find_spec", lambda name: None if name == "evaluate" else object())
    assert run_gpu("--only", "cl") == []
    assert "Left out: classify: evaluate is not installed." in capsys.readouterr().out
