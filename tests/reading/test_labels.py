"""Spellings of labels, duplicate examples, and equal texts with different labels."""

import pytest
from datasets import ClassLabel, Dataset

from docsplit_hf.reading.labels import (
    alike_labels,
    describe_alike,
    plain_spelling,
    warn_of_contradictions,
    without_copies,
)


@pytest.mark.parametrize("other", ["Crème", "CRÈME", "cre\u0300me", " crème", "crème\n", "crème\u00a0"])
def test_case_unicode_form_and_white_space_do_not_matter(other):
    assert plain_spelling(other) == plain_spelling("crème")


@pytest.mark.parametrize("other", ["creme", "crèmes", "crème 2", "crè me"])
def test_other_letters_are_other_labels(other):
    assert plain_spelling(other) != plain_spelling("crème")


def test_the_most_frequent_spelling_comes_first():
    counts = {"Sport": 2, "sport": 7, "sport ": 7, "news": 1}
    assert alike_labels(counts) == [["sport", "sport ", "Sport"]]
    remark = describe_alike(counts)
    assert "'sport' and 'sport ' and 'Sport'. If they are the same" in remark and "news" not in remark


def test_different_labels_give_no_warning():
    assert describe_alike({"a": 1, "b": 2}) is None


def test_a_warning_names_a_few_labels_and_counts_the_rest():
    counts = {name: 1 for number in range(9) for name in (f"label {number}", f"Label {number}")}
    assert "; and 4 more" in describe_alike(counts)


def examples(texts, labels, **columns):
    rows = Dataset.from_dict({"text": texts, "label": labels, **columns})
    return rows.cast_column("label", ClassLabel(names=["a", "b"]))


def test_duplicates_are_dropped_and_contradictions_are_named(caplog):
    found = without_copies(examples(["x", "y", "x", "x"], [0, 1, 0, 1]), "train")
    assert found["text"][:] == ["x", "y", "x"] and found["label"][:] == [0, 1, 1]
    assert "train: 1 of 4 examples repeat the text and the label of another one, and are left out" in caplog.text
    assert "1 texts have different labels: 'x' as 'a' and 'b'" in caplog.text


def test_pairs_are_the_same_if_both_texts_are(caplog):
    rows = examples(["x", "x", "x"], [0, 0, 0], text_pair=["1", "2", "1"])
    assert without_copies(rows, "train")["text_pair"][:] == ["1", "2"]


def test_nothing_is_logged_without_duplicates(caplog):
    rows = examples(["x", "y"], [0, 1])
    assert without_copies(rows, "train") is rows and not caplog.records


def test_a_few_of_many_contradictions_are_named(caplog):
    given = [((f"text {number}", None), frozenset(label)) for number in range(5) for label in "ab"]
    warn_of_contradictions(given)
    assert "5 texts have different labels" in caplog.text and caplog.text.count("text ") == 3
    assert ", and others. Keep one of them." in caplog.text
