"""Files and places of rows: kept by every change of a datastore, and by its files."""

import json

import numpy as np
import pytest

from docsplit_hf import KNNDatastore
from docsplit_hf.arrays.passages import Passages
from docsplit_hf.reading.files.places import Place
from docsplit_hf.reading.origins import Origin
from docsplit_hf.storage.manifest import DatastoreError

from .datastores import make_datastore

TEXTS = ["first page\nsecond page", "no file", "one page"]
ORIGINS = [
    Origin("in/a.pdf", (Place("page", "1", 0, 10), Place("page", "2", 11, 22))),
    None,
    Origin("b.docx"),
]


def with_origins(**options):
    datastore = KNNDatastore(np.eye(3), ["x", "y", "x"], ["x", "y"], TEXTS, origins=ORIGINS, **options)
    datastore.add_documents(np.eye(3) + 1, [f"{text}!" for text in TEXTS], origins=ORIGINS)
    return datastore


def test_a_row_shows_its_file_and_the_pages_of_its_passage():
    embeddings = np.array([[1, 0, 0], [0.9, 0.1, 0], [0, 1, 0], [0, 0, 1]])
    passages = Passages(embeddings, np.array([2, 1, 1]), np.array([[0, 10], [6, 22], [0, 7], [0, 8]]))
    found = with_origins(passages=passages).search([[0.9, 0.1, 0], [1, 0, 0]], k=3)
    crossing = {"file": "in/a.pdf", "pages": [1, 2], "start": 6, "end": 22, "text": "page\nsecond page"}
    assert found.example(0, 0)["passage"] == crossing
    on_one_page = {"file": "in/a.pdf", "page": 1, "start": 0, "end": 10, "text": "first page"}
    assert found.example(1, 0)["passage"] == on_one_page
    files = [found.example(0, rank).get("file") for rank in range(3)]
    assert files == ["in/a.pdf", None, "b.docx"]


@pytest.mark.parametrize("memory_map", [False, True])
def test_files_of_a_datastore_keep_origins(memory_map, tmp_path):
    with_origins().save_pretrained(tmp_path)
    loaded = KNNDatastore.from_pretrained(tmp_path, memory_map=memory_map)
    assert loaded.origins == ORIGINS and loaded.documents.origins == ORIGINS
    loaded.add([[5, 5, 5]], ["y"], ["new"], origins=[Origin("new.txt")])
    loaded.save_pretrained(tmp_path / "grown")
    assert KNNDatastore.from_pretrained(tmp_path / "grown").origins == [*ORIGINS, Origin("new.txt")]


def test_origins_stay_with_their_rows():
    datastore = with_origins()
    datastore.remove(["0"])
    datastore.relabel({"2": "y"})
    assert datastore.origins == ORIGINS[1:] and datastore.documents.origins == ORIGINS


def test_without_files_the_folder_is_that_of_earlier_releases(tmp_path):
    datastore = make_datastore()
    datastore.save_pretrained(tmp_path)
    manifest = json.loads((tmp_path / "datastore" / "manifest.json").read_text())
    assert manifest["version"] == 4
    with_origins().save_pretrained(tmp_path / "files")
    assert json.loads((tmp_path / "files" / "datastore" / "manifest.json").read_text())["version"] == 5
    assert KNNDatastore.from_pretrained(tmp_path).content_sha256 == datastore.content_sha256


def test_the_hash_of_the_content_depends_on_files():
    other = KNNDatastore(np.eye(3), ["x", "y", "x"], ["x", "y"], TEXTS)
    other.add_documents(np.eye(3) + 1, [f"{text}!" for text in TEXTS])
    assert with_origins().content_sha256 != other.content_sha256


@pytest.mark.parametrize("memory_map", [False, True])
def test_places_that_no_reader_makes_are_refused(memory_map, tmp_path, monkeypatch):
    monkeypatch.setattr(Origin, "places_as_json", lambda self: '[["page", "1", 9, 0]]')
    with_origins().save_pretrained(tmp_path)
    with pytest.raises(DatastoreError, match=r"rows-.*the places of 'in/a\.pdf' are no list"):
        KNNDatastore.from_pretrained(tmp_path, memory_map=memory_map)
