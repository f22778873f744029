"""Duplicate examples, and equal texts with different labels."""

from datasets import ClassLabel, Dataset

from docsplit_hf.reading.labels import warn_of_contradictions, without_copies


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
