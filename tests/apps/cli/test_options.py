"""The parser of commands that answer quickly reads options as that of transformers does."""

import re

import pytest
from transformers import HfArgumentParser

from docsplit_hf.apps.cli.classify import AnswerArguments, PredictionArguments
from docsplit_hf.apps.cli.embed import EmbeddingArguments
from docsplit_hf.apps.cli.evaluate import EvaluationArguments
from docsplit_hf.apps.cli.fit_arguments import FitArguments
from docsplit_hf.apps.cli.labeled_arguments import LabeledArguments
from docsplit_hf.apps.cli.options import ALL_PRECISIONS, LONG_DOCUMENTS_HELP, PASSAGES_HELP, SHIPPED, PlainParser
from docsplit_hf.apps.cli.undo import UndoArguments
from docsplit_hf.apps.cli.watch import WatchArguments
from docsplit_hf.encoding.backends.openvino.engine import CALIBRATION_TEXTS
from docsplit_hf.encoding.backends.precision import PRECISIONS
from docsplit_hf.encoding.checkpoints.checkpoint import DEFAULT_CHECKPOINT
from docsplit_hf.encoding.portable.configuration_knn_classifier import LONG_DOCUMENTS
from docsplit_hf.evaluation.settings import ComparisonSettings

KINDS = (PredictionArguments, AnswerArguments)
OF_FIT = (LabeledArguments, FitArguments)
OF_EVALUATE = (EvaluationArguments, ComparisonSettings)
ALL_KINDS = (KINDS, OF_FIT, OF_EVALUATE, (UndoArguments,), (WatchArguments,), (EmbeddingArguments,))
LINES = (
    (KINDS, "--predict a.csv"),
    (KINDS, "--predict=a.csv --safe_csv --explain --reject 0.05 --top_k 3"),
    (KINDS, "--predict a --safe-csv yes --explain False --labels_at 1e-1 --max_length 12 --dry_run"),
    (KINDS, "--predict a --model b --text-pair-column c --bf16 true"),
    (OF_FIT, "--dataset_name a --test_size 0.5 --long_documents whole --use_cpu --passage-length 12"),
    (OF_EVALUATE, "--models a b --tasks c --shots 1 5 --long_documents whole first --protocol full"),
    ((WatchArguments,), "--inbox a --sorted b --model c --rest 1.5"),
)


@pytest.mark.parametrize(("kinds", "line"), LINES)
def test_options_are_those_of_transformers(kinds, line):
    expected = HfArgumentParser(kinds).parse_args_into_dataclasses(line.split())
    assert PlainParser(kinds, "").parse_args_into_dataclasses(line.split()) == tuple(expected)


def test_the_help_is_that_of_transformers():
    for kinds in ALL_KINDS:
        own = PlainParser(kinds, "Some command.").format_help()
        stock = HfArgumentParser(kinds, description="Some command.").format_help()
        defaults = re.compile(r"\s*\(default:[^)]*\)|\s+")  # transformers' formatter adds them
        assert defaults.sub("", own) == defaults.sub("", stock)


def test_what_options_say_of_modules_that_import_torch_is_true():
    assert SHIPPED == DEFAULT_CHECKPOINT and ALL_PRECISIONS == PRECISIONS
    help_of_embed = PlainParser((EmbeddingArguments,), "Some command.").format_help()
    assert f"quantized on {CALIBRATION_TEXTS} of the texts" in " ".join(help_of_embed.split())


@pytest.mark.parametrize("line", ["--inbox a", "--inbox a --sorted b --model c --rest soon", "--predict"])
def test_wrong_lines_are_refused_as_by_transformers(line, capsys):
    for parser in (PlainParser((WatchArguments,), ""), HfArgumentParser(WatchArguments)):
        with pytest.raises(SystemExit):
            parser.parse_args(line.split())
    own, stock = capsys.readouterr().err.split("usage: ")[1:]
    assert own == stock


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


def test_the_help_of_long_documents_names_each_strategy():
    named = re.findall("'([a-z_]+)'", PASSAGES_HELP)
    assert sorted(named) == sorted(LONG_DOCUMENTS) and "passages" not in re.findall("'([a-z_]+)'", LONG_DOCUMENTS_HELP)
