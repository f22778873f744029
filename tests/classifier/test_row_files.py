"""Files to classify and files of answers: rows and fields are kept unchanged."""

import datetime

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from docsplit_hf import load_documents, load_labeled_examples
from docsplit_hf.classifier.row_files import ROWS_AT_A_TIME, check_output, check_rows, read_rows, write_rows
from docsplit_hf.reading.characters import on_one_line
from docsplit_hf.reading.csv_files import MARKER, harmless_cell
from docsplit_hf.reading.source import load_path

FIELD = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00\r"))


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
@given(fields=st.lists(st.tuples(FIELD, FIELD), min_size=1, max_size=3))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_written_rows_are_read_back(tmp_path, ending, fields):
    rows = [{"id": first, "text": second} for first, second in fields]
    file = tmp_path / f"rows.{ending}"
    write_rows(file, lambda: rows, ["id", "text"])
    assert list(read_rows(file)) == rows


CELL = st.text(st.sampled_from("'=+-@\t\n\r;,\"a 1"), max_size=6) | st.text(st.characters(codec="utf-8")).filter(
    lambda text: "\0" not in text
)


@given(cells=st.lists(st.tuples(CELL, CELL), min_size=1, max_size=3), name=CELL.map(on_one_line))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_safe_file_is_read_back_unchanged(tmp_path, cells, name):
    file = tmp_path / "rows.csv"
    rows = [{f"{name}id": first, "text": second, "score": -0.5} for first, second in cells]
    columns = list(rows[0])
    write_rows(file, lambda: rows, columns, safe_csv=True)
    read = [{column: str(value) for column, value in row.items()} for row in rows]
    assert list(read_rows(file)) == read
    written = pd.read_csv(file, na_filter=False, dtype={column: str for column in columns[:2]})
    assert written["score"].tolist() == [-0.5] * len(rows)  # a number for others, too
    is_changed = any(cell != harmless_cell(cell) for row in read for cell in (*row, *row.values()))
    assert (MARKER in written) == is_changed


def test_all_readers_restore_a_safe_file(tmp_path):
    labels = ["=sum", "'=sum", "''=sum", "- minus", "@home", "\ttab", "-1.5", "plain"]
    rows = [{"=text": f"+ A text {number}.", "@label": label} for number, label in enumerate(labels * 2)]
    file = tmp_path / "rows.csv"
    write_rows(file, lambda: rows, ["=text", "@label"], safe_csv=True)
    assert load_path(file).column_names == ["=text", "@label"]
    examples = load_labeled_examples(file, text_column="=text", label_column="@label", validation_size=0)["train"]
    names = examples.features["label"].names
    assert [names[label] for label in examples["label"]] == labels * 2
    texts = [row["=text"] for row in rows]
    assert examples["text"][:] == texts
    for streaming in (False, True):
        documents = load_documents(file, text_column="=text", streaming=streaming, test_size=0)["train"]
        assert sorted(row["=text"] for row in documents) == sorted(texts)
        assert list(load_path(file, streaming=streaming)) == rows


def test_apostrophes_in_other_files_are_kept(tmp_path):
    (tmp_path / "rows.csv").write_text("id,text\n'=1,'- a\n")
    assert list(read_rows(tmp_path / "rows.csv")) == [{"id": "'=1", "text": "'- a"}]


def test_rows_with_too_many_fields_are_refused_in_a_safe_file_too(tmp_path):
    (tmp_path / "rows.csv").write_text(f"text,{MARKER}\n'=1,,\n'=1,,\n")
    with pytest.raises(ValueError, match="more fields than its header"):
        list(read_rows(tmp_path / "rows.csv"))
    with pytest.raises(ValueError, match="more fields than its header"):
        load_path(tmp_path / "rows.csv")


def test_the_marker_of_safe_files_is_refused_as_a_column(tmp_path):
    with pytest.raises(ValueError, match="would mark the answers as a file made by safe_csv: rename it"):
        check_rows(tmp_path / "rows.csv", list, ["text", MARKER])
    check_rows(tmp_path / "rows.jsonl", list, ["text", MARKER])
    with pytest.raises(ValueError, match="rows.jsonl: safe_csv is for .csv files"):
        check_output(tmp_path / "rows.jsonl", safe_csv=True)


def test_fields_of_csv_stay_strings(tmp_path):
    (tmp_path / "rows.csv").write_text("\ufeffid,text,n\n007,NA,1.10\n1,,null\n\n2,short\n", encoding="utf-8")
    values = [("007", "NA", "1.10"), ("1", "", "null"), ("2", "short", "")]
    assert [tuple(row.values()) for row in read_rows(tmp_path / "rows.csv")] == values


def test_separators_and_encodings(tmp_path):
    (tmp_path / "rows.csv").write_bytes("id;text\n007;été\n".encode("cp1252"))
    assert list(read_rows(tmp_path / "rows.csv", "text", ";", "cp1252")) == [{"id": "007", "text": "été"}]
    (tmp_path / "rows.tsv").write_bytes("id\ttext\n007\tété\n".encode("utf-16"))
    assert list(read_rows(tmp_path / "rows.tsv")) == [{"id": "007", "text": "été"}]
    (tmp_path / "rows.txt").write_bytes("été\n".encode("cp1252"))
    assert list(read_rows(tmp_path / "rows.txt", encoding="cp1252")) == [{"text": "été"}]


def test_a_folder_of_texts(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "b.txt").write_text("Two.\nLines.")
    (tmp_path / "deep" / "a.txt").write_text("One.")
    assert list(read_rows(tmp_path)) == [{"id": "b.txt", "text": "Two.\nLines."}, {"id": "deep/a.txt", "text": "One."}]


def test_parquet_keeps_types_and_takes_late_values(tmp_path):
    day = datetime.datetime(2024, 1, 31)
    rows = [{"n": number, "day": day, "neighbors": None} for number in range(ROWS_AT_A_TIME)]
    rows += [{"n": ROWS_AT_A_TIME, "day": None, "neighbors": [{"label": "a", "weight": 0.5}]}]
    write_rows(tmp_path / "rows.parquet", lambda: rows, ["n", "day", "neighbors"])
    schema = pq.read_schema(tmp_path / "rows.parquet")
    assert schema.field("n").type == pa.int64() and pa.types.is_timestamp(schema.field("day").type)
    assert list(read_rows(tmp_path / "rows.parquet")) == rows


@pytest.mark.parametrize("name, content, said", [
    ("rows.xls", b"", "The format of .* is unknown"),
    ("rows.txt", b"\xff", "rows.txt cannot be used: .*Give its encoding"),
    ("rows.csv", b"text\n\xff\n", "rows.csv cannot be used: .*Give its encoding"),
    ("rows.csv", b"id;text\n1;One.\n", "pass csv_separator=';'"),
    ("rows.csv", b"", "cannot be used: it is empty"),
    ("rows.csv", b'text\n"open\n', "cannot be used: .*EOF inside string"),
    ("rows.jsonl", b"{", "Row 1 of rows.jsonl is not JSON"),
])  # fmt: skip
def test_unreadable_files_are_named(tmp_path, name, content, said):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=said):
        list(read_rows(tmp_path / name))


@pytest.mark.parametrize("rows, said", [
    (["Hello, world,1", "Bye,2"], "its rows have more fields than its header: quote texts that hold the separator"),
    (["Bye,2"] * ROWS_AT_A_TIME + ["Hello, world,1"], "Expected 2 fields in line 258, saw 3"),
])  # fmt: skip
def test_fields_beyond_the_header_are_refused(tmp_path, rows, said):
    file = tmp_path / "rows.csv"
    file.write_text("\n".join(["text,id", *rows]))
    for read in (load_path, lambda path: list(read_rows(path))):
        with pytest.raises(ValueError, match=f"rows.csv cannot be used: .*{said}"):
            read(file)


def test_endings_of_answers_may_have_any_case(tmp_path):
    check_output(tmp_path / "answers.CSV")
    write_rows(tmp_path / "answers.CSV", lambda: [{"n": 1}], ["n"])
    assert (tmp_path / "answers.CSV").read_text() == "n\n1\n"
