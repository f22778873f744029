import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.tasks.citation_pairs import PairTask, _decode, has_citation_pairs, read_citation_pairs
from tests.experiments.evaluation.test_tasks import write_rows

TEXTS = {
    "P1": "We study\tparsing.\nSentence two.",
    "P2": "Il était une fois — 'naïve' \"quotes\".",
    "P3": "Plain text.",
}


def write_lra(folder, rows, encode=lambda text: str(text.encode()), splits=("train", "eval", "test")):
    for split in splits:
        lines = ["\t".join([label, a, b, encode(TEXTS[a]), encode(TEXTS[b])]) for label, a, b in rows]
        (folder / f"new_aan_pairs.{split}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_json(folder, documents, pairs, ending="jsonl"):
    for name, rows in {"docs": documents, "train": pairs, "test": pairs}.items():
        write_rows(folder / f"{name}.{ending}", rows)


def test_the_files_of_the_long_range_arena_are_read(tmp_path):
    write_lra(tmp_path, [("1.0", "P1", "P2"), ("0.0", "P2", "P3"), ("0.0", "P1", "P3")])
    assert has_citation_pairs(tmp_path)
    pairs = read_citation_pairs(tmp_path, "AAN")
    assert (pairs.name, pairs.documents_by_id) == ("AAN", TEXTS)
    assert pairs.train == pairs.test == [("P1", "P2", 1), ("P2", "P3", 0), ("P1", "P3", 0)]
    write_lra(tmp_path, [("1", "P2", "P3"), ("0", "P3", "P2")], encode=str)  # plain texts are left as they are
    assert read_citation_pairs(tmp_path, "AAN").documents_by_id == {"P2": TEXTS["P2"], "P3": TEXTS["P3"]}


@given(st.text())
def test_every_text_is_decoded_from_pythons_bytes_and_no_field_crashes(text):
    text = text.encode("utf-8", "replace").decode()
    assert _decode(str(text.encode())) == text
    assert isinstance(_decode("b'" + text), str | None)


def test_lines_that_cannot_be_used_are_dropped_and_counted(tmp_path, caplog):
    write_lra(tmp_path, [("1.0", "P1", "P2"), ("0.0", "P2", "P3")])
    with (tmp_path / "new_aan_pairs.train.tsv").open("a") as file:
        file.write(
            "\nonly two\tfields\n0.5\tP1\tP2\ta\tb\nno\tP1\tP2\ta\tb\n1.0\tP1\tP9\ta\tb'broken\n1.0\tP1\tP8\ta\t \n"
        )
    with caplog.at_level(logging.WARNING, "experiments"):
        assert len(read_citation_pairs(tmp_path, "AAN").train) == 2
    assert "train: kept 2 of 8 pairs." in caplog.text
    assert "2 no label, 1 of 1 fields instead of 5, 1 of 2 fields instead of 5, 2 without a document" in caplog.text


@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz"])
def test_documents_and_pairs_are_read(tmp_path, ending):
    documents = [{"id": key, "title": "", "abstract": "x", "text": text} for key, text in TEXTS.items()]
    rows = [{"id_a": "P1", "id_b": "P2", "label": "1"}, {"id_a": "P2", "id_b": "P2", "label": 0}]
    write_json(tmp_path, documents, rows, ending)
    assert has_citation_pairs(tmp_path)
    pairs = read_citation_pairs(tmp_path, "AAN")
    assert pairs.documents_by_id == {"P1": TEXTS["P1"], "P2": TEXTS["P2"]}  # P3 is in no pair
    assert pairs.train == [("P1", "P2", 1), ("P2", "P2", 0)]


def test_a_fingerprint_changes_with_the_documents_and_the_pairs():
    pairs = [("a", "b", 1), ("b", "a", 0)]
    tasks = [PairTask("p", dict.fromkeys("ab", text), pairs[:n], pairs) for text in ("One.", "Two.") for n in (1, 2)]
    assert len({task.fingerprint for task in tasks}) == 4
