"""The reader without pandas gives the rows of pandas; cells that a spreadsheet would run are guarded and restored."""

import csv
import importlib.util
import io

import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from docsplit_hf.classifier.row_files import read_rows, write_rows
from docsplit_hf.reading.csv_files import csv_records, harmless_cell, original_cell

# Not "\r": in short rows, pandas drops cells of it.
CELL = st.text(st.sampled_from("ab \",;\n\té1'="), max_size=8).filter(lambda cell: not cell or cell.strip())
NAME = st.sampled_from(["a", "b", "text", "", "a.1"])
NASTY = st.text(st.sampled_from("'=+-@＝\t\r\n ;,\"a1\u00a0"), max_size=8) | st.text()
NUMBERS = st.integers().map(str) | st.floats(allow_nan=False, allow_infinity=False).map(str)


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


def is_number(cell):
    try:
        float(cell.replace(",", ".").rstrip("%"))
    except ValueError:
        return False
    return True


def is_formula(cell):
    """Whether a spreadsheet may take a cell for a formula, by OWASP's list."""
    return not is_number(cell) and cell.lstrip().startswith(tuple("=+-@＝＋－＠"))


@given(NASTY)
@example('=HYPERLINK("http://example.org/?"&A1)')
@example("'=1")
@example("''=1")
@example("'\t=1")
@example("a;'=1;''=2")
def test_cells_are_guarded_and_restored(text):
    safe = harmless_cell(text)
    assert not is_formula(safe) and not safe.startswith(("\t", "\r", "\n"))
    assert original_cell(safe) == text


@given(NUMBERS | st.sampled_from(["-1.5", "+1", "-1,234.5", "-0.1e-5", "-12%", "-.5"]))
def test_numbers_are_not_guarded(number):
    assert harmless_cell(number) == number == original_cell(number)


@pytest.mark.parametrize("text", ["", "a - b", "e-mail", "a=b", "don't", "'quoted'", "1. -2", "3+4", "a@example.org"])
def test_other_texts_are_unchanged(text):
    assert harmless_cell(text) == text == original_cell(text)


@pytest.mark.parametrize("text", ["-1+1", "+49 170 1", "-5 ;=1", "- a point", "-A1", "-1e", "@SUM(1)", "\u00a0=1"])
def test_formulas_similar_to_numbers_or_texts_are_guarded(text):
    assert harmless_cell(text).startswith("'")


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@given(rows=st.lists(st.lists(NASTY, min_size=2, max_size=3), min_size=1, max_size=3))
@example(rows=[["-1", ""]])
@example(rows=[["a", "b;=1"], ["a", "b\n=1"], ["a", "b\r\n- c"], ["a", "b\t@c"], ["a", 'b;"=1'], ["a;", "=1"]])
def test_a_spreadsheet_with_another_separator_finds_no_formula_either(separator, rows):
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL)
    writer.writerows([[harmless_cell(text) for text in row] for row in rows])
    lines = io.StringIO(file.getvalue(), newline="")
    cells = [cell for row in csv.reader(lines, delimiter=separator) for cell in row]
    # With another separator a number and the cells after it are one cell, such as -1,"": no valid formula, as the cells
    # after the comma are guarded.
    assert not [cell for cell in cells if is_formula(cell) and not is_number(cell.partition(",")[0])]
