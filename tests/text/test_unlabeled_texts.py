import json

import pytest
from datasets import Dataset

from docsplit_hf.text.unlabeled_texts import load_unlabeled_texts


@pytest.fixture
def write(tmp_path):
    def write(rows, name="documents.jsonl"):
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
        return tmp_path / name

    return write


def test_what_cannot_be_used_and_what_is_held_out_is_dropped_and_counted(write, caplog):
    rows = [{"body": text, "other": "x"} for text in ("A river.", " ", None, "An engine.", "A court.")]
    held_out = [Dataset.from_dict({"text": ["An engine."], "label": [0]}), Dataset.from_dict({"text": ["None."]})]
    texts = load_unlabeled_texts(write(rows), "body", held_out=held_out)
    assert texts.to_dict() == {"text": ["A river.", "A court."]}
    assert "Dropped: 1 not a string, 1 empty. 1 are held-out examples, and left out." in caplog.text


def test_the_only_column_of_txt_files_is_found_whatever_the_texts_are_called(tmp_path):
    (tmp_path / "a.txt").write_text("A river.")
    assert load_unlabeled_texts(tmp_path, "body")["text"][:] == ["A river."]
    assert load_unlabeled_texts(tmp_path / "a.txt", "body")["text"][:] == ["A river."]


def test_pairs_are_held_out_as_pairs(write):
    path = write([{"a": "river", "b": "bank"}, {"a": "river", "b": "bed"}])
    held_out = [Dataset.from_dict({"text": ["river"], "text_pair": ["bank"]})]
    assert load_unlabeled_texts(path, "a", "b", held_out=held_out).to_dict() == {
        "text": ["river"],
        "text_pair": ["bed"],
    }


@pytest.mark.parametrize("rows, message", [
    ([{"text": "a", "n": 1}], "no column 'body' in .*, only .'n', 'text'.: choose text_column"),
    ([{"body": 1}], "Column 'body' holds .*not strings: choose text_column"),
    ([{"body": " "}], "nothing to learn from: 0 documents.*Dropped: 1 empty. Give other"),
])  # fmt: skip
def test_what_holds_no_documents_is_named(write, rows, message):
    with pytest.raises(ValueError, match=message):
        load_unlabeled_texts(write(rows), "body")
