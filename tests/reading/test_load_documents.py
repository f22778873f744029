"""Loading unlabeled documents: sources, streams, held-out documents, errors."""

import json
import logging
from collections import Counter

import pandas as pd
import pytest
from datasets import Dataset, IterableDataset, load_dataset
from torch.utils.data import DataLoader

from docsplit_hf import load_documents
from docsplit_hf.reading.labeled_examples import load_labeled_examples
from docsplit_hf.reading.load_documents import _hold_out, load_unlabeled_texts

TEXTS = [f"Document {i}. It has two sentences." for i in range(30)]


@pytest.fixture
def rows():
    return Dataset.from_dict({"text": TEXTS, "label": [i % 3 for i in range(30)]})


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("name", ["documents.jsonl", "documents.parquet", "folder"])
def test_every_source_gives_every_document_once(rows, tmp_path, name, streaming):
    if name == "folder":
        (tmp_path / "folder" / "deep").mkdir(parents=True)
        for i, text in enumerate(TEXTS):
            (tmp_path / "folder" / ("deep" if i % 2 else "") / f"{i}.txt").write_text(text.replace(". ", ".\n\n"))
    else:
        (rows.to_json if name.endswith("jsonl") else rows.to_parquet)(tmp_path / name)
    splits = load_documents(str(tmp_path / name), streaming=streaming, test_size=3)
    assert isinstance(splits["train"], IterableDataset if streaming else Dataset)
    texts = [row["text"].replace("\n\n", " ") for split in ("train", "test") for row in splits[split]]
    assert len(list(splits["test"])) == 3
    assert sorted(texts) == sorted(TEXTS)


def test_at_most_a_tenth_is_held_out_by_seed(rows):
    first, again, other = (load_documents(rows, seed=seed) for seed in (0, 0, 1))
    assert len(first["test"]) == 3
    assert first["test"]["text"][:] == again["test"]["text"][:] != other["test"]["text"][:]


@pytest.mark.parametrize("workers", [0, 2])
def test_workers_of_a_stream_train_on_everything_that_is_not_held_out(tmp_path, workers):
    for part in range(2):
        Dataset.from_dict({"text": TEXTS[part::2]}).to_json(tmp_path / f"{part}.jsonl")
    shards = load_dataset(
        "json", data_files=[str(tmp_path / f"{i}.jsonl") for i in (0, 1)], split="train", streaming=True
    )
    splits = _hold_out(shards, test_size=10, seed=0)
    held_out = splits["test"]["text"][:]
    trained = [
        row["text"] for batch in DataLoader(splits["train"], 5, num_workers=workers, collate_fn=list) for row in batch
    ]
    assert len(held_out) == 10
    assert sorted([*held_out, *trained]) == sorted(TEXTS)
    assert trained != sorted(trained, key=TEXTS.index)  # shuffled


def test_holding_out_is_optional(rows):
    for streaming in (False, True):
        assert set(load_documents(rows, streaming=streaming, test_size=0)) == {"train"}


def test_holding_out_a_whole_stream_is_refused(rows):
    with pytest.raises(ValueError, match="ends after 30 documents, and test_size=500"):
        load_documents(rows, streaming=True, test_size=500)


def test_too_few_to_hold_any_out(tmp_path):
    (tmp_path / "few.txt").write_text("One. Two.\n" * 5)
    with pytest.raises(ValueError, match="5 documents are too few"):
        load_documents(str(tmp_path / "few.txt"))


@pytest.mark.parametrize("streaming", [False, True])
def test_documents_of_equal_text_are_not_on_both_sides(streaming, caplog):
    caplog.set_level(logging.INFO)
    rows = Dataset.from_dict({"body": [f"Text {i // 3}." for i in range(300)], "id": list(range(300))})
    splits = load_documents(rows, streaming=streaming, test_size=30, text_column="body")
    train, test = (Counter(row["body"] for row in splits[name]) for name in ("train", "test"))
    assert sum(test.values()) == 30 and not set(train) & set(test)
    assert sum(train.values()) == 270
    assert streaming or "200 of 300 documents repeat another one" in caplog.text


def test_equal_documents_cannot_be_held_out():
    with pytest.raises(ValueError, match="49 of 50 documents repeat another one.*test_size=0"):
        load_documents(pd.Series(["Boilerplate."] * 50))


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("kind", [pd.DataFrame, pd.Series, Dataset])
def test_data_in_memory_is_a_source(kind, streaming):
    make = {pd.Series: pd.Series, pd.DataFrame: pd.DataFrame, Dataset: Dataset.from_dict}[kind]
    splits = load_documents(make(TEXTS if kind is pd.Series else {"text": TEXTS}), streaming=streaming, test_size=3)
    assert sorted(row["text"] for split in splits.values() for row in split) == sorted(TEXTS)


def test_options_for_files_and_other_sources_are_refused():
    with pytest.raises(ValueError, match="encoding='cp1252' is for files, and a Series is not a file"):
        load_documents(pd.Series(TEXTS), encoding="cp1252")
    with pytest.raises(ValueError, match="csv_separator=';' is for files, and 'somebody/animals' is not a file"):
        load_documents("somebody/animals", csv_separator=";")
    with pytest.raises(TypeError, match="not list"):
        load_documents(TEXTS)
    with pytest.raises(ValueError, match="The DataFrame mixes types"):
        load_documents(pd.DataFrame({"text": ["a", 1]}))


@pytest.mark.parametrize("load", [load_documents, load_labeled_examples])
def test_a_mistyped_file_is_named(load):
    with pytest.raises(OSError, match="'l.cvs' is neither a file or folder here, .*check the spelling"):
        load("l.cvs")


@pytest.fixture
def write(tmp_path):
    def write(rows, name="documents.jsonl"):
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
        return tmp_path / name

    return write


def test_unusable_and_held_out_texts_are_dropped_and_counted(write, caplog):
    rows = [{"body": text, "other": "x"} for text in ("A river.", " ", None, "An engine.", "A court.")]
    held_out = [Dataset.from_dict({"text": ["An engine."], "label": [0]}), Dataset.from_dict({"text": ["None."]})]
    texts = load_unlabeled_texts(write(rows), "body", held_out=held_out)
    assert texts.to_dict() == {"text": ["A river.", "A court."]}
    assert "Dropped: 1 not a string, 1 empty. 1 are held-out examples, and left out." in caplog.text


def test_txt_files_need_no_text_column(tmp_path):
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
def test_sources_without_documents_are_named(write, rows, message):
    with pytest.raises(ValueError, match=message):
        load_unlabeled_texts(write(rows), "body")
