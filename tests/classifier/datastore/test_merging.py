"""Two datastores in one equal one that was made of all their rows."""

import logging

import numpy as np
import pytest

from docsplit_hf import KNNDatastore

from .datastores import NAMES, fill, make_datastore, same


@pytest.mark.parametrize("multi_label", [False, True])
def test_merging_equals_a_datastore_made_from_scratch(multi_label):
    rng = np.random.default_rng(0)

    def labels(*names):
        return [list(name) for name in names] if multi_label else [name[0] for name in names]

    first = KNNDatastore(rng.standard_normal((2, 4)), labels("ab", "b"), ["b", "a"], texts=["One", None])
    second = KNNDatastore(
        rng.standard_normal((3, 4)), labels("ca", "a", "c"), ["c", "a"], texts=["x", "y", "z"], ids=["p", "q", "r"]
    )
    second.remove(["q"])
    second.add(rng.standard_normal((1, 4)), labels("a"), texts=["Two"])
    expected = KNNDatastore(
        np.concatenate([first.keys, second.keys]),
        labels("ab", "b", "ca", "c", "a"),
        ["b", "a", "c"],
        texts=["One", None, "x", "z", "Two"],
        ids=["0", "1", "p", "r", "2"],
    )
    assert first.merge(second) == ["p", "r", "2"]
    assert same(first, expected)
    assert first.add([[0] * 4], labels("a")) == ["3"]
    with pytest.raises(ValueError, match="The id 'p' is there already"):
        first.merge(second)


def test_merging_with_itself_and_in_another_dtype():
    datastore = fill(make_datastore(rows=3, dtype="float16"), rows=3)
    assert datastore.merge(datastore) == ["3", "4", "5"]
    assert np.array_equal(datastore.keys[:3], datastore.keys[3:])
    assert datastore.documents.ids == ["d0", "d1", "d3", "d4"]
    datastore.merge(make_datastore(rows=2))
    assert (datastore.dtype, len(datastore)) == ("float16", 8)


def test_incompatible_datastores_are_not_merged(caplog):
    rng = np.random.default_rng(0)
    probe = rng.standard_normal((3, 8))
    datastore = make_datastore(probe=probe)
    with pytest.raises(ValueError, match="keys of the other datastore must be .*8"):
        datastore.merge(make_datastore(dimension=9))
    with pytest.raises(ValueError, match="several labels per row"):
        datastore.merge(KNNDatastore([[0] * 8], [[0]], NAMES))
    with pytest.raises(ValueError, match="built by another encoder"):
        datastore.merge(make_datastore(probe=probe + 1))
    assert len(datastore) == 50
    with caplog.at_level(logging.WARNING):
        datastore.merge(make_datastore())
    assert "One of the datastores has no probe" in caplog.text
    datastore.merge(make_datastore(probe=probe * 1.001))
    empty = KNNDatastore.empty(8)
    empty.merge(datastore)
    assert np.array_equal(empty.probe, datastore.probe)


def test_documents_are_merged_with_new_ids_and_the_fitted_state_is_dropped(caplog):
    first = fill(make_datastore())
    second = fill(make_datastore(seed=1), rows=5, seed=1)
    second.add_documents([[0] * 8] * 2, ["x", "y"], ids=["50", "doc"])
    theirs = second.documents
    ours = first.documents
    ids = first.merge(second)
    assert ids[0] == "51" and len(ids) == 50  # "50" is a document's
    assert first.documents.ids == [*ours.ids, "d20", "d21", "d22", "d23", "50", "doc"]
    assert np.array_equal(first.documents.keys, np.concatenate([ours.keys, theirs.keys]))
    assert first.documents.texts == ours.texts + theirs.texts
    assert first.fitted is None and "needs a new fit" in caplog.text
    assert first.add_documents([[0] * 8]) == ["d24"]
    with pytest.raises(ValueError, match="The id '50' is there already"):
        first.merge(second)
    empty = KNNDatastore.empty(8, dtype="float16")
    empty.merge(second)
    assert (empty.documents.ids, empty.documents.dtype) == (["d0", "d1", "d2", "d3", "50", "doc"], "float16")


@pytest.mark.parametrize("ids", [(["x"], None), (None, ["x"])])
def test_merging_refuses_an_id_of_both_an_example_and_a_document(ids):
    first, second = (KNNDatastore([[0, 0]], ["a"], [], ids=which) for which in ids)
    (second if ids[0] else first).add_documents([[0, 0]], ids=["x"])
    before = first._state
    with pytest.raises(ValueError, match="The id 'x' is there already"):
        first.merge(second)
    assert first._state is before
