"""The competitors of inference: their texts, packages and batches."""

import importlib.util

import pytest

from benchmarks import inputs
from benchmarks.speed import inference


def test_texts_are_cut_at_numbers_of_words_that_differ():
    texts = inference.cut_at_random(["word " * 500] * 300)
    words = [len(text.split()) for text in texts]
    assert min(words) >= 8 and max(words) <= 400
    assert len(set(words)) > 100
    assert texts == inference.cut_at_random(["word " * 500] * 300)


@pytest.mark.parametrize("missing", ["nncf", "openvino"])
def test_int8_without_its_packages_is_left_out_and_named(missing, monkeypatch, capsys):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == missing else object())
    assert not inference.has_int8()
    assert f"{missing} is not installed" in capsys.readouterr().out


def test_the_batch_of_the_others_is_the_fastest(monkeypatch, capsys):
    monkeypatch.setattr(inference, "BATCHES", (32, 128))
    clock = {32: 2.0, 128: 1.0}
    monkeypatch.setattr(inference, "timed", lambda run: lambda: clock[run.args[1]])
    run = inference.at_its_best("theirs", lambda texts, batch: (len(texts), batch), ["text"] * 3)
    assert run(["text"] * 5) == (5, 128)
    assert capsys.readouterr().out == "theirs: 128 documents per batch.\n"


def test_fewer_texts_are_enough_only_where_this_is_said(tmp_path):
    file = tmp_path / "texts.jsonl"
    file.write_text('{"text": "One text."}\n{"text": "Another text."}\n')
    assert sorted(inputs.load_texts(str(file), 5, fewer_are_enough=True)) == ["Another text.", "One text."]
    with pytest.raises(SystemExit, match="There are 2 texts, and 5 are asked for"):
        inputs.load_texts(str(file), 5)
