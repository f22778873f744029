"""Unlabeled documents beside the examples: independent rows, one state."""

import numpy as np
import pytest

from docsplit_hf import KNNDatastore

from .datastores import answers, assert_exact, everything, fill, make_datastore, same


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_any_sequence_of_changes_equals_two_separate_datastores(dtype):
    rng = np.random.default_rng(0)
    both, examples = (make_datastore(dtype=dtype) for _ in range(2))
    documents = KNNDatastore.empty(8, multi_label=True, dtype=dtype)
    for step in range(60):
        ours, labels = (both.documents, None) if rng.random() < 0.6 else (both, [step % 3])
        keys = rng.standard_normal((rng.integers(1, 6), 8))
        texts = [f"{step}-{i}" for i in range(len(keys))]
        if labels:
            assert both.add(keys, labels * len(keys), texts) == examples.add(keys, labels * len(keys), texts)
        elif rng.random() < 0.7:
            ids = both.add_documents(keys, texts)
            assert documents.add(keys, [[]] * len(keys), texts, ids=ids) == ids
        elif ours is not None:
            gone = rng.permutation(ours.ids)[:4].tolist()
            both.remove_documents(gone)
            documents.remove(gone)
        if step % 5 == 4:
            gone = rng.permutation(both.ids)[:3].tolist()
            both.remove(gone)
            examples.remove(gone)
    assert len(documents) > 20 and same(both, examples) and same(both.documents, documents)
    assert answers(both) == answers(examples) and answers(both.documents) == answers(documents)
    assert_exact(both.documents)
    assert (both.documents.snapshot.keys.dtype, both.documents.snapshot.options.factory) == (dtype, "Flat")
    assert both.documents.labels.shape == (len(documents), 0) and both.documents.label_names == ()


def test_documents_have_separate_automatic_ids():
    datastore = KNNDatastore([[0, 0]] * 2, ["a", "a"], [], ids=["d1", "0"])
    assert datastore.documents is None
    assert datastore.add_documents([[0, 0]] * 2) == ["d2", "d3"]
    assert datastore.add_documents([[0, 0]], ids=["1"]) == ["1"]
    datastore.remove_documents(["d2"])
    assert datastore.add_documents([[0, 0]]) == ["d4"] and datastore.add([[0, 0]] * 2, ["a", "a"]) == ["2", "3"]
    datastore.remove_documents(datastore.documents.ids)
    assert datastore.documents is None and datastore.add_documents([[0, 0]]) == ["d5"]


@pytest.mark.parametrize(
    ("keys", "options", "message"),
    [
        ([[np.nan] * 8], {}, "keys: row 0 holds NaN"),
        ([[0] * 7], {}, r"keys must be numbers of shape \(N, 8\)"),
        ([[0] * 8], {"ids": ["d3"]}, "The id 'd3' is there already"),
        ([[0] * 8], {"ids": ["3"]}, "The id '3' is there already"),
        ([[0] * 8], {"texts": [3]}, "The text of row 0 is 3"),
        ([[0] * 8] * 2, {"texts": ["a"]}, "There are 2 keys, but 1 values of text"),
    ],
)
def test_a_failed_addition_of_documents_changes_nothing(keys, options, message):
    datastore = fill(make_datastore())
    before = datastore.snapshot
    contents = everything(datastore)
    with pytest.raises(ValueError, match=message):
        datastore.add_documents(keys, **options)
    with pytest.raises(ValueError, match="The id 'd3' is there already"):
        datastore.add([[0] * 8], [0], ids=["d3"])
    with pytest.raises(ValueError, match="no row with the id '3'"):
        datastore.remove_documents(["d4", "3"])
    assert datastore.snapshot is before and everything(datastore) == contents
    assert datastore.add_documents([[0] * 8]) == ["d20"]


def test_documents_stay_when_examples_and_index_change():
    datastore = fill(make_datastore(rows=1100))
    documents = datastore.documents
    fitted = datastore.fitted
    datastore.add([[0] * 8], [0])
    datastore.remove(["1", "2"])
    for index in ("IVF4,Flat", "Flat"):
        datastore.reindex(index)
    assert same(datastore.documents, documents) and datastore.fitted is fitted
