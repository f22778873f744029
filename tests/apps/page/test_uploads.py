"""Reading pasted and uploaded texts, and classifying uploaded files."""

import csv
import json

import pytest

from docsplit_hf.apps.page.plan import write_answers
from docsplit_hf.apps.page.sessions import PageLimits, Session
from docsplit_hf.apps.page.uploads import (
    encoding_of,
    example_texts,
    pasted_texts,
    rows_of_upload,
    rows_to_classify,
    shortened,
    texts_of_file,
)
from docsplit_hf.apps.page.views import answered
from docsplit_hf.fitting.prediction import NO_CONTENT
from docsplit_hf.reading.columns import columns_of

SMALL = PageLimits(rows=3, labels=2, characters=20)


def test_pasted_lines_are_read_with_and_without_labels():
    given = pasted_texts("sport: 3:2 at home\n\n music:a waltz", "a river\n", SMALL)
    assert given == (["3:2 at home", "a waltz", "a river"], ["sport", "music", None], 0)
    with pytest.raises(ValueError, match="Line 2 has no label.*'a waltz'"):
        pasted_texts("sport: won\na waltz", "", SMALL)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", "\ufefftext;label\n\"a; b\";1\nc;\n;2\n"),
        ("a.tsv", 'text\tlabel\na; b\t1\nc\t\n\t2\n'),
        ("a.json", json.dumps([{"text": "a; b", "label": 1}, {"text": "c", "label": None}, {"text": " ", "label": 2}])),
    ],
)  # fmt: skip
def test_rows_without_a_label_stay_and_those_without_a_text_are_counted(tmp_path, name, content):
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    assert columns_of(rows_of_upload(path, SMALL)) == ["text", "label"]
    assert texts_of_file(path, "text", "label", SMALL) == (["a; b", "c"], ["1", None], 1)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.csv", b"text,label\na,b\nc,d\ne,f\ng,h\n", "These are 4 texts or more, and this page takes 3"),
        ("a.csv", b"text,label\na,b\nc,d\ne,f\n", "There are 3 different labels, and this page takes 2"),
        ("a.csv", b"text,label\n" + b"a" * 21 + b",b\n", "Text 1 has 21 characters, and this page takes 20"),
        ("a.csv", b"text,label\ncaf\xe9,b\n", "^a.csv is not encoded in utf-8: choose another"),
        ("a.csv", b'text,label\n"a,b\n', "^a.csv cannot be used"),
        ("a.csv", b"words,label\na,b\n", "^The file has no column 'text', only"),
        ("a.csv", b"PK\x03\x04\x14\x00\x06\x00", "^a.csv is not a text file: .* export it as CSV"),
        ("a.csv", b"", "^a.csv cannot be used"),
        ("a.jsonl", b'{"text": "a", "label": ["b", "c"]}', "is not a class: give names or whole numbers"),
        ("a.jsonl", b'{"text": "a"', "^a.jsonl cannot be used.*not JSON|^Row 1 of a.jsonl is not JSON"),
        ("a.csv.gz", b"", "^This page cannot read a.csv.gz: choose a file that ends in .csv"),
    ],
)
def test_errors_of_bad_files_do_not_show_the_servers_paths(tmp_path, name, content, sentence):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ValueError, match=sentence) as error:
        texts_of_file(path, "text", "label", SMALL)
    assert str(tmp_path) not in str(error.value)


def test_the_example_texts_have_a_long_one_at_the_end():
    given = example_texts()
    assert len(given.texts) == 73 and len(given.texts[-1].split()) > 150 and given.labels[-1] is None


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_an_encoding_is_found_and_labels_stay_as_they_are(tmp_path, encoding):
    path = tmp_path / "a.csv"
    path.write_bytes("body,kind\nÜber Geld – 5 €,true\nça,001\n".encode(encoding))
    found = encoding_of(path)
    assert found == ("cp1252" if encoding == "cp1252" else "utf-8")
    assert texts_of_file(path, "body", "kind", SMALL, found) == (
        ["Über Geld – 5 €", "ça"],
        ["true", "001"],
        0,
    )


def test_a_shortened_text_ends_at_a_word_with_an_ellipsis():
    assert shortened("one two\nthree", 8) == "one two …" and shortened("one\ntwo") == "one two"


def test_labels_that_are_not_strings_are_named_as_in_json(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a", "label": true}\n{"text": "b", "label": 1.0}\n')
    assert texts_of_file(path, "text", "label", SMALL).labels == ["true", "1"]


def test_answers_to_download_are_harmless_in_a_spreadsheet(shared, tmp_path):
    session = Session(shared.new_pipeline(), PageLimits())
    session.pipe.add_examples(["The keeper saved a penalty.", "A waltz in three."], ["=sport()", "@music"])
    path = tmp_path / "texts.jsonl"
    path.write_text(json.dumps({"+text": "- The keeper saved two.", "label": "=old()"}) + "\n")
    session.planned = answered(session, rows_to_classify(path, "+text", session.limits), None)
    target = write_answers(session)
    (one,) = session.planned
    text, label = one.name, one.label
    assert (text, label) == ("- The keeper saved two.", "=sport()")
    with target.open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert row["'+text"] == "'- The keeper saved two." and row["label"] == "'=sport()"
    assert row["input_label"] == "'=old()"
    again = texts_of_file(target, "+text", "label", PageLimits())
    assert (again.texts, again.labels) == (["- The keeper saved two."], ["=sport()"])


def test_rows_without_a_text_get_no_answer(shared, tmp_path):
    session = Session(shared.new_pipeline(), PageLimits())
    session.pipe.add_examples(["The keeper saved a penalty.", "A waltz in three."], ["sport", "music"])
    path = tmp_path / "texts.jsonl"
    path.write_text('{"text": " "}\n{"text": "The keeper saved two."}\n{"text": null}\n')
    planned = answered(session, rows_to_classify(path, "text", session.limits), None)
    assert [(one.label, one.reason) for one in planned] == [(None, NO_CONTENT), ("sport", ""), (None, NO_CONTENT)]
    assert [one.label for one in answered(session, planned[:1], None)] == [None]
