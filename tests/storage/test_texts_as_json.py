"""Ids, texts and labels beside an exported model give the snapshot that the Parquet files give."""

import importlib.util
import json

import numpy as np
import pytest

from docsplit_hf.arrays.index import IndexOptions
from docsplit_hf.arrays.row_table import TEXT_COLUMNS, TextTable
from docsplit_hf.storage.classifier_folder import TEXTS
from docsplit_hf.storage.datastore_files import load_snapshot, save_snapshot
from docsplit_hf.storage.manifest import DatastoreError
from docsplit_hf.storage.texts_as_json import load_with_texts, source_of_texts, write_texts

from ..classifier.datastore.datastores import contents_of
from .test_datastore_files import make_snapshot


@pytest.fixture(params=[False, True], ids=["one label", "several labels"])
def saved(request, tmp_path):
    snapshot = make_snapshot(multi_label=request.param, whole=True, label_names=("a", "b", "c"))
    save_snapshot(tmp_path, snapshot)
    write_texts(tmp_path / TEXTS, load_snapshot(tmp_path, None, None))
    return tmp_path


def assert_same(found, expected):
    """Two snapshots with the same content; one keeps its texts in lists."""
    assert isinstance(found.rows, TextTable)
    for name in TEXT_COLUMNS:
        assert found.rows[name] == expected.rows[name].to_pylist()
    np.testing.assert_array_equal(found.labels, expected.labels)
    np.testing.assert_array_equal(found.keys, expected.keys)
    for one, other in zip(found.passages or (), expected.passages or (), strict=True):
        np.testing.assert_array_equal(one, other)
    assert found.label_names == expected.label_names and found.options == expected.options


def test_the_snapshot_is_that_of_the_files(saved):
    expected = load_snapshot(saved, None, None)
    found = load_with_texts(saved, saved / TEXTS)
    assert_same(found, expected)
    assert_same(found.documents, expected.documents)
    assert contents_of(found.fitted) == contents_of(expected.fitted)
    query = expected.keys[:1]
    for first, second in ((found, expected), (found.documents, expected.documents)):
        one, other = (snapshot.search(query, 3) for snapshot in (first, second))
        assert [one.example(0, rank) for rank in range(3)] == [other.example(0, rank) for rank in range(3)]
        assert one.texts == other.texts and one.ids == other.ids


def test_another_save_has_other_texts(saved):
    before = source_of_texts(saved)
    assert set(before) == {"rows", "document_rows", "vocabulary"}
    save_snapshot(saved, make_snapshot(seed=1, whole=True, label_names=("a", "b", "c")))
    assert source_of_texts(saved) != before


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda columns: columns | {"labels": columns["labels"][1:]}, "its labels, of the shape"),
        (lambda columns: {name: column for name, column in columns.items() if name != "text"}, "has no list 'text'"),
        (lambda columns: columns | {"document_id": ["1"]}, "it has 1 rows of id, not"),
        (lambda columns: columns | {"vocabulary": None}, "has no list 'vocabulary'"),
    ],
)
def test_damaged_columns_are_named(saved, damage, said):
    path = saved / TEXTS
    path.write_text(json.dumps(damage(json.loads(path.read_text()))))
    with pytest.raises(DatastoreError, match=said):
        load_with_texts(saved, path)


def test_an_index_needs_faiss(tmp_path, monkeypatch):
    save_snapshot(tmp_path, make_snapshot(options=IndexOptions("HNSW8"), label_names=("a", "b", "c")))
    write_texts(tmp_path / TEXTS, load_snapshot(tmp_path, None, None))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=r"searched by FAISS \(HNSW8\): pip install faiss-cpu"):
        load_with_texts(tmp_path, tmp_path / TEXTS)
    assert importlib.util.find_spec("faiss") is None
