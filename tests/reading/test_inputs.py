"""Texts and pairs in any form, and files among them, as rows in their order."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from datasets import Dataset

from docsplit_hf.reading.files.failures import FailedFile
from docsplit_hf.reading.files.finding import FileInput
from docsplit_hf.reading.files.workers import Worker
from docsplit_hf.reading.inputs import InputRow, as_list, read_inputs, texts_and_pairs

TEXTS = [f"Text {i}." for i in range(9)]
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
def test_columns_and_tables_keep_their_order(form):
    given = TABLES[form](TEXTS)
    assert as_list(given) == TEXTS and isinstance(as_list(given), list)
    assert texts_and_pairs(given) == (TEXTS, [None] * 9)


@pytest.mark.parametrize("table", [pd.DataFrame, Dataset.from_dict], ids=["frame", "data set"])
def test_tables_of_pairs(table):
    columns = {"text": ["a", "b"], "text_pair": ["c", None]}
    assert texts_and_pairs(table(columns)) == (["a", "b"], ["c", None])


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


def test_rows_keep_the_numbers_and_origins_of_their_inputs(tmp_path):
    (tmp_path / "a.txt").write_text("From a file.")
    missing = FileInput(tmp_path / "b.txt", "b")
    pair = {"text": "x", "text_pair": "y"}
    read = list(read_inputs(["One.", tmp_path / "a.txt", missing, pair, InputRow(7, "Read before.")]))
    assert [type(one) for one in read] == [InputRow, InputRow, FailedFile, InputRow, InputRow]
    assert [one.number for one in read if isinstance(one, InputRow)] == [0, 1, 3, 4]
    assert read[1].text == "From a file." and read[1].origin.file == (tmp_path / "a.txt").as_posix()
    assert read[2].file == "b" and read[3].pair == "y" and list(read_inputs(read)) == read


def test_files_are_read_ahead_by_one_set_of_processes_and_texts_are_not(tmp_path, monkeypatch):
    started = []
    make = Worker.__init__
    monkeypatch.setattr(Worker, "__init__", lambda self: (started.append(self), make(self))[1])
    monkeypatch.setattr("docsplit_hf.reading.files.reader.core_count", lambda: 1)
    monkeypatch.setattr("huggingface_hub.constants.HF_HOME", str(tmp_path / "home"))
    taken = []

    def stream():
        for number in range(4):
            taken.append(number)
            yield "A text." if number < 2 else path

    path = tmp_path / "a.txt"
    path.write_text("From a file.")
    rows = read_inputs(stream())
    assert next(rows).text == "A text." and taken == [0]
    assert next(rows).number == 1 and taken == [0, 1]
    assert next(rows).text == "From a file." and taken == [0, 1, 2, 3]
    assert next(rows).number == 3 and len(started) == 1
