"""Options of the commands of classifiers: those that contradict each other, and those of earlier versions."""

import re
import sys
from types import SimpleNamespace

import pytest

from docsplit_hf.__main__ import main
from docsplit_hf.apps.cli.fit_and_classify import two_commands
from docsplit_hf.apps.cli.fit_arguments import read_hierarchy

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
    "an option of before": ("classify", ["--predict_top_k=2"], "--predict_top_k was removed: it is --top_k"),
    "another one": ("classify", [*WITH_EXAMPLES, "--no_training"], "--no_training was removed: docsplit fit makes"),
    "no texts": ("classify", WITH_EXAMPLES, "--predict must be given: the texts to classify. To make a classifier"),
    "neither's": ("classify", [*WITH_EXAMPLES, *ANSWERS, "--max_steps=3"], "unrecognized arguments: --max_steps"),
    "a folder of before": ("classify", [*ANSWERS, "--output_dir=o"], r"did you mean --model\?"),
    "no rate": ("classify", [*ANSWERS, "--novelty=0.05"], "limit what --reject leaves without a label: give it"),
    "no rate of errors": ("classify", [*ANSWERS, "--reject=5"], "reject must be the share .*, got 5"),
    "no classifier": ("audit", ["--output=r.json"], "a classifier must be given: the --output_dir of docsplit fit"),
    "no JSON": ("audit", ["a", "--output=r.csv"], "so --output must end in .json"),
    "no findings": ("audit", ["a", "--apply=r.json"], "There is no file r.json: write one by --output"),
    "scans where no file is read": ("export", ["a", "--ocr"], "--ocr was removed: docsplit export reads no files"),
    "no folder of sorted files": ("undo", [], "a folder must be given: the one into which docsplit classify has"),
    "an option that went": ("train", [*WITH_EXAMPLES, "--task_name=CoLA"], "--task_name was removed: python -m exper"),
}


@pytest.mark.parametrize("command, options, message", REFUSED.values(), ids=REFUSED)
def test_contradictory_options_are_refused(command, options, message, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["docsplit", command, *options])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2 and re.search(message, "".join(capsys.readouterr()))


RENAMED = {
    "a classifier": ("classify", ["--model_name_or_path", "m", "--predict=b.csv"], ["--model", "m", "--predict=b.csv"]),
    "with a hyphen": ("audit", ["--model-name-or-path=m"], ["--model=m"]),
    "of suggest": ("suggest", ["--count=3", "--model_name_or_path=m"], ["--count=3", "--model=m"]),
    "a folder": ("export", ["--folder", "m", "--precision=int8"], ["--model", "m", "--precision=int8"]),
    "sorted files": ("undo", ["--folder=s"], ["--sorted=s"]),
}


@pytest.mark.parametrize("command, given, expected", RENAMED.values(), ids=RENAMED)
def test_options_of_earlier_versions_are_read_under_their_names(command, given, expected, monkeypatch, capsys):
    monkeypatch.setattr("docsplit_hf.__main__.import_module", lambda *_: SimpleNamespace(run=lambda: None))
    monkeypatch.setattr("docsplit_hf.__main__.check_command", lambda *_: None)
    monkeypatch.setattr(sys, "argv", ["docsplit", command, *given])
    main()
    [said] = capsys.readouterr().err.splitlines()
    assert sys.argv == [f"docsplit {command}", *expected]
    assert re.fullmatch(rf"docsplit {command}: --[a-z_-]+ is now named --(model|sorted)\.", said)


def test_the_encoder_of_a_new_classifier_keeps_its_name(monkeypatch, capsys):
    monkeypatch.setattr("docsplit_hf.__main__.import_module", lambda *_: SimpleNamespace(run=lambda: None))
    given = ["classify", "--model_name_or_path=e", *WITH_EXAMPLES, *ANSWERS]
    monkeypatch.setattr(sys, "argv", ["docsplit", *given])
    main()
    assert sys.argv[1:] == given[1:] and capsys.readouterr().err == ""


TWO = {
    "a new classifier": (
        "--dataset_name=a.csv --unlabeled_name b --predict c.csv --explain --use_cpu",
        ["--dataset_name a.csv --unlabeled_name b --use_cpu",
         "--predict c.csv --explain --use_cpu --model output/classification"],
    ),
    "its folder and encoder": (
        "--dataset_name a.csv --model_name_or_path e --output_dir o --predict c.csv --explian",
        ["--dataset_name a.csv --model_name_or_path e --output_dir o",
         "--predict c.csv --explian --model o"],
    ),
    "its encoder as the first word": (
        "e --dataset_name a.csv --predict c.csv",
        ["--dataset_name a.csv --model_name_or_path e",
         "--predict c.csv --model output/classification"],
    ),
    "its encoder as the model": (
        "--dataset_name a.csv --predict c.csv --model e",
        ["--dataset_name a.csv --model_name_or_path e", "--predict c.csv --model output/classification"],
    ),
    "a misspelled option of fit": (
        "--dataset_name a.csv --lable_column kind --predict c.csv",
        ["--dataset_name a.csv --lable_column kind", "--predict c.csv --model output/classification"],
    ),
    "a saved classifier": ("--model o --predict c.csv --explain", []),
}  # fmt: skip


@pytest.mark.parametrize("line, expected", TWO.values(), ids=TWO)
def test_with_labeled_examples_a_classifier_is_fitted_first(line, expected):
    assert [" ".join(command) for command in two_commands(line.split())] == expected


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
