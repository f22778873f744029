"""After additions and removals, a datastore equals one made from scratch, also for concurrent readers."""

import contextlib
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from docsplit_hf import KNNDatastore
from docsplit_hf.arrays.fitted_state import FittedState

from ..classifier.datastore.datastores import NAMES, contents_of, make_datastore, make_fitted, make_queries, same


@pytest.mark.parametrize(
    ("settings", "arrays", "vocabulary", "message"),
    [
        ({}, {"x": np.array([1, np.inf])}, (), "array 'x' .* holds NaN or infinity"),
        ({}, {"x": np.zeros(2, dtype=np.float16)}, (), "array 'x' .* is float16, not one of float32, float64, int64"),
        ({}, {"x": np.zeros(2, dtype=">f4")}, (), "array 'x' .* is >f4, not one of"),
        ({}, {"x": np.array([None])}, (), "array 'x' .* is object, not one of"),
    ],
)
def test_a_fitted_state_that_cannot_be_saved_is_refused(settings, arrays, vocabulary, message):
    with pytest.raises(ValueError, match=message):
        FittedState(settings, arrays, vocabulary)


def test_a_fitted_state_does_not_change_with_its_arguments():
    settings = {"a": [1]}
    array = np.zeros((2, 3))
    fitted = FittedState(settings, {"x": array, "transposed": array.T}, ["term"])
    before = contents_of(fitted)
    settings["a"].append(2)
    array[:] = 1
    assert (
        contents_of(fitted)
        == before
        == contents_of(FittedState({"a": [1]}, {"x": 0 * array, "transposed": 0 * array.T}, ("term",)))
    )
    assert all(array.flags.c_contiguous and not array.flags.writeable for array in fitted.arrays.values())


def test_a_datastore_accepts_only_a_fitted_state():
    datastore = make_datastore()
    assert datastore.fitted is None
    datastore.fitted = fitted = make_fitted()
    with pytest.raises(ValueError, match="fitted is a FittedState or None, got {}"):
        datastore.fitted = {}
    assert datastore.fitted is fitted
    datastore.fitted = None
    assert datastore.fitted is None


@pytest.mark.parametrize("multi_label", [False, True])
@pytest.mark.parametrize("index", ["Flat", "IVF16,Flat"])
def test_any_sequence_of_changes_equals_a_datastore_made_from_scratch(multi_label, index, monkeypatch):
    monkeypatch.setattr("docsplit_hf.storage.snapshot_index.MAX_CHANGES", 100)
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
    assert (datastore.snapshot.index is None) == (index == "Flat")
    keys, labels, texts = (list(column) for column in zip(*rows.values(), strict=True))
    scratch = KNNDatastore(keys, labels, datastore.label_names, texts, ids=list(rows), multi_label=multi_label)
    assert same(datastore, scratch)
    queries = make_queries(datastore, 30)
    found = datastore.search(queries, 20)
    expected = scratch.search(queries, 20)
    assert np.array_equal(found.distances, expected.distances)
    assert np.array_equal(found.labels, expected.labels)
    assert (found.ids, found.texts) == (expected.ids, expected.texts)


@pytest.mark.parametrize("index", ["Flat", "IVF8,Flat"])
def test_searches_are_consistent_during_additions_and_removals(index, monkeypatch):
    monkeypatch.setattr("docsplit_hf.storage.snapshot_index.MAX_CHANGES", 200)

    def key(number):
        """The key of each row identifies its id, label and text."""
        return np.stack([np.sin(number * (i + 1)) for i in range(6)], axis=-1).astype(np.float32)

    def add(numbers):
        datastore.add(
            key(numbers), [NAMES[i % 3] for i in numbers], [f"Text {i}" for i in numbers], ids=map(str, numbers)
        )

    datastore = KNNDatastore.empty(6, index=index)
    add(np.arange(1500))
    done = threading.Event()
    searches = [0, 0]

    def search(thread):
        rng = np.random.default_rng(thread)
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
            copied = pickle.loads(pickle.dumps(datastore))  # of one moment
            assert np.array_equal(copied.keys, key(np.array(copied.ids).astype(int)))
            searches[thread] += 1

    rng = np.random.default_rng(9)
    changes = 0
    present = set(range(1500))
    with ThreadPoolExecutor(2) as pool, contextlib.ExitStack() as stack:
        stack.callback(done.set)
        searchers = [pool.submit(search, thread) for thread in range(2)]
        while changes < 12 or (min(searches) < 12 and not any(searcher.done() for searcher in searchers)):
            gone = rng.permutation(list(present))[:40]
            datastore.remove(map(str, gone))
            present -= set(gone.tolist())
            new = rng.permutation([i for i in range(4000) if i not in present])[:40]
            add(new)
            present |= set(new.tolist())
            changes += 1
    for searcher in searchers:
        searcher.result()


def test_rows_that_stay_in_the_index_are_counted_after_a_removal():
    keys = np.random.default_rng(0).standard_normal((1200, 8)).astype(np.float32)
    datastore = KNNDatastore(keys, np.zeros(1200, int), ["a"], index="IVF16,Flat")
    datastore.remove(["0", "600", "1199"])
    snapshot = datastore.snapshot
    assert snapshot.indexed == len(snapshot.keys) == 1197  # none is searched outside the index
    assert snapshot.index_rows.max() == 1196 and np.count_nonzero(snapshot.index_rows < 0) == 3
