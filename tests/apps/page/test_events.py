"""Events without a page, mostly bad uploads."""

import json
import secrets

import pytest
from huggingface_hub import constants

from docsplit_hf.apps.page.sessions import PageLimits

BINARY = "is not a text file: open it in the program that made it"
NO_ROW = "has a line with the names of columns, and no row below it: add the texts there"
NO_OBJECT = "holds no row: write an object for each text"
REFUSED = [
    ("empty.csv", b"", "it is empty"),
    ("empty.json", b"", "it is empty"),
    ("empty.jsonl", b"", "is empty"),
    ("empty.txt", b"", "is empty"),
    ("spaces.csv", b"  \n \n", NO_ROW),
    ("blank.txt", b"\n\n \n", "No row has a text in the column 'text'"),
    ("header.csv", b"text,label\n", NO_ROW),
    ("header_without_end.csv", b"text,label", NO_ROW),
    ("header_with_mark.csv", b"\xef\xbb\xbftext,label\r\n", NO_ROW),
    ("header.tsv", b"text\tlabel\n", NO_ROW),
    ("no_texts.csv", b"text,label\n,a\n,b\n", "No row has a text in the column 'text'; the first one holds ''"),
    ("more.csv", b"text,label\na,b,c\nd,e\n", "more fields than its header: quote texts that hold the separator"),
    ("quote.csv", b'text,label\n"a,b\nc,d\n', "a quotation mark is opened and never closed"),
    ("long.csv", b"text,label\n" + b"a" * 300_000 + b",b\n", "Text 1 has 300,000 characters"),
    ("long_label.csv", b"text,label\na," + b"b" * 5_000 + b"\n", "has 5,000 characters, and this page takes 200"),
    ("labels.csv", b"text,label\n" + b"".join(b"a %d,b %d\n" % (i, i) for i in range(300)), "300 different labels"),
    ("rows.csv", b"text\n" + b"a\n" * 20_000, "20,000|10,001 texts or more"),
    ("utf16.csv", "text,label\nUber,u\n".encode("utf-16-le"), BINARY),
    ("utf32.csv", "text,label\nÜber,ü\n".encode("utf-32"), BINARY),
    ("picture.csv", b"\x89PNG\r\n\x1a\n\0\0\0", BINARY),
    ("workbook.csv", b"PK\x03\x04\x14\0\x06\0", BINARY),
    ("print.txt", b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n1 0 obj\n", BINARY),
    ("letter.txt", b"{\\rtf1\\ansi A letter}", BINARY),
    ("site.csv", b"<html><body>\n<p>a, b</p>\n</body></html>\n", "more fields than its header"),
    ("list.json", b"[]", NO_OBJECT),
    ("object.json", b"{}", NO_OBJECT),
    ("objects.jsonl", b"{}\n{}\n", NO_OBJECT),
    ("number.json", b"3", "not an object with columns"),
    ("null.json", b"null", "not an object with columns"),
    ("strings.json", b'["a", "b"]', "not an object with columns"),
    ("array.jsonl", b'["a"]\n', "not an object with columns"),
    ("broken.json", b'[{"text": "a"', "is not JSON"),
    ("broken.jsonl", b'{"text": "a"}\n{"text": "b"\n', "Row 2 of broken.jsonl is not JSON"),
    ("deep.json", b"[" * 100_000, "its brackets are nested too deep"),
    ("nested.json", b'[{"text": {"a": 1}}]', "No row has a text in the column 'text'"),
    ("wrapped.json", b'{"data": [{"text": "a"}]}', "No row has a text in the column 'data'"),
    ("numbers.jsonl", b'{"text": 3, "label": "a"}\n', "the first one holds '3': choose another column"),
    ("lists.json", b'[{"text": "a", "label": ["x", "y"]}]', "give names or whole numbers"),
]
ACCEPTED = [  # counts of labeled texts, labels and unlabeled texts; warning
    ("column.csv", b"text\na river\na lake\n", (0, 0, 2), None),
    ("one_label.csv", b"text,label\na river,x\na lake,x\n", (2, 1, 0), None),
    ("no_labels.csv", b"text,label\na river,\na lake,\n", (0, 0, 2), None),
    ("fewer.csv", b"text,label\na\nd,e\n", (1, 1, 1), None),
    ("twice.csv", b"text,text,label\na,b,c\n", (1, 1, 0), None),
    ("first.csv", b"The river is long\nThe lake is deep\n", (0, 0, 1), "looks like a text. If it is one, write a line"),
    ("old.csv", b"text,label\rA river,x\rA lake,x\r", (2, 1, 0), None),
    ("cp1252.csv", "text,label\nÜber,ü\n".encode("cp1252"), (1, 1, 0), "is read as cp1252"),
    ("nan.json", b'[{"text": "a river", "label": NaN}]', (0, 0, 1), None),
    ("lone.jsonl", b'{"text": "\\ud800 a", "label": "\\udfff"}\n', (1, 1, 0), None),
]


@pytest.fixture(scope="module")
def events_module():
    """It is imported here, since gradio takes seconds to import in each worker."""
    from docsplit_hf.apps.page import events

    return events


@pytest.fixture
def events(events_module, shared, tmp_path, monkeypatch):
    monkeypatch.setattr(constants, "HF_HOME", str(tmp_path / "home"))
    return events_module.Events(shared, PageLimits())


def choices_of(events, path):
    """Values of the choices of a file after it is chosen."""
    shown = events.choose_columns("file", [str(path)])
    values = [shown[f"file_{part}"] for part in ("text", "label", "encoding")]
    return [getattr(one, "value", None) for one in values]  # None without a component


@pytest.mark.parametrize(("name", "content", "sentence"), REFUSED, ids=[name for name, *_ in REFUSED])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_bad_upload_is_refused_with_a_sentence_when_it_is_chosen_or_added(events, tmp_path, name, content, sentence):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ValueError, match=sentence) as refused:
        events.add_files(secrets.token_urlsafe(32), [str(path)], *choices_of(events, path))
    assert str(tmp_path) not in str(refused.value) and len(str(refused.value)) < 400


@pytest.mark.parametrize(("name", "content", "counts", "warning"), ACCEPTED, ids=[name for name, *_ in ACCEPTED])
def test_an_unusual_upload_is_accepted_with_a_warning(events, tmp_path, recwarn, name, content, counts, warning):
    path = tmp_path / name
    key = secrets.token_urlsafe(32)
    path.write_bytes(content)
    chosen = choices_of(events, path)
    messages = [str(one.message) for one in recwarn.list]
    events.add_files(key, [str(path)], *chosen)
    assert events.sessions[key].counts() == counts
    assert any(warning in message for message in messages) if warning else not messages


def test_a_file_with_many_columns_shows_the_first_ones(events, tmp_path):
    from docsplit_hf.apps.page.component_values import MAX_SHOWN_COLUMNS

    path = tmp_path / "wide.json"
    path.write_text(json.dumps([{f"column {number}": "a river" for number in range(3_000)}]))
    shown = events.choose_columns("file", [str(path)])
    assert len(shown["file_rows"].headers) == MAX_SHOWN_COLUMNS and len(shown["file_text"].choices) == 3_000


def test_files_of_a_zone_are_a_table_or_documents(events, tmp_path):
    key = secrets.token_urlsafe(32)
    page = tmp_path / "page.html"
    page.write_text("<p>The river flows to the sea.</p>")
    shown = events.choose_columns("file", [str(page)])
    assert shown["docs_label"].visible and not shown["file_text"]["visible"]
    added = events.add_files(key, [str(page)], None, None, None, "water")
    assert events.sessions[key].labels == ["water"] and added["docs_label"] == ""
    listed = events.search(key)["listed"].value["data"]
    assert listed == [["water", "page.html: The river flows to the sea."]]
    assert len(events.search(key, "PAGE.htm")["listed"].value["data"]) == 1
    tables = [tmp_path / name for name in ("a.csv", "b.csv")]
    for table in tables:
        table.write_text("text\nThe star shines.\n")
    with pytest.raises(ValueError, match="a.csv and b.csv are both tables: choose one at a time"):
        events.choose_columns("file", [str(table) for table in tables])
    (tmp_path / "other.html").write_text("<p>The train leaves at noon.</p>")
    events.add_files(key, [str(tmp_path / "other.html")], None, None, None, "")
    assert events.suggest(key)["suggested_text"].label.startswith("other.html: ")
    for zone in (events.choose_columns("new", [str(page)]), events.choose_columns("new", [str(tables[0])])):
        assert zone["new_ocr"].visible != getattr(zone["new_text"], "visible", False)
    for file, headers, first in (
        (tables[0], ["Text", "Label", "Reason", "Sure"], "The star shines."),
        (page, ["File", "Label", "Page", "Reason", "Sure"], "page.html"),
    ):
        answered = events.classify(key, [str(file)], False, 10, "text")["answer_rows"]
        assert answered.headers == headers and answered.value["data"][0][:2] == [first, "water"]
