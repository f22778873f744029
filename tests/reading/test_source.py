"""What a source is: folders of documents beside folders of texts and of tables, mistyped paths, names on the Hub."""

import csv
import logging

import pytest

from docsplit_hf import load_documents, load_labeled_examples
from docsplit_hf.reading.files.failure_lists import list_of_failures
from docsplit_hf.reading.files.finding import refuse_mistyped_path
from docsplit_hf.reading.load_documents import load_unlabeled_texts
from docsplit_hf.reading.origins import origins_of_rows
from docsplit_hf.reading.source import kind_of

from ..documents import write_damaged, write_docx, write_pdf


@pytest.fixture
def contracts(tmp_path):
    """A folder with a sub-folder for each of two labels, and a damaged file."""
    folder = tmp_path / "contracts"
    for i in range(10):
        write_pdf(folder / "lease" / f"{i}.pdf", [f"Lease {i} begins.", f"The rent of lease {i} is due."])
        write_docx(folder / "sale" / "old" / f"{i}.docx", [f"Sale {i} is made.", "The goods are delivered."])
    write_damaged(folder / "sale" / "damaged.pdf")
    return folder


def test_sub_folders_are_labels_and_files_keep_their_pages(contracts):
    splits = load_labeled_examples(contracts, validation_size=4)
    assert {name: len(rows) for name, rows in splits.items()} == {"train": 16, "validation": 4}
    assert splits["train"].features["label"].names == ["lease", "sale"]
    for rows in splits.values():
        for row, origin in zip(rows, origins_of_rows(rows), strict=True):
            label, _, name = row["file"].partition("/")
            number = name.rpartition("/")[2].partition(".")[0]
            assert label == rows.features["label"].int2str(row["label"]) and origin.file == row["file"]
            assert row["text"].startswith(f"{label.capitalize()} {number} ")
            pages = [row["text"][place.start : place.end] for place in origin.places]
            expected = [f"Lease {number} begins.", f"The rent of lease {number} is due."] if label == "lease" else []
            assert pages == expected


def test_splits_may_be_folders_of_documents(contracts, tmp_path):
    for i in range(4):
        write_pdf(tmp_path / "split" / "test" / ("lease" if i % 2 else "sale") / f"{i}.pdf", [f"Test {i} is new."])
    contracts.rename(tmp_path / "split" / "train")
    splits = load_labeled_examples(tmp_path / "split", validation_size=0)
    assert {name: len(rows) for name, rows in splits.items()} == {"train": 20, "test": 4}
    assert sorted(splits["test"]["file"]) == ["lease/1.pdf", "lease/3.pdf", "sale/0.pdf", "sale/2.pdf"]


@pytest.mark.parametrize("streaming", [False, True])
def test_unlabeled_documents_are_found_by_folder_and_pattern(streaming, contracts, monkeypatch):
    rows = load_documents(contracts, test_size=0 if not streaming else 2, streaming=streaming)
    texts = [row["text"] for split in rows.values() for row in split]
    assert len(texts) == 20 and len(set(texts)) == 20
    found = load_documents(f"{contracts}/**/*.docx", test_size=0)["train"]
    assert len(found) == 10 and all(file.endswith(".docx") and file.startswith("/") for file in found["file"])
    monkeypatch.chdir(contracts)
    assert load_documents("lease/*.pdf", test_size=0)["train"]["file"][0] == "lease/0.pdf"
    assert len(load_documents("lease/3.pdf", test_size=0)["train"]) == 1


def test_unusable_and_held_out_documents_are_left_out(contracts):
    held_out = load_labeled_examples(contracts, validation_size=4)["validation"]
    rows = load_unlabeled_texts(contracts, text_column="body", held_out=[held_out])
    assert len(rows) == 16 and not set(rows["text"]) & set(held_out["text"])
    assert rows.column_names == ["text", "file", "places"]


def test_a_folder_of_texts_is_read_as_before(tmp_path):
    for i in range(3):
        (tmp_path / "a").mkdir(exist_ok=True)
        (tmp_path / "a" / f"{i}.txt").write_text(f"  text {i}\n")
    (tmp_path / "README.md").write_text("About these texts.")
    rows = load_documents(tmp_path, test_size=0)["train"]
    assert rows.column_names == ["text"] and rows["text"][:] == [f"  text {i}\n" for i in range(3)]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["a.txt", "b.txt"], False),
        (["a.txt", "README.md"], False),
        (["a.txt", "b.PDF"], True),
        (["a.md", "b.md"], True),
        (["deep/er/a.docx", "train.csv"], True),
        (["train.csv", "test.jsonl.gz"], False),
        (["scan"], True),
        ([".hidden.pdf", "a.txt"], False),
        ([], False),
    ],
)
def test_folders_with_documents_are_recognized(names, expected, tmp_path):
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    assert kind_of(tmp_path) == ("documents" if expected else "text folder")


def test_other_sources_are_told_apart(tmp_path, contracts):
    (tmp_path / "a.csv").touch()
    given = [
        f"{tmp_path}/*.anything",
        contracts / "lease" / "0.pdf",
        tmp_path / "a.csv",
        tmp_path / "missing",
        ["text"],
    ]
    assert [kind_of(source) for source in given] == ["documents", "documents", "table", "hub", "memory"]


def test_tables_beside_documents_stay_splits(contracts, tmp_path):
    rows = "".join(f'{{"text": "Text {i} is here.", "label": "{"ab"[i % 2]}"}}\n' for i in range(8))
    (contracts / "train.jsonl").write_text(rows)
    assert len(load_labeled_examples(contracts, validation_size=0)["train"]) == 8


def test_a_document_without_a_folder_has_no_label(contracts, caplog):
    write_pdf(contracts / "loose.pdf", ["This one lies beside the folders."])
    with caplog.at_level(logging.WARNING, "docsplit_hf"):
        splits = load_labeled_examples(contracts, validation_size=0)
    assert len(splits["train"]) == 20 and "Dropped: 1 without a label" in caplog.text


def test_files_that_fail_are_listed_with_reason_and_remedy(contracts, tmp_path, capsys):
    write_pdf(contracts / "lease" / "scan.pdf", [None])
    with list_of_failures(tmp_path / "out"):
        load_labeled_examples(contracts)
        load_unlabeled_texts(contracts)
    with open(tmp_path / "out" / "failed.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {(row["file"], row["reason"]) for row in rows} == {
        ("lease/scan.pdf", "scanned, without text"), ("sale/damaged.pdf", "damaged"),
    }  # fmt: skip
    assert len(rows) == 2 and all(row["remedy"] for row in rows)
    assert "Files that could not be read: 2, listed with their reasons in" in capsys.readouterr().out
    with list_of_failures(tmp_path / "none"):
        load_unlabeled_texts(contracts / "sale" / "old")
    assert not (tmp_path / "none").exists()


def test_options_of_tables_are_refused(contracts):
    with pytest.raises(ValueError, match="csv_separator=';' is for those"):
        load_documents(contracts, csv_separator=";")
    with pytest.raises(ValueError, match="There is no column 'number' in train"):
        load_labeled_examples(contracts, id_column="number")


def test_mistyped_paths_are_refused_with_the_nearest_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "output" / "pretrain").mkdir(parents=True)
    for file in ("documents.jsonl", "l.csv"):
        (tmp_path / file).touch()
    mistyped = {"output/pretrian": "output/pretrain", "document.jsonl": "documents.jsonl", "l.cvs": "l.csv"}
    for name, near in mistyped.items():
        with pytest.raises(FileNotFoundError, match=f"'{name}'. Did you mean '{near}'"):
            refuse_mistyped_path(name)
    for name in ("/no/such", "./nothing", "~/nothing", "a/b/c"):
        with pytest.raises(FileNotFoundError, match="There is no file or folder"):
            refuse_mistyped_path(name)


def test_existing_paths_and_names_on_the_hub_pass(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "facebook" / "contriever").mkdir(parents=True)
    for name in (
        "facebook/contriever",
        "facebook/contriever-msmarco",
        "bert-base-uncased",
        "sentence-transformers/LaBSE",
    ):
        assert refuse_mistyped_path(name) is None
