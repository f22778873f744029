import json

import pytest

from docsplit_hf.demo.limits import Limits
from docsplit_hf.demo.read_texts import columns_of, example_texts, pasted_texts, texts_of_file

SMALL = Limits(rows=3, labels=2, characters=20)


def test_pasted_lines():
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
    assert columns_of(path) == ["text", "label"]
    assert texts_of_file(path, "text", "label", SMALL) == (["a; b", "c"], ["1", None], 1)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.csv", b"text,label\na,b\nc,d\ne,f\ng,h\n", "These are 4 texts or more, and this page takes 3"),
        ("a.csv", b"text,label\na,b\nc,d\ne,f\n", "There are 3 different labels, and this page takes 2"),
        ("a.csv", b"text,label\n" + b"a" * 21 + b",b\n", "Text 1 has 21 characters, and this page takes 20"),
        ("a.csv", b"text,label\ncaf\xe9,b\n", "^a.csv is not encoded in UTF-8"),
        ("a.csv", b'text,label\n"a,b\n', "^a.csv cannot be used"),
        ("a.csv", b"words,label\na,b\n", "^a.csv has no column 'text'"),
        ("a.csv", b"", "^a.csv cannot be used"),
        ("a.jsonl", b'{"text": "a", "label": ["b", "c"]}', "The label of row 1 is .* one name for each text"),
        ("a.jsonl", b'{"text": "a"', "^a.jsonl cannot be used.*not JSON|^Row 1 of a.jsonl is not JSON"),
        ("a.csv.gz", b"", "^a.csv.gz is of no kind that this page reads"),
    ],
)
def test_what_cannot_be_used_is_told_in_a_sentence_without_the_servers_paths(tmp_path, name, content, sentence):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ValueError, match=sentence) as error:
        texts_of_file(path, "text", "label", SMALL)
    assert str(tmp_path) not in str(error.value)


def test_the_example_texts_have_a_long_one_at_the_end():
    given = example_texts()
    assert len(given.texts) == 73 and len(given.texts[-1].split()) > 150 and given.labels[-1] is None
