"""Options of the commands of classifiers: those that contradict each other, and those of earlier versions."""

import re
import sys

import pytest

from docsplit_hf.__main__ import main
from docsplit_hf.apps.cli.fit import read_hierarchy
from docsplit_hf.apps.cli.old_classify import new_commands

WITH_EXAMPLES = ["--dataset_name=a.csv"]
ANSWERS = ["--predict=b.csv"]
REFUSED = {
    "nothing to learn from": ("fit", [], "--dataset_name must be given: a file, a folder"),
    "documents alone": ("fit", ["--unlabeled_name=documents.jsonl"], "--dataset_name must be given"),
    "no tree": ("fit", [*WITH_EXAMPLES, "--hierarchy=tree.json"], "--hierarchy tree.json: there is no such file"),
    "a teacher": ("fit", [*WITH_EXAMPLES, "--teacher=http://a/v1#b"], "--teacher was removed: fit of the pipeline"),
    "an option of training": ("fit", [*WITH_EXAMPLES, "--num_train_epochs=3"], "unrecognized arguments: --num_train"),
    "nothing to train on": ("train", [], "--dataset_name must be given: a file, a folder"),
    "nothing to answer": ("classify", [], "--predict must be given: the texts to classify"),
    "no rate": ("classify", [*ANSWERS, "--novelty=0.05"], "limit what --reject leaves without a label: give it"),
    "no rate of errors": ("classify", [*ANSWERS, "--reject=5"], "reject must be the share .*, got 5"),
    "no classifier": ("audit", ["--output=r.json"], "a classifier must be given: the --output_dir of docsplit fit"),
    "no JSON": ("audit", ["a", "--output=r.csv"], "so --output must end in .json"),
    "no findings": ("audit", ["a", "--apply=r.json"], "There is no file r.json: write one by --output"),
    "an option that went": ("train", [*WITH_EXAMPLES, "--task_name=CoLA"], "--task_name was removed: python -m exper"),
}


@pytest.mark.parametrize("command, options, message", REFUSED.values(), ids=REFUSED)
def test_contradictory_options_are_refused(command, options, message, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["docsplit", command, *options])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2 and re.search(message, "".join(capsys.readouterr()))


EARLIER = {
    "fitting": (
        "--no_training --dataset_name a.csv --output_dir o --unlabeled_name b --predict c.csv --predict_reject 0.1",
        ["fit --dataset_name a.csv --output_dir o --unlabeled_name b",
         "classify --predict c.csv --reject 0.1 --model_name_or_path o"],
    ),
    "training": ("--dataset_name=a.csv --bf16", ["train --dataset_name a.csv --bf16"]),
    "training and answers": (
        "--dataset_name a.csv --predict c.csv --num_train_epochs 2 --use_cpu",
        ["train --dataset_name a.csv --num_train_epochs 2 --use_cpu",
         "classify --predict c.csv --use_cpu --model_name_or_path output/classification"],
    ),
    "answers": (
        "--model_name_or_path o --predict c.csv --predict_explain --predict_top_k 2",
        ["classify --model_name_or_path o --predict c.csv --explain --top_k 2"],
    ),
    "an audit": ("--model_name_or_path o --audit r.json", ["audit --model_name_or_path o --output r.json"]),
    "a new classifier": (
        "--dataset_name a.csv --unlabeled_name b --predict c.csv --explain",
        ["fit --dataset_name a.csv --unlabeled_name b",
         "classify --predict c.csv --explain --model_name_or_path output/classification"],
    ),
    "a folder": ("--output_dir o --predict c.csv", ["classify --predict c.csv --model_name_or_path o"]),
    "today's": ("--model_name_or_path o --predict c.csv --explain", []),
    "no option": ("--predict c.csv --explian", []),
}  # fmt: skip


@pytest.mark.parametrize("line, expected", EARLIER.values(), ids=EARLIER)
def test_earlier_command_lines_are_todays_commands(line, expected):
    assert [" ".join(command) for command in new_commands(line.split())] == expected


def test_a_file_of_parents_is_a_tree(tmp_path):
    file = tmp_path / "tree.json"
    file.write_text('{"lease": "contracts"}', encoding="utf-8-sig")
    assert read_hierarchy(str(file)) == {"lease": "contracts"}
    assert read_hierarchy("/") == "/" and read_hierarchy(None) is None
    file.write_text('["lease"]')
    with pytest.raises(ValueError, match="must have the parent of each label"):
        read_hierarchy(str(file))
    file.write_text('{"lease": ["contracts"]}')
    with pytest.raises(ValueError, match="must have the parent of each label"):
        read_hierarchy(str(file))
    file.write_text("lease: contracts")
    with pytest.raises(ValueError, match=r"tree\.json is no JSON in UTF-8"):
        read_hierarchy(str(file))
