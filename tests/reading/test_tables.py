"""Files with unusual names, endings, encodings and separators, damaged files, and files read in ranges."""

import contextlib
import gzip
import itertools
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from docsplit_hf import load_documents, load_labeled_examples
from docsplit_hf.reading.source import load_path
from docsplit_hf.reading.tables import byte_ranges, lines_between

TEXTS = [f"Café {i}, or tea?" for i in range(30)]
LABELS = ["yes", "no", "maybe"] * 10


def content(ending, texts=TEXTS, labels=LABELS, separator=","):
    """What a file with this ending holds."""
    if ending == "txt":
        return "".join(text + "\n" for text in texts)
    if ending == "jsonl":
        rows = [{"text": text, "label": label} for text, label in zip(texts, labels, strict=True)]
        return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    lines = [f'"{text}"{separator}{label}\n' for text, label in zip(texts, labels, strict=True)]
    return f"text{separator}label\n" + "".join(lines)


def write(path, content, encoding="utf-8"):
    data = content.encode(encoding)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(data) if path.suffix.lower() == ".gz" else data)
    return path


# Names

names = st.text(st.sampled_from("a1[]*?{}!-~%#:;,+&@$'\"\\ .é"), min_size=1, max_size=8)
names = names.filter(lambda name: name.strip("."))
ENDINGS = ["csv", "jsonl", "txt", "csv.gz", "jsonl.gz", "txt.gz"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=names, in_folder=st.booleans(), ending=st.sampled_from(ENDINGS), streaming=st.booleans())
@example(name="a[1]", in_folder=False, ending="csv", streaming=False)
@example(name="a[1]", in_folder=True, ending="jsonl", streaming=True)
@example(name="c [2024]", in_folder=True, ending="txt", streaming=False)
@example(name="**", in_folder=True, ending="csv", streaming=False)
@example(name="a[1]", in_folder=False, ending="csv.gz", streaming=False)
@example(name="a\\b", in_folder=False, ending="csv.gz", streaming=True)
def test_a_path_is_taken_literally_or_refused(tmp_path_factory, name, in_folder, ending, streaming):
    folder = tmp_path_factory.mktemp("names")
    place = f"{{}}/x.{ending}" if in_folder else f"{{}}.{ending}"
    kind = ending.removesuffix(".gz")
    for decoy in ("a", "a1", "1", "c 2", "aa", "a/b"):
        write(folder / place.format(decoy), content(kind, ["Decoy."], ["x"]))
    path = write(folder / place.format(name), content(kind))
    if "::" in name and kind == "jsonl":
        with pytest.raises(ValueError, match="rename it"):
            load_path(path, streaming=streaming)
        return
    may_refuse = kind != ending and set(name) & set("[]*\\:")
    with contextlib.suppress(ValueError) if may_refuse else contextlib.nullcontext():
        assert [row["text"] for row in load_path(path, streaming=streaming)] == TEXTS


@pytest.mark.parametrize("streaming", [False, True])
def test_a_folder_with_brackets_and_a_relative_path(tmp_path, monkeypatch, streaming):
    monkeypatch.chdir(tmp_path)
    for i, text in enumerate(TEXTS):
        write(Path("c [2024]", "#1" if i % 2 else "50%", f"{i}*.TXT"), text)
    write(Path("c 2", "1.txt"), "Decoy.")
    splits = load_documents("c [2024]", streaming=streaming, test_size=3)
    assert sorted(row["text"] for split in splits.values() for row in split) == sorted(TEXTS)
    assert sorted(load_labeled_examples("c [2024]")["train"].features["label"].names) == ["#1", "50%"]
    write(Path("a[1].csv"), content("csv"))
    write(Path("a1.csv"), content("csv", ["Decoy."], ["x"]))
    assert load_path(Path("a[1].csv")).column_names == ["text", "label"]
    assert len(load_labeled_examples("a[1].csv", validation_size=0)["train"]) == 30


# Endings, separators, encodings


@pytest.mark.parametrize("ending", ["CSV", "Csv.gz", "csv.GZ", "TSV", "tsv.gz", "JSONL", "jsonl.GZ"])
@pytest.mark.parametrize("load", [load_documents, load_labeled_examples])
def test_endings_of_files_are_read_in_any_case(tmp_path, ending, load):
    kind = ending.lower().removesuffix(".gz")
    text = content("jsonl" if kind == "jsonl" else "csv", separator="\t" if kind == "tsv" else ",")
    splits = load(write(tmp_path / f"train.{ending}", text))
    assert sorted(text for split in splits.values() for text in split["text"]) == sorted(TEXTS)
    assert set(load(tmp_path)) == {"train", "validation"} if load is load_labeled_examples else True


@pytest.mark.parametrize(("separator", "streaming"), [(";", False), ("\t", True), ("|", True)])
def test_another_separator_is_an_option_and_an_error_suggests_it(tmp_path, separator, streaming):
    file = write(tmp_path / "a.csv", content("csv", separator=separator))
    for load in (load_documents, load_labeled_examples, lambda path: load_path(path, streaming)):
        with pytest.raises(ValueError, match=r"a.csv .* one column, .* pass csv_separator="):
            load(file)
    shell = separator.replace("\t", "\\t")
    splits = load_documents(file, streaming=streaming, test_size=3, csv_separator=shell)
    assert sorted(row["text"] for split in splits.values() for row in split) == sorted(TEXTS)
    assert len(load_labeled_examples(file, csv_separator=separator)["validation"]) == 3
    assert load_path(file, csv_separator=separator).column_names == ["text", "label"]


@pytest.mark.parametrize(("ending", "streaming"), [("csv", False), ("csv.gz", True), ("txt", True), ("jsonl", False)])
@pytest.mark.parametrize("encoding", ["cp1252", "utf-16", "utf-8-sig"])
def test_texts_are_read_in_each_encoding(tmp_path, ending, encoding, streaming):
    file = write(tmp_path / f"a.{ending}", content(ending.removesuffix(".gz")), encoding)
    options = {"encoding": encoding} if encoding == "cp1252" else {}
    if encoding == "utf-16" and ending == "jsonl":
        with pytest.raises(ValueError, match="a.jsonl .* in utf-16, and JSON is read in UTF-8"):
            load_documents(file)
    else:
        splits = load_documents(file, streaming=streaming, test_size=3, **options)
        assert sorted(row["text"] for split in splits.values() for row in split) == sorted(TEXTS)
    if ending != "txt":
        splits = load_labeled_examples(file, **options)
        assert sorted(text for split in splits.values() for text in split["text"]) == sorted(TEXTS)
    if encoding == "cp1252":
        for load in (load_documents, load_labeled_examples):
            with pytest.raises(ValueError, match=r"a\..* cannot be used: .*utf-8.* encoding='cp1252'"):
                load(file)


def test_the_encoding_of_texts_in_a_folder(tmp_path):
    for i, text in enumerate(TEXTS):
        write(tmp_path / f"{i}.txt", text, "cp1252")
    for streaming in (False, True):
        with pytest.raises(ValueError, match=r"0.txt cannot be used: .* encoding='cp1252'"):
            load_documents(tmp_path, streaming=streaming, test_size=3)
        splits = load_documents(tmp_path, streaming=streaming, test_size=3, encoding="cp1252")
        assert sorted(row["text"] for split in splits.values() for row in split) == sorted(TEXTS)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("a.csv", {"encoding": "klingon"}, "no encoding 'klingon'"),
        ("a.csv", {"csv_separator": ";;"}, "csv_separator must be one character, got ';;'"),
        ("a.txt", {"csv_separator": ";"}, "a.txt .*is not a .csv file, and csv_separator=';'"),
        ("a.jsonl", {"csv_separator": ";"}, "a.jsonl .*is not a .csv file, and csv_separator=';'"),
        ("a.parquet", {"encoding": "cp1252"}, "a.parquet .*is not a text file, and encoding='cp1252'"),
    ],
)
@pytest.mark.parametrize("load", [load_documents, load_labeled_examples])
def test_unsuitable_options_are_refused(tmp_path, name, options, message, load):
    write(tmp_path / name, content("jsonl"))
    with pytest.raises(ValueError, match=message):
        load(tmp_path / name, **options)


# Nothing in it, or broken

table = pa.table({"text": TEXTS, "label": LABELS})


def parquet(table):
    sink = pa.BufferOutputStream()
    pyarrow.parquet.write_table(table, sink)
    return sink.getvalue().to_pybytes()


compressed = gzip.compress("".join(str(i * 7919 % 10007) + ",x\n" for i in range(5000)).encode())
BROKEN = {
    "header.csv": b"text,label\n",
    "header.tsv": b"text\tlabel\n",
    "empty.csv": b"",
    "empty.jsonl": b"",
    "lines.jsonl": b"\n\n",
    "list.json": b"[]",
    "empty.txt": b"",
    "empty.parquet": parquet(table.slice(0, 0)),
    "bytes.parquet": b"",
    "nothing.csv.gz": gzip.compress(b""),
    "cut.parquet": parquet(table)[:-30],
    "cut.csv.gz": compressed[: len(compressed) // 2],
    "cut.jsonl.gz": gzip.compress(content("jsonl").encode())[:-20],
    "wrong.txt.gz": compressed[:500] + b"xxxx" + compressed[504:],
    "plain.csv.gz": b"text,label\n",
    "words.jsonl": b"hello\n",
    "commas.csv": b"text,label\nOne, two.,a\nThree, four.,b\n",
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_file_that_is_empty_or_broken_is_named(tmp_path, name):
    (tmp_path / name).write_bytes(BROKEN[name])
    for load in (
        load_documents,
        lambda path: list(load_documents(path, streaming=True)["train"]),
        load_labeled_examples,
    ):
        with pytest.raises(ValueError, match=rf"{name} cannot be used: ([Ii]t |\w).*\w") as caught:
            load(tmp_path / name)
        assert "Instruction" not in str(caught.value) and "features" not in str(caught.value)


@pytest.mark.parametrize("streaming", [True, False])
def test_a_relative_path_is_named_once(tmp_path, monkeypatch, streaming):
    monkeypatch.chdir(tmp_path)
    Path("commas.csv").write_text("text,label\nOne.,a\nTwo, three.,b\n")
    with pytest.raises(ValueError, match="commas.csv cannot be used: Expected 2 fields") as caught:
        list(load_documents("commas.csv", streaming=streaming, test_size=1)["train"])
    assert str(caught.value).count("cannot be used") == 1


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_a_changed_file_is_read_again(tmp_path, ending):
    for count in (30, 10):
        file = write(tmp_path / f"a.{ending}", content(ending, TEXTS[:count], LABELS[:count]))
        assert len(load_labeled_examples(file, validation_size=0)["train"]) == count


def test_each_line_begins_in_one_range(tmp_path):
    file = tmp_path / "lines"
    for content in (b"one\n\ntwo\r\n" + "drei \u00e4\n".encode() * 3 + b"last", b"\n\n", b"one", b""):
        file.write_bytes(content)
        for bounds in itertools.combinations_with_replacement(range(len(content) + 1), 3):
            ranges = itertools.pairwise([0, *bounds, len(content)])
            lines = [line for start, end in ranges for line in lines_between(file, start, end)]
            assert lines == content.splitlines(keepends=True)
    assert byte_ranges(0) == [(0, 0)] and byte_ranges(200_000) == [(0, 66666), (66666, 133333), (133333, 200000)]
    assert len(byte_ranges(10**9)) == 240
