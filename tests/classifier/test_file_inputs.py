"""Files and folders as inputs of a pipeline, and the pages that answers name."""

import logging
from pathlib import Path

import pytest

from docsplit_hf import KNNClassifierPipeline, load_files
from docsplit_hf.reading.files.failures import UnreadableFile
from docsplit_hf.reading.files.places import Place
from docsplit_hf.reading.origins import Origin

from ..documents import write_damaged, write_pdf
from .conftest import labels_of


@pytest.fixture(scope="module")
def folder(texts, tmp_path_factory):
    """A folder of 48 PDF files of two labels; the second page of each is its text, and the first is the same."""
    folder = tmp_path_factory.mktemp("files") / "contracts"
    for i, (text, label) in enumerate(zip(texts, labels_of(texts), strict=True)):
        write_pdf(folder / label / f"{i:02d}.pdf", ["Cover sheet of this document.", text])
    return folder


@pytest.fixture(scope="module")
def fitted_on_files(untrained_of_module, folder):
    import copy

    pipe = copy.deepcopy(untrained_of_module)
    pipe.add_examples(folder)
    pipe.fit(show_progress=False)
    return pipe


def test_a_folder_gives_the_answers_of_its_texts(fitted_on_files, folder):
    rows = load_files(folder, show_progress=False)
    expected = fitted_on_files(rows["text"][:])
    answers = fitted_on_files(folder)
    assert [answer["file"] for answer in answers] == rows["file"][:]
    for answer, other in zip(answers, expected, strict=True):
        assert (answer["label"], answer["score"]) == (other["label"], other["score"]) and "file" not in other
    paths = [folder / name for name in rows["file"]]
    assert [a["score"] for a in fitted_on_files(paths)] == [a["score"] for a in answers]
    assert fitted_on_files(rows)[3]["file"] == rows["file"][3]
    [one] = fitted_on_files(paths[0])
    assert one["file"] == paths[0].as_posix() and one["label"] == answers[0]["label"]
    best = fitted_on_files(paths[0], top_k=2)
    assert [a["label"] for a in best] == [a["label"] for a in fitted_on_files(rows["text"][0], top_k=2)]


def test_answers_and_explanations_name_the_page_whose_words_decide(fitted_on_files, folder):
    answers = fitted_on_files(folder, explain=True)
    for answer in answers:
        passage = answer["explanation"]["passage"]
        assert answer["page"] == passage["page"] and passage["file"] == answer["file"]
        assert passage["text"] in load_text(folder / answer["file"])
    # The first page has words that all files have. Of a wrong label the words speak less, and the encoder is random.
    assert sum(answer["page"] == 2 for answer in answers) >= 28
    assert [answer["page"] for answer in fitted_on_files(folder)] == [answer["page"] for answer in answers]


def load_text(path):
    return load_files([path], show_progress=False)["text"][0]


def test_passages_of_texts_and_neighbors_name_their_pages(untrained_of_module, folder, tmp_path):
    untrained = untrained_of_module
    pipe = KNNClassifierPipeline(
        model=untrained.model.encoder, tokenizer=untrained.tokenizer, long_documents="passages", passage_length=16,
        device="cpu",
    )  # fmt: skip
    pipe.add_examples(folder)
    pipe.fit(show_progress=False)
    pipe.save_pretrained(tmp_path)
    rows = {row["file"]: row for row in load_files(folder, show_progress=False)}
    pages = set()
    for answer in pipe(folder, explain=True, return_neighbors=3):
        shown = [answer["explanation"]["passage"]]
        for neighbor in answer["neighbors"]:
            assert neighbor["file"] == neighbor["passage"]["file"]
            shown += [neighbor["passage"], neighbor["text_passage"]]
        assert answer["file"] == shown[0]["file"] == answer["neighbors"][0]["text_passage"]["file"]
        for passage in shown:
            row = rows[passage["file"]]
            named = [passage["page"]] if "page" in passage else passage["pages"]
            on_pages = [p for p in row["places"] if p["start"] < passage["end"] and passage["start"] < p["end"]]
            assert named == [int(p["name"]) for p in on_pages]
            assert row["text"][passage["start"] : passage["end"]] == passage["text"]
            pages.add(tuple(named))
    assert {(1,), (2,)} <= pages or {(1, 2), (2,)} <= pages


def test_files_that_cannot_be_read_get_a_reason_and_no_label(fitted_on_files, folder, tmp_path):
    bad = write_damaged(tmp_path / "bad.pdf")
    good = folder / "river" / next(iter(sorted(path.name for path in (folder / "river").iterdir())))
    answers = fitted_on_files([bad, good, "A river feeds a valley.", bad])
    assert [answer.get("reason") for answer in answers] == ["damaged", None, None, "damaged"]
    assert answers[0]["label"] is None and answers[0]["score"] is None and answers[0]["remedy"]
    assert "file" not in answers[2] and answers[1]["label"]
    assert fitted_on_files([bad])[0]["reason"] == "damaged" and fitted_on_files([bad], top_k=1)[0][0]["label"] is None
    with pytest.raises(UnreadableFile, match=r"bad\.pdf is not read: damaged"):
        fitted_on_files(bad)


def test_documents_and_examples_are_added_with_their_files(untrained, folder, tmp_path, caplog):
    bad = write_damaged(tmp_path / "bad.pdf")
    files = sorted(folder.rglob("*.pdf"))
    with caplog.at_level(logging.WARNING, "docsplit_hf"):
        ids = untrained.add_examples([files[0], bad, files[40]], ["a", "b", "c"], ids=["x", "y", "z"])
    assert ids == ["x", None, "z"] and "1 of 3 files are not read:\n  1 damaged" in caplog.text
    pages = untrained.datastore.origins[0].places
    assert [place.name for place in pages] == ["1", "2"] and untrained.datastore.label_names == ("a", "c")
    added = untrained.add_documents(folder)
    assert len(added) == 48 and added.count(None) == 2  # the two examples
    assert {origin.file for origin in untrained.datastore.documents.origins} <= {
        path.relative_to(folder).as_posix() for path in files
    }
    untrained.add_examples([load_text(files[5])], ["a"])  # a document becomes an example, and keeps its file
    assert untrained.datastore.origins[-1].file == files[5].relative_to(folder).as_posix()


def test_impossible_inputs_are_refused(untrained, folder, tmp_path):
    with pytest.raises(TypeError, match="labels are missing"):
        untrained.add_examples(["text"])
    write_pdf(tmp_path / "loose.pdf", ["No folder, no label."])
    with pytest.raises(ValueError, match="is in no sub-folder of"):
        untrained.add_examples(tmp_path)
    with pytest.raises(TypeError, match="Expected texts, got 'folder'. To read a file or a folder: Path"):
        untrained.add_documents("folder")
    with pytest.raises(FileNotFoundError):
        untrained.add_documents(Path(tmp_path / "missing" / "x.pdf").parent / "*.pdf")


def test_texts_with_a_file_need_no_reading(untrained):
    place = {"kind": "sheet", "name": "Prices", "start": 0, "end": 21}
    from_file = {"text": "A river feeds a lake.", "file": "a.xlsx", "places": [place]}
    untrained.add_examples([from_file, "An engine."], ["x", "y"])
    assert untrained.datastore.origins == [Origin("a.xlsx", (Place("sheet", "Prices", 0, 21),)), None]
    [answer] = untrained([from_file | {"file": "b.xlsx"}])
    assert answer["file"] == "b.xlsx" and answer["sheet"] == "Prices"
