from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from datasets import Dataset

from docsplit_hf.fitting.texts_and_labels import as_list, names_of_labels, texts_and_pairs

TABLES = {
    "an array": np.array,
    "an array of objects": lambda texts: np.array(texts, dtype=object),
    "a series": lambda texts: pd.Series(texts, index=range(9, 9 + len(texts))),
    "a series of strings": lambda texts: pd.Series(texts, dtype="string").sort_index(ascending=False)[::-1],
    "a column": lambda texts: Dataset.from_dict({"body": texts})["body"],
    "a tuple": tuple,
    "a frame": lambda texts: pd.DataFrame({"label": 0, "text": texts}, index=texts),
    "a data set": lambda texts: Dataset.from_dict({"text": texts, "label": [0] * len(texts)}),
}


@pytest.mark.parametrize("form", TABLES)
def test_columns_and_tables_keep_their_order(form, texts):
    given = TABLES[form](texts[:9])
    assert as_list(given) == texts[:9] and isinstance(as_list(given), list)
    assert texts_and_pairs(given) == (texts[:9], [None] * 9)


@pytest.mark.parametrize("table", [pd.DataFrame, Dataset.from_dict], ids=["frame", "data set"])
def test_tables_of_pairs(table):
    columns = {"text": ["a", "b"], "text_pair": ["c", None]}
    assert texts_and_pairs(table(columns)) == (["a", "b"], ["c", None])


def test_all_methods_of_the_pipeline_take_tables(pipe, untrained, texts):
    table = pd.DataFrame({"text": texts[:9]})
    assert pipe(table) == pipe(texts[:9])
    assert untrained.add_examples(table, pd.Series(["a", "b", "c"] * 3)) == [str(i) for i in range(9)]
    assert untrained.datastore.texts == texts[:9]
    assert untrained.calibrate(np.array(texts[9:20]), np.array(["a"] * 11)).examples == 11
    assert pipe(pd.DataFrame({"text": []})) == pipe([]) == list(pipe(text for text in ())) == []


@pytest.mark.parametrize("given, said", [
    (np.array([["a", "b"]]), "shape \\(1, 2\\)"),
    (np.array([1, 2]), "Text 0 is 1, not a string"),
    (pd.Series(["a", None]), "Text 1 is (None|nan), not a string: give only rows that have one"),
    ([Path("a.txt")], r"not a string: give docsplit_hf.read_file\('a.txt'\).text"),
    (pd.DataFrame({"text": ["a", None]}), "Text 1 is None, not a string"),
    (pd.DataFrame({"body": ["a"]}), "no column 'text' among \\['body'\\]"),
    (Dataset.from_dict({"body": ["a"]}), "no column 'text' among \\['body'\\]"),
    ("one text", "got one string: pass \\[text\\]"),
    ([{"text": "a", "pair": "b"}], "a pair is a dictionary with 'text' and 'text_pair'"),
    ([{"text": "a", "text_pair": 1}], "Text pair 0 is 1, not a string"),
], ids=str)  # fmt: skip
def test_input_without_texts_is_refused(given, said):
    with pytest.raises(TypeError, match=said):
        texts_and_pairs(given)


@pytest.mark.parametrize("labels, said", [
    (["a", None], "leave it out"), (["a", float("nan")], "leave it out"), ([["a"], [None]], "leave it out"),
    (pd.Series([1, None], dtype="Int64"), "leave it out"), (["a", 0.5], "whole numbers"), ([{"a": 1}], "whole numbers"),
], ids=str)  # fmt: skip
def test_invalid_labels_are_refused(labels, said):
    with pytest.raises(TypeError, match=f"The label of text . is .*, not a name: .*{said}"):
        names_of_labels(labels)


@pytest.mark.parametrize("labels, names", [
    ([0, 1], ["0", "1"]), ([1.0, 2.0], ["1", "2"]), ([True, False], ["true", "false"]), (["a", 7], ["a", "7"]),
    (np.array([0, 1]), ["0", "1"]), (np.array([True, False]), ["true", "false"]), (pd.Series([3, 4]), ["3", "4"]),
    ([[1], [1, 2]], [["1"], ["1", "2"]]),
], ids=str)  # fmt: skip
def test_numbers_and_bools_become_text_which_is_logged_once(labels, names, caplog):
    assert names_of_labels(labels) == names
    assert len(caplog.records) == 1 and "are converted to text" in caplog.text


def test_names_are_kept_silently(caplog):
    assert names_of_labels([("a", "b"), []]) == [["a", "b"], []] and names_of_labels(["007"]) == ["007"]
    assert not caplog.records
