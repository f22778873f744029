"""Rows come and go: all that a datastore says stays what it would be had it been made anew, for every reader."""

import contextlib
import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from docsplit_hf import KNNDatastore

from .datastores import NAMES, make_datastore, make_queries


def same(first, second):
    return (
        np.array_equal(first.keys, second.keys)
        and np.array_equal(first.labels, second.labels)
        and (first.label_names, first.ids, first.texts) == (second.label_names, second.ids, second.texts)
    )


def test_neighbors_stay_what_they_were_when_rows_go():
    datastore = make_datastore()
    neighbors = datastore.search(make_queries(datastore), 5)
    before = neighbors.ids, neighbors.texts, [neighbors.example(1, j) for j in range(5)]
    datastore.remove(datastore.ids[:40])
    datastore.add(np.zeros((60, 8)), [0] * 60)
    assert (neighbors.ids, neighbors.texts, [neighbors.example(1, j) for j in range(5)]) == before


@pytest.mark.parametrize("multi_label", [False, True])
@pytest.mark.parametrize("index", ["Flat", "IVF16,Flat"])
def test_any_sequence_of_changes_equals_a_datastore_made_from_scratch(multi_label, index, monkeypatch):
    monkeypatch.setattr("docsplit_hf.neighbors.store.snapshot.MOST_CHANGES", 100)
    rng = np.random.default_rng(0)
    names = [f"label {i}" for i in range(6)]
    rows = {}  # id: key, label, text

    nprobe = 16 if index[0] == "I" else None
    datastore = KNNDatastore.empty(8, names[:2], multi_label=multi_label, index=index, nprobe=nprobe)
    for step in range(40):
        if step > 0 and rng.random() < 0.4:
            gone = rng.permutation(list(rows))[: rng.integers(1, 60)].tolist()
            datastore.remove(gone)
            for row_id in gone:
                del rows[row_id]
        else:
            count = 1200 if step == 0 else rng.integers(1, 90)
            keys = rng.standard_normal((count, 8)).astype(np.float32)
            labels = [names[i] for i in rng.integers(0, 6, count)]
            if multi_label:
                labels = [[names[i] for i in rng.permutation(6)[: rng.integers(4)]] for _ in range(count)]
            texts = [f"{step}-{i}" for i in range(count)]
            ids = [f"id {step}-{i}" for i in range(count)] if step % 3 == 0 else None
            ids = datastore.add(keys, labels, texts=texts, ids=ids)
            rows.update(zip(ids, zip(keys, labels, texts, strict=True), strict=True))
        assert datastore.ids == list(rows)
    assert (datastore._state.index is None) == (index == "Flat")
    keys, labels, texts = (list(column) for column in zip(*rows.values(), strict=True))
    scratch = KNNDatastore(keys, labels, datastore.label_names, texts, ids=list(rows), multi_label=multi_label)
    assert same(datastore, scratch)
    queries = make_queries(datastore, 30)
    found, expected = datastore.search(queries, 20), scratch.search(queries, 20)
    assert np.array_equal(found.distances, expected.distances)
    assert np.array_equal(found.labels, expected.labels)
    assert (found.ids, found.texts) == (expected.ids, expected.texts)


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
    datastore = make_datastore(rows=3, dtype="float16")
    assert datastore.merge(datastore) == ["3", "4", "5"]
    assert np.array_equal(datastore.keys[:3], datastore.keys[3:])
    datastore.merge(make_datastore(rows=2))
    assert (datastore.dtype, len(datastore)) == ("float16", 8)


def test_what_cannot_be_merged(caplog):
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
    with pytest.raises(ValueError, match="another encoder"):
        empty.check_encoder(-probe)


@pytest.mark.parametrize("index", ["Flat", "IVF8,Flat"])
def test_searches_are_never_torn_while_others_add_and_remove(index, monkeypatch):
    monkeypatch.setattr("docsplit_hf.neighbors.store.snapshot.MOST_CHANGES", 200)

    def key(number):
        """Each row can be told from its key: the key says which id, label and text belong to it."""
        return np.stack([np.sin(number * (i + 1)) for i in range(6)], axis=-1).astype(np.float32)

    def add(numbers):
        datastore.add(
            key(numbers), [NAMES[i % 3] for i in numbers], [f"Text {i}" for i in numbers], ids=map(str, numbers)
        )

    datastore = KNNDatastore.empty(6, index=index)
    add(np.arange(1500))
    done = threading.Event()

    def search(thread):
        rng, searches = np.random.default_rng(thread), 0
        while not done.is_set():
            queries = key(rng.integers(0, 4000, 5))
            neighbors = datastore.search(queries, 8)
            numbers = np.array(neighbors.ids).astype(int)
            expected = ((queries[:, None] - key(numbers)) ** 2).sum(-1)
            np.testing.assert_allclose(neighbors.distances, expected, rtol=1e-4, atol=1e-6)
            names = np.array(neighbors.label_names)[neighbors.labels]
            assert (names == np.array(NAMES)[numbers % 3]).all()
            assert neighbors.texts == [[f"Text {i}" for i in row] for row in numbers]
            assert neighbors.example(0, 0)["id"] == str(numbers[0, 0])
            searches += 1
        return searches

    rng, changes, present, end = np.random.default_rng(9), 0, set(range(1500)), time.monotonic() + 1
    with ThreadPoolExecutor(2) as pool, contextlib.ExitStack() as stack:
        stack.callback(done.set)
        searchers = [pool.submit(search, thread) for thread in range(2)]
        while time.monotonic() < end:
            gone = rng.permutation(list(present))[:40]
            datastore.remove(map(str, gone))
            present -= set(gone.tolist())
            new = rng.permutation([i for i in range(4000) if i not in present])[:40]
            add(new)
            present |= set(new.tolist())
            changes += 1
    assert min(searcher.result() for searcher in searchers) > 5 and changes > 5
