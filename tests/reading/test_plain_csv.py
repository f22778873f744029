"""The reader without pandas gives the rows of pandas."""

import csv
import importlib.util
import io

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docsplit_hf.classifier.row_files import read_rows, write_rows
from docsplit_hf.reading.csv_files import csv_records

# Not "\r": in short rows, pandas drops cells of it.
CELL = st.text(st.sampled_from("ab \",;\n\té1'="), max_size=8).filter(lambda cell: not cell or cell.strip())
NAME = st.sampled_from(["a", "b", "text", "", "a.1"])


@st.composite
def tables(draw):
    width = draw(st.integers(1, 4))
    header = draw(st.lists(NAME, min_size=width, max_size=width))
    shorter = st.integers(max(1, width - 1), width)
    rows = draw(st.lists(shorter.flatmap(lambda count: st.lists(CELL, min_size=count, max_size=count)), max_size=5))
    return [header, *rows]


@given(tables(), st.sampled_from(["\n", "\r\n"]), st.sampled_from([",", ";"]))
def test_rows_are_those_of_pandas(table, line_end, separator):
    file = io.StringIO(newline="")
    csv.writer(file, delimiter=separator, lineterminator=line_end).writerows(table)
    content = file.getvalue()
    converters = dict.fromkeys(range(len(table[0])), str)
    expected = pd.read_csv(io.StringIO(content), sep=separator, na_filter=False, converters=converters)
    found = list(csv_records(io.StringIO(content, newline=""), separator))
    assert found == expected.to_dict("records")


@pytest.fixture
def without_pandas(monkeypatch):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "pandas" else find_spec(name))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a,b\n1,2,3\n", "Expected 2 fields in line 2, saw 3"),
        ('a\n"open\n', "EOF inside string"),
        ("", "it is empty"),
    ],
)
def test_damaged_files_are_named(tmp_path, without_pandas, content, said):
    (tmp_path / "rows.csv").write_text(content)
    with pytest.raises(ValueError, match=f"rows.csv cannot be used: .*{said}"):
        list(read_rows(tmp_path / "rows.csv"))


def test_long_fields_and_what_safe_csv_wrote_are_read(tmp_path, without_pandas):
    rows = [{"text": "=1+1", "n": "2"}, {"text": "a" * 200_000, "n": ""}]
    write_rows(tmp_path / "rows.csv", lambda: rows, ["text", "n"], safe_csv=True)
    assert "'=1+1" in (tmp_path / "rows.csv").read_text()
    assert list(read_rows(tmp_path / "rows.csv")) == rows
