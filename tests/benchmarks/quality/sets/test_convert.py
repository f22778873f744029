"""Data sets read from a clone, split and written as the benchmark of few labels reads them."""

import gzip
import json
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.quality.few_labels.protocol import load_few_labels
from benchmarks.quality.sets.convert import VERSIONS_TRAIN_ROWS, split, write
from benchmarks.quality.sets.listing import SETS
from benchmarks.quality.sets.prepared_sets import PREPARED
from benchmarks.quality.sets.readers import Read, file_of_each_label, jsonl, line_with_label, table
from benchmarks.quality.sets.records import Clone, DataSet, Row, Splits


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    folder = tmp_path_factory.mktemp("clone")
    table_text = 'kind,title,text\nA,"one, two",three\nB,four,five\nC,left,out\n'
    (folder / "table.csv").write_text(table_text, encoding="utf-8")
    (folder / "old.tsv").write_bytes("a\tGrüße\nb\tWelt\n".encode("cp1252"))
    (folder / "lines.txt").write_text("x:1 a text\ny:2 another text\n", encoding="utf-8")
    (folder / "items.jsonl").write_text('{"t": "a", "l": 1}\n{"t": "b", "l": 2}\n', encoding="utf-8")
    (folder / "hard.gz").write_bytes(gzip.compress(b"long words\nmore words\n"))
    (folder / "easy.txt").write_text("words\nwords again\n", encoding="utf-8")
    for command in (
        ["init", "--quiet"],
        ["add", "."],
        ["-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "--quiet", "--message", "Add"],
    ):
        subprocess.run(["git", "-C", str(folder), *command], check=True)
    return Clone(folder=folder, commit="HEAD")


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        (
            table("table.csv", text=("title", "text"), label="kind", names={"A": "first", "B": "second"}),
            [Row("one, two\nthree", "first"), Row("four\nfive", "second")],
        ),
        (table("old.tsv", text=1, label=0, separator="\t"), [Row("Grüße", "a"), Row("Welt", "b")]),
        (
            line_with_label("lines.txt", names=lambda label: label.replace(":", " > ")),
            [Row("a text", "x > 1"), Row("another text", "y > 2")],
        ),
        (jsonl("items.jsonl", text="t", label="l", names={"2": "two"}), [Row("b", "two")]),
        (
            file_of_each_label({"hard.gz": "hard", "easy.txt": "easy"}, parallel=True),
            [
                Row("long words", "hard", group="0"),
                Row("more words", "hard", group="1"),
                Row("words", "easy", group="0"),
                Row("words again", "easy", group="1"),
            ],
        ),
    ],
)
def test_files_are_read_at_a_commit(clone: Clone, read: Read, expected: list[Row]) -> None:
    assert read(clone).train == expected


def data_set(kind: str, **sizes: int) -> DataSet:
    return DataSet(
        name="set", kind=kind, language="en", repository="", commit="", path="", license="", read=Splits, **sizes
    )


def test_no_text_is_in_both_parts() -> None:
    train = [Row(f"Text {number}", "a") for number in range(100)] + [Row("text  5", "b"), Row(" ", "a")]
    test = [Row("TEXT 7", "a"), Row("new", "b")]
    given = split(data_set("topics"), Splits(train=train, test=test))
    assert len(given.train) == 100
    assert given.test == [Row("new", "b")]
    held_out = split(data_set("topics", train_rows=60), Splits(train=train))
    assert len(held_out.test) == 20
    assert len(held_out.train) == 60
    assert not {row.text for row in held_out.train} & {row.text for row in held_out.test}


def test_versions_of_one_text_stay_together() -> None:
    rows = [Row(f"{number} {label}", label, group=str(number)) for number in range(2000) for label in ("old", "new")]
    made = split(data_set("no topics, versions"), Splits(train=rows))
    for part in (made.train, made.test):
        assert set(Counter(row.group for row in part).values()) == {2}
    assert len(made.train) == VERSIONS_TRAIN_ROWS
    assert not {row.group for row in made.train} & {row.group for row in made.test}


def test_what_is_written_is_read_by_the_benchmark(tmp_path: Path) -> None:
    rows = [Row(f"{label} {number}", label, text_pair="and this") for number in range(20) for label in ("a", "b")]
    made = split(data_set("topics"), Splits(train=rows))
    write(made.train, tmp_path / "train.jsonl")
    write(made.test, tmp_path / "test.jsonl")
    task = load_few_labels(tmp_path)
    assert task.names == ["a", "b"]
    assert len(task.pool) == 32
    assert task.test[0]["text_pair"] == "and this"


def test_every_set_is_described_and_recorded() -> None:
    sets = [*PREPARED, *SETS]
    lines = Path("docs/results/few_labels/sets.jsonl").read_text(encoding="utf-8").splitlines()
    recorded = {record["name"]: record for record in map(json.loads, lines)}
    assert [dataset.name for dataset in sets] == list(recorded)
    for dataset in sets:
        assert len(dataset.commit) == 40
        assert set(dataset.kinds) <= {"topics", "no topics", "versions", "many classes", "tree"}
        record = recorded[dataset.name]
        assert record["commit"] == dataset.commit
        assert ("many classes" in dataset.kinds) == (record["classes"] > 40)
