"""Each record of the list exists, each command is one that its script takes, and nothing long starts unasked."""

import argparse
import importlib.util
import sys

import pytest

from benchmarks.__main__ import RESULTS, commands, main
from benchmarks.recipes import RECIPES, Recipe

PLACES = {"sets": "sets", "data": "data", "clones": "clones", "output": "output"}
COMMANDS = [(recipe.name, command) for recipe in RECIPES for command in commands(recipe, PLACES)]


class ParsedError(Exception):
    """The arguments are right; nothing is measured."""


@pytest.fixture
def parsing_only(monkeypatch):
    parse = argparse.ArgumentParser.parse_args

    def parse_only(self, *arguments):
        parse(self, *arguments)
        raise ParsedError

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse_only)


@pytest.mark.parametrize(("name", "command"), COMMANDS, ids=[name for name, _ in COMMANDS])
def test_a_script_takes_the_arguments(name, command, parsing_only, monkeypatch):
    _, module, *arguments = command
    assert importlib.util.find_spec(module) is not None
    script = pytest.importorskip(module, reason="it needs an extra", exc_type=ModuleNotFoundError)
    monkeypatch.setattr(sys, "argv", [module, *arguments])
    with pytest.raises(ParsedError):
        script.main()


def test_the_records_are_there():
    records = [record for recipe in RECIPES for record in recipe.records]
    assert len(records) == len(set(records))
    assert [record for record in records if not (RESULTS / record).exists()] == []


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Run the command with these options, where the list has short and long recipes of commands that end at once."""
    recipes = (
        Recipe("short", ("a/short.jsonl",), 0.5, "a clone", ("this --help",)),
        Recipe("long", ("b/long.jsonl",), 2, "a clone", ("json.tool {output}/none.json",)),
        Recipe("lacking", ("c/lacking.jsonl",), 0.5, "a clone", ("this {clones}/missing",)),
    )
    monkeypatch.setattr("benchmarks.__main__.RECIPES", recipes)

    def run(*options):
        monkeypatch.setattr(sys, "argv", ["benchmarks", *options, f"--output={tmp_path}"])
        main()

    return run


def test_what_takes_an_hour_or_less_starts(run, tmp_path, capfd):
    run("short")
    assert (tmp_path / "a").is_dir()
    assert "python -m this --help" in capfd.readouterr().out


@pytest.mark.parametrize("names", [["long"], ["short", "lacking", "short"]])
def test_what_takes_longer_says_so_and_does_not_start(run, names, tmp_path, capsys):
    with pytest.raises(SystemExit):
        run(*names)
    assert "hours on two cores: add --yes" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_command_that_fails_names_the_command_that_continues(run):
    with pytest.raises(SystemExit, match=r"long failed with exit code \d+") as stopped:
        run("long", "short", "--yes")
    assert "python -m benchmarks long short --sets=sets" in str(stopped.value)


def test_a_missing_input_is_named_before_any_work(run, tmp_path):
    with pytest.raises(SystemExit, match="lacking needs a clone, and clones/missing is missing"):
        run("short", "lacking")
    assert list(tmp_path.iterdir()) == []


def test_the_list_shows_each_record_and_commands_of_names(run, capsys):
    run("--list")
    shown = capsys.readouterr().out
    assert "b/long.jsonl" in shown and "python -m" not in shown
    run("--list", "long")
    assert "OMP_NUM_THREADS=1 python -m json.tool" in capsys.readouterr().out


def test_an_unknown_name_is_told(run, capsys):
    with pytest.raises(SystemExit):
        run("longer")
    assert "There is no 'longer': --list shows short, long, lacking" in capsys.readouterr().err
