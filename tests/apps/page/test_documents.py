"""Documents on the page: read, added, classified, with pages and failures, by functions of a session."""

import copy
import csv
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from docsplit_hf.apps.page.document_links import ADDRESS, ROUTE, link_to
from docsplit_hf.apps.page.documents import (
    GivenFile,
    add_files,
    below_common_folder,
    folder_labels,
    given_files,
    read_documents,
)
from docsplit_hf.apps.page.plan import write_answers
from docsplit_hf.apps.page.sessions import PageLimits, Session
from docsplit_hf.apps.page.views import answer, answered, find_row
from docsplit_hf.reading.characters import words_of
from docsplit_hf.reading.example_texts import load_example_texts

from ...documents import write_damaged, write_docx, write_pdf

COVER = "Cover sheet of this report, with nothing in it that matters."


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Documents of two labels, and one that cannot be read; the second page of a PDF file is its text."""
    folder = tmp_path_factory.mktemp("documents")
    examples = load_example_texts()
    paths = {"music": [], "cooking": []}
    for label, found in paths.items():
        for i, text in enumerate(examples["text"][examples["label"] == label]):
            if i % 4:
                found.append(str(write_pdf(folder / f"{label} {i}.pdf", [COVER, text])))
            else:
                found.append(str(write_docx(folder / f"{label} {i}.docx", [text])))
    paths["bad"] = [str(write_damaged(folder / "bad.pdf"))]
    return paths


@pytest.fixture(scope="module")
def pipe(shared, files):
    """The pipeline of a session with documents, which are read, embedded and fitted once for all tests."""
    session = Session(shared.new_pipeline(), PageLimits())
    for label in ("music", "cooking"):
        given = read_documents(given_files(files[label][:7] + files["bad"]), session.limits)
        message = add_files(session, given, f" {label} ")
        assert message == "Added 7 texts with 1 label and 0 without. 1 file could not be read: see the list."
        assert given.failed_rows[0][0] == "bad.pdf" and given.failed_rows[0][1].startswith("damaged")
    return session.pipe


@pytest.fixture
def session(pipe):
    return Session(copy.deepcopy(pipe), PageLimits())


def test_documents_are_classified_with_their_pages(session, files):
    asked = files["music"][7:] + files["cooking"][7:] + files["bad"]
    given = read_documents(given_files(asked), session.limits)
    assert given.failed_summary() == " 1 file could not be read: see the list."
    session.planned = answered(session, given.planned, error_rate=None)
    session.unread = given.unread()
    right = sum(one.label in one.name for one in session.planned)
    assert right >= 0.8 * len(session.planned) and len(session.planned) == len(asked) - 1
    for one in session.planned:
        assert one.page in (("page 2", "pages 1, 2") if one.name.endswith(".pdf") else ("",))
        words = one.reason.removeprefix("against it: ").replace("; against it: ", ", ")
        assert one.passage and set(words.split(", ")) <= set(words_of(one.given["text"]))
        if one.name.endswith(".pdf"):
            assert one.link.startswith(f"{ADDRESS}/") and one.link.endswith(f".pdf#page={one.first_page}")
        else:
            assert one.link is None
    with open(write_answers(session), newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["file"] for row in rows][-1] == "bad.pdf" and rows[-1]["reason"].startswith("damaged")
    assert [row["page"] for row in rows[:-1]] == [one.page for one in session.planned]


def test_similar_documents_are_shown_with_file_and_page(session, files, tmp_path):
    long = ["Nothing of interest. " * 60, "The orchestra tuned before the concert, and the choir sang. " * 20]
    add_files(session, read_documents(given_files([write_pdf(tmp_path / "long.pdf", long)]), session.limits), "music")
    text = "The orchestra tuned before the concert, and the choir sang."
    captions = [caption for caption, _ in answer(session, text).neighbors]
    assert all(caption.endswith((".pdf", ".docx")) or ".pdf, page" in caption for caption in captions)
    assert any(caption.endswith("long.pdf, page 2") for caption in captions), captions
    assert find_row(session, session.pipe.datastore.ids[0]).file == "music 0.docx"


def test_documents_without_a_label_are_added_once(session, files):
    given = read_documents(given_files(files["music"][7:9]), session.limits)
    assert add_files(session, given, "") == "Added 0 texts with 0 labels and 2 without."
    again = add_files(session, given, "")
    assert again == "Added 0 texts with 0 labels and 0 without. Not added again, as already there: 2."
    document = session.pipe.datastore.documents
    assert [origin.file for origin in document.origins] == [path.rpartition("/")[2] for path in files["music"][7:9]]


def test_limits_hold_for_documents(files):
    given = read_documents(given_files(files["music"][:2]), PageLimits(characters=20))
    assert [one.reason for one in given.failed] == ["too large"] * 2 and not given.planned
    with pytest.raises(ValueError, match="These are 3 texts or more, and this page takes 2"):
        read_documents(given_files(files["music"][:3]), PageLimits(rows=2))
    with pytest.raises(ValueError, match="Choose files or a folder first"):
        read_documents([], PageLimits())


def test_sub_folders_of_a_chosen_folder_are_labels(shared, files):
    given = [
        GivenFile(path=Path(path), name=f"kinds/{label}/deep/{number}.x")
        for label in ("music", "cooking")
        for number, path in enumerate(files[label][:4])
    ]
    given.append(GivenFile(path=Path(files["bad"][0]), name="kinds/.DS_Store"))  # of the system, and in no sub-folder
    session = Session(shared.new_pipeline(), PageLimits())
    message = add_files(session, read_documents(given, session.limits), "")
    assert message == "Added 8 texts with 2 labels and 0 without."
    labels = [origin.file.partition("/")[0] for origin in session.pipe.datastore.origins]
    assert labels == ["music"] * 4 + ["cooking"] * 4 and sorted(session.labels) == ["cooking", "music"]


@pytest.mark.parametrize(
    ("names", "below", "labels"),
    [
        (["in/a/1.pdf", "in/b/2.pdf"], ["a/1.pdf", "b/2.pdf"], ["a", "b"]),
        (["a/1.pdf", "b/c/2.pdf"], ["a/1.pdf", "b/c/2.pdf"], ["a", "b"]),  # two folders dropped together
        (["in/a/1.pdf", "in/2.pdf"], ["a/1.pdf", "2.pdf"], [None] * 2),
        (["in/a/1.pdf", "in/a/2.pdf"], ["a/1.pdf", "a/2.pdf"], [None] * 2),
        (["1.pdf", "2.pdf"], ["1.pdf", "2.pdf"], [None] * 2),
    ],
)
def test_names_and_labels_are_those_of_a_folder_on_the_disk(names, below, labels):
    found = below_common_folder(names)
    assert (found, folder_labels(found)) == (below, labels)


def test_names_of_uploads_have_their_folders_and_no_way_out():
    names = ["a.pdf", "kinds\u2215lease\u2215a.pdf", "..\u2215..\u2215etc\u2215a.pdf", "\u2215"]
    found = given_files(f"/uploads/{name}" for name in names)
    assert [file.name for file in found] == ["a.pdf", "etc/a.pdf", "kinds/lease/a.pdf", "\u2215"]
    assert [file.path.name for file in found] == [names[0], names[2], names[1], names[3]]


def test_a_link_is_for_pdf_files_alone_and_the_oldest_ends(tmp_path, monkeypatch):
    monkeypatch.setattr("docsplit_hf.apps.page.document_links.MOST_LINKS", 2)
    monkeypatch.setattr("docsplit_hf.apps.page.document_links._paths", {})
    page = tmp_path / "page.pdf"
    page.write_text("<script>alert()</script>")
    assert link_to(page, None) is None
    paths = [write_pdf(tmp_path / f"{number}.pdf", ["A page."]) for number in range(3)]
    addresses = [link_to(path, "3") for path in paths]
    assert len(set(addresses)) == 3
    app = Starlette(routes=[ROUTE])
    with TestClient(app) as client:
        answers = [client.get(f"/{address}") for address in addresses]
        assert [answer.status_code for answer in answers] == [404, 200, 200]
        assert answers[2].content == paths[2].read_bytes()
        assert answers[2].headers["content-type"] == "application/pdf"
        assert answers[2].headers["x-content-type-options"] == "nosniff"
        paths[2].unlink()
        assert client.get(f"/{addresses[2]}").status_code == 404
