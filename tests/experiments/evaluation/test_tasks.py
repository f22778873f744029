"""Tasks from files and folders."""

import gzip
import json
import logging
import shutil

import numpy as np
import pytest
from datasets import Dataset
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from docsplit_hf.reading.labeled_examples import load_labeled_examples
from experiments.evaluation.tasks import ClassificationTask, CorpusTask, load_evaluation_task
from tests.documents import write_pdf

LABELS = np.array([0, 1])
PARTS = {
    "train_texts": ["a", "b"],
    "train_labels": LABELS,
    "test_texts": ["c", "d"],
    "test_labels": LABELS,
    "label_names": ["x", "y"],
    "train_pairs": ["e", "f"],
    "test_pairs": ["g", "h"],
}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"test_texts": ["a"], "test_pairs": None}, "mine: test has 1 texts and 2 labels"),
        ({"train_pairs": ["only one"]}, "mine: train has 2 texts and 2 labels"),
        ({"train_labels": np.array([1, 1])}, "mine: each of the 2 training examples has the label 'y'"),
        ({"test_texts": [], "test_labels": LABELS[:0], "test_pairs": None}, "mine: test has 0 texts"),
    ],
)
def test_invalid_tasks_are_refused(changed, said):
    with pytest.raises(ValueError, match=said):
        ClassificationTask("mine", **(PARTS | changed))


def test_a_fingerprint_changes_with_any_part_of_the_content():
    changed = [{name: value[::-1]} for name, value in PARTS.items()]
    changed += [{}, {"train_pairs": None, "test_pairs": None}]
    prints = {ClassificationTask("one", **(PARTS | change)).fingerprint for change in changed}
    assert len(prints) == len(changed)
    assert ClassificationTask("another name", **PARTS).fingerprint in prints


def write_rows(file, rows):
    open_text = gzip.open if file.suffix == ".gz" else open
    with open_text(file, "wt", encoding="utf-8") as lines:
        lines.writelines(json.dumps(row) + "\n" for row in rows)
    return file


def reviews(count, start=0):
    return [{"text": f"Review {i}.", "label": ("bad", "good")[i % 2]} for i in range(start, start + count)]


@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz", "csv"])
def test_a_folder_keeps_its_own_split(tmp_path, ending):
    for split, rows in {"train": reviews(9), "validation": reviews(4, 50), "test": reviews(6, 90)}.items():
        if ending == "csv":
            Dataset.from_list(rows).to_csv(tmp_path / f"{split}.csv")
        else:
            write_rows(tmp_path / f"{split}.{ending}", rows)
    task = load_evaluation_task(tmp_path)
    assert (task.name, task.label_names, task.train_pairs) == (tmp_path.name, ["bad", "good"], None)
    assert task.train_texts == [f"Review {i}." for i in range(9)]
    assert task.texts == task.test_texts == [f"Review {i}." for i in range(90, 96)]
    assert task.train_labels.tolist() == [0, 1] * 4 + [0]
    assert task.train_labels.dtype == np.int64


def test_without_a_test_set_the_validation_set_takes_its_place(tmp_path):
    write_rows(tmp_path / "train.jsonl", reviews(9))
    write_rows(tmp_path / "dev.jsonl", reviews(4, 50))
    write_rows(tmp_path / "test.jsonl", [{"text": "Hidden.", "label": None}])
    assert load_evaluation_task(tmp_path).test_texts == [f"Review {i}." for i in range(50, 54)]


def test_a_fifth_of_each_class_of_a_file_is_held_out_by_the_seed(tmp_path):
    file = write_rows(tmp_path / "reviews.jsonl.gz", reviews(50))
    tasks = [load_evaluation_task(str(file), seed=seed) for seed in (0, 0, 1)]
    assert tasks[0].name == "reviews"
    assert np.bincount(tasks[0].test_labels).tolist() == [5, 5]
    assert tasks[0].fingerprint == tasks[1].fingerprint != tasks[2].fingerprint


def test_fewer_examples_are_drawn_by_the_seed_and_each_class_keeps_some(tmp_path):
    rows = [{"text": f"Text {i}.", "label": "rare" if i < 5 else "common"} for i in range(400)]
    write_rows(tmp_path / "train.jsonl", rows)
    write_rows(tmp_path / "test.jsonl", rows[:40])
    for most_train, most_test, sizes, rare in (
        (100, 9, (100, 9), 5),
        (8, 999, (8, 40), 4),
        (None, None, (400, 40), 5),
    ):
        task = load_evaluation_task(tmp_path, max_train_examples=most_train, max_test_examples=most_test)
        assert (len(task.train_texts), len(task.test_texts)) == sizes
        assert (task.train_labels == task.label_names.index("rare")).sum() == rare
    drawn = [load_evaluation_task(tmp_path, 20, 10, seed).train_texts for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]
    with pytest.raises(ValueError, match="The most examples to use must be at least 1, got -1"):
        load_evaluation_task(tmp_path, -1)


def test_texts_without_labels_are_a_corpus(tmp_path, caplog):
    file = write_rows(tmp_path / "corpus.jsonl", [{"text": text} for text in ("One.", " ", "Two.", "Three.")])
    with caplog.at_level(logging.WARNING, "docsplit_hf"):
        task = load_evaluation_task(file)
    assert isinstance(task, CorpusTask)
    assert (task.name, task.texts) == ("corpus", ["One.", "Two.", "Three."])
    assert "has no labels (no column label, no folders of classes): 3 texts alone. Dropped: 1 empty." in caplog.text
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a.txt").write_text("A document.\nOf two lines.")
    assert load_evaluation_task(tmp_path / "folder").texts == ["A document.\nOf two lines."]
    with pytest.raises(ValueError, match=r"has the columns \['body'\], but no 'text': choose text_column"):
        load_evaluation_task(write_rows(tmp_path / "body.jsonl", [{"body": "One."}]))


def test_two_folders_of_classes_give_labels_and_one_gives_texts_alone(tmp_path, caplog):
    for split in ("train", "test"):
        for i in range(6):
            (tmp_path / split / f"class {i % 2}").mkdir(parents=True, exist_ok=True)
            (tmp_path / split / f"class {i % 2}" / f"{i}.txt").write_text(f"Text {i} to {split}.")
    task = load_evaluation_task(tmp_path)
    assert (task.label_names, len(task.train_texts), len(task.test_texts)) == (["class 0", "class 1"], 6, 6)
    with caplog.at_level(logging.INFO, "experiments"):
        task = load_evaluation_task(tmp_path / "train")
    assert (task.label_names, len(task.train_texts), len(task.test_texts)) == (["class 0", "class 1"], 4, 2)
    assert "train is read as texts with labels, which are its 2 folders: class 0, class 1." in caplog.text
    shutil.rmtree(tmp_path / "train" / "class 1")
    assert len(load_evaluation_task(tmp_path / "train").texts) == 3


@pytest.mark.parametrize(
    ("label", "said"),
    [
        (lambda i: "x", r"9 training examples has the label \['x'\]: classification needs two labels"),
        (lambda i: [f"x{i % 2}"], "rows has several labels per text"),
        (lambda i: None, "Nothing is left: train: kept 0 of 9 examples. Dropped: 9 without a label"),
        (lambda i: i, "9 examples with one text in each class leave none to test on"),
    ],
)
def test_tasks_that_cannot_be_evaluated_are_refused(tmp_path, label, said):
    with pytest.raises(ValueError, match=said):
        load_evaluation_task(
            write_rows(tmp_path / "rows.jsonl", [{"text": f"T {i}.", "label": label(i)} for i in range(9)])
        )


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.text(max_size=8), st.sampled_from(["x", "y", "", None, 3])), min_size=1, max_size=12))
def test_any_rows_give_a_task_or_an_error_with_the_reason(tmp_path, rows):
    file = write_rows(tmp_path / "rows.jsonl", [{"text": text, "label": label} for text, label in rows])
    usable = sorted(text for text, label in rows if text.strip() and label not in ("", None))
    try:
        task = load_evaluation_task(file)
    except ValueError as error:
        assert any(part in str(error) for part in ("Nothing is left", "needs two labels", "none to test on"))
    else:
        valid = [text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") for text in usable]
        assert sorted(task.train_texts + task.test_texts) == sorted(valid)


@pytest.fixture
def documents(tmp_path):
    pytest.importorskip("pypdfium2", reason="The extra files is not installed.")
    for label in ("lease", "loan"):
        for number in range(4):
            write_pdf(tmp_path / label / "deep" / f"{number}.pdf", [f"The {label} with the number {number}."])
    return tmp_path


def test_folders_patterns_and_single_documents_are_tasks(documents):
    task = load_evaluation_task(documents)
    assert (task.sizes, task.label_names) == ({"train": 6, "test": 2, "classes": 2}, ["lease", "loan"])
    texts = {f"The {label} with the number {number}." for label in ("lease", "loan") for number in range(4)}
    assert {*task.train_texts, *task.test_texts} == texts
    pattern = f"{documents}/**/[0-2].pdf"
    corpus = load_evaluation_task(pattern)
    assert isinstance(corpus, CorpusTask) and corpus.name == pattern
    assert set(corpus.texts) == {text for text in texts if "3" not in text}
    assert load_evaluation_task(documents / "loan" / "deep" / "1.pdf").texts == ["The loan with the number 1."]
    with pytest.raises(FileNotFoundError, match=r"no file in '.*\*\.docx': give a file, a folder, or a pattern"):
        load_evaluation_task(f"{documents}/*.docx")


def test_documents_are_no_pairs(documents):
    with pytest.raises(ValueError, match=r"text_pair_column='text2' is for tables, .* give a table with both texts"):
        load_labeled_examples(documents, text_pair_column="text2")
