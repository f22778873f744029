"""What docsplit classify opens and says."""

from pathlib import Path

import pytest

from docsplit_hf import RejectionLimits
from docsplit_hf.apps.cli import classify
from docsplit_hf.apps.cli.classify import AnswerArguments, PredictionArguments, describe_outcome, open_to_answer
from docsplit_hf.classifier.predict_file import Outcome, PredictionFiles

FILES = PredictionFiles(source=Path("inbox"), target=Path("out/answers.csv"))


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ({}, "20 texts were classified: out/answers.csv."),
        ({"resumed": 7}, "20 texts were classified (7 rows before the interruption): out/answers.csv."),
        ({"without_text": 3}, "17 texts were classified: out/answers.csv. Rows without a text got no label: 3."),
        (
            {"without_text": 3, "rejected": 4},
            "13 texts were classified: out/answers.csv. Rows without a text got no label: 3. Texts that are uncertain, "
            "novel or without content got no label: 4.",
        ),
        (
            {"rejected": 4, "failed": 5},
            "11 texts were classified: out/answers.csv. Texts that are uncertain, novel or without content got no "
            "label: 4. Files that could not be read: 5, listed with their reasons in out/failed.csv.",
        ),
    ],
)
def test_texts_that_got_a_label_are_counted_apart_from_each_kind_of_others(numbers, said):
    outcome = Outcome(**({"rows": 20, "without_text": 0, "resumed": 0, "rejected": 0} | numbers))
    assert describe_outcome(outcome, FILES) == said


@pytest.mark.parametrize(
    ("options", "is_exported", "opened"),
    [
        ({}, True, "exported"),
        ({}, False, "pipeline"),
        ({"bf16": True}, True, "pipeline"),  # an exported model computes in float32
    ],
)
def test_an_exported_model_answers_unless_an_option_needs_the_pipeline(
    options, is_exported, opened, monkeypatch, tmp_path
):
    monkeypatch.setattr(classify, "open_exported", lambda name, trust: "exported" if is_exported else None)
    monkeypatch.setattr(classify, "open_classifier", lambda name, use_cpu: "pipeline")
    arguments = PredictionArguments(model=str(tmp_path), predict="new.csv")
    assert open_to_answer(arguments, AnswerArguments(**options)) == opened


def test_options_of_a_call_are_those_that_were_given():
    given = AnswerArguments(reject=0.1, novelty=0.0, each_label=True)  # 0: only the least familiar texts
    limits = RejectionLimits(0.1, novelty=0.0, each_label=True)
    assert given.call_options() == {"reject": limits, "return_novelty": True}
    assert AnswerArguments().call_options() == {}


def test_the_classifier_may_be_the_first_word(tmp_path):
    (tmp_path / "new.csv").write_text("text\nA river.\n")
    files = ["--predict", str(tmp_path / "new.csv"), "--predict_output", str(tmp_path / "answers.csv")]
    arguments, _, _ = classify.parse([str(tmp_path), *files])
    assert arguments == classify.parse(["--model", str(tmp_path), *files])[0]
