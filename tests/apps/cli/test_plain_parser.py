"""The parser of commands that answer quickly reads options as that of transformers does."""

import re

import pytest
from transformers import HfArgumentParser

from docsplit_hf.apps.cli.classify import AnswerArguments, PredictionArguments
from docsplit_hf.apps.cli.plain_parser import PlainParser
from docsplit_hf.apps.cli.undo import UndoArguments

KINDS = (PredictionArguments, AnswerArguments)
LINES = (
    "--predict a.csv",
    "--predict=a.csv --safe_csv --explain --reject 0.05 --top_k 3",
    "--predict a --safe-csv yes --explain False --labels_at 1e-1 --max_length 12 --link",
    "--predict a --model_name_or_path b --text-pair-column c --bf16 true",
)


@pytest.mark.parametrize("line", LINES)
def test_options_are_those_of_transformers(line):
    expected = HfArgumentParser(KINDS).parse_args_into_dataclasses(line.split())
    assert PlainParser(KINDS, "").parse_args_into_dataclasses(line.split()) == tuple(expected)


def test_the_help_is_that_of_transformers():
    for kinds in (KINDS, (UndoArguments,)):
        own = PlainParser(kinds, "Some command.").format_help()
        stock = HfArgumentParser(kinds, description="Some command.").format_help()
        defaults = re.compile(r"\s*\(default:[^)]*\)|\s+")  # transformers' formatter adds them
        assert defaults.sub("", own) == defaults.sub("", stock)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--safe_csv perhaps", "expected yes or no, got perhaps"),
        ("--top_k few", "invalid int"),
    ],
)
def test_wrong_values_are_named(line, said, capsys):
    with pytest.raises(SystemExit):
        PlainParser(KINDS, "").parse_args_into_dataclasses(["--predict", "a", *line.split()])
    assert said in capsys.readouterr().err
