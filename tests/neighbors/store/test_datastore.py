import logging
import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docsplit_hf.neighbors.store.datastore import KNNDatastore

NAMES = ["fruit", "mineral", "vegetable"]


def make_datastore(rows=50, dimension=8, seed=0, **options):
    rng = np.random.default_rng(seed)
    keys = rng.standard_normal((rows, dimension))
    texts = [f"Text {i}" for i in range(rows)]
    return KNNDatastore(keys, rng.integers(0, 3, rows), NAMES, **({"texts": texts} | options))


def make_queries(datastore, count=6, seed=7):
    return np.random.default_rng(seed).standard_normal((count, datastore.dimension)).astype(np.float32)


def brute_force(datastore, queries, k):
    """Distances and ids of the nearest, by the definition."""
    keys = datastore.keys.astype(np.float64)
    distances = ((queries[:, None].astype(np.float64) - keys[None]) ** 2).sum(-1)
    order = np.argsort(distances, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(distances, order, axis=1), [[datastore.ids[i] for i in row] for row in order]


def assert_exact(datastore, k=10):
    queries = make_queries(datastore)
    neighbors = datastore.search(queries, k)
    distances, ids = brute_force(datastore, queries, k)
    np.testing.assert_allclose(neighbors.distances, distances, rtol=1e-5, atol=1e-7)
    assert neighbors.ids == ids


def recall(datastore, k=10, queries=100):
    """The share of the nearest that is found, for queries near the keys."""
    rng = np.random.default_rng(3)
    near = datastore.keys[rng.integers(0, len(datastore), queries)].astype(np.float32)
    near += 0.1 * rng.standard_normal(near.shape, dtype=np.float32)
    found = datastore.search(near, k)
    expected = brute_force(datastore, near, k)[1]
    by_id = dict(zip(datastore.ids, datastore.keys, strict=True))
    for row, ids in enumerate(found.ids):  # whatever was found, its distance is exact
        actual = [((near[row] - by_id[row_id].astype(np.float64)) ** 2).sum() for row_id in ids]
        np.testing.assert_allclose(found.distances[row], actual, rtol=1e-4, atol=1e-6)
    assert (np.diff(found.distances, axis=1) >= 0).all()
    return np.mean([len(set(a) & set(b)) / k for a, b in zip(found.ids, expected, strict=True)])


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_search_equals_brute_force(data):
    seed = data.draw(st.integers(0, 2**32), label="seed")
    rows, dimension = data.draw(st.integers(1, 60), label="rows"), data.draw(st.integers(1, 20), label="dimension")
    rng = np.random.default_rng(seed)
    keys = (
        rng.integers(-2, 3, (rows, dimension)) if data.draw(st.booleans()) else rng.standard_normal((rows, dimension))
    )
    labels = rng.integers(0, 3, rows)
    datastore = KNNDatastore(keys, labels, NAMES, dtype=data.draw(st.sampled_from(["float32", "float16"])))
    queries = make_queries(datastore, data.draw(st.integers(0, 30), label="queries"), seed)
    k = data.draw(st.integers(1, rows + 5), label="k")
    neighbors = datastore.search(queries, k)
    distances, _ = brute_force(datastore, queries, k)
    assert neighbors.distances.shape == (len(queries), min(k, rows))
    np.testing.assert_allclose(neighbors.distances, distances, rtol=1e-5, atol=1e-7)
    everything = ((queries[:, None] - datastore.keys[None].astype(np.float64)) ** 2).sum(-1)
    np.testing.assert_allclose(np.take_along_axis(everything, neighbors.rows, axis=1), distances, rtol=1e-5, atol=1e-7)
    assert np.array_equal(neighbors.labels, labels[neighbors.rows])
    assert neighbors.ids == [[str(row) for row in rows] for rows in neighbors.rows]


def test_neighbors_show_their_example():
    datastore = KNNDatastore(
        [[0, 0], [3, 4]], ["fruit", 1], ["stone", "mineral"], texts=["An apple.", "Quartz."], text_pairs=[None, "Pair"]
    )
    neighbors = datastore.search([[0, 0]], k=2)
    assert neighbors.example(0, 0) == {
        "label": "fruit", "text": "An apple.", "text_pair": None, "id": "0", "distance": 0.0,
    }  # fmt: skip
    assert neighbors.example(0, 1) == {
        "label": "mineral", "text": "Quartz.", "text_pair": "Pair", "id": "1", "distance": 25.0,
    }  # fmt: skip
    assert (neighbors.texts, neighbors.text_pairs) == ([["An apple.", "Quartz."]], [[None, "Pair"]])
    assert (neighbors.distances.dtype, neighbors.labels.dtype, neighbors.rows.dtype) == ("float32", "int64", "int64")
    with pytest.raises(IndexError):
        neighbors.example(0, 2)


def test_several_labels_a_row_and_new_ones():
    datastore = KNNDatastore([[0, 0], [1, 1], [2, 2]], [["a", "b"], [], [1]], ["a", "b"])
    neighbors = datastore.search([[0, 0]], k=3)
    assert datastore.multi_label and neighbors.labels.shape == (1, 3, 2) and neighbors.labels.dtype == bool
    assert [neighbors.example(0, j)["labels"] for j in range(3)] == [["a", "b"], [], ["b"]]
    datastore.add([[3, 3]], [["c", "a"]])
    assert datastore.label_names == ("a", "b", "c")
    assert datastore.labels.tolist() == [[1, 1, 0], [0, 0, 0], [0, 1, 0], [1, 0, 1]]
    assert neighbors.label_names == ("a", "b")
    with pytest.raises(ValueError, match="pass a list"):
        datastore.add([[3, 3]], ["c"])
    assert KNNDatastore([[0, 0]], [[]], []).multi_label
    assert not KNNDatastore(np.zeros((0, 2)), [], []).multi_label


def test_labels_as_the_datastore_numbers_them():
    datastore = make_datastore()
    assert datastore.label_array(["mineral", 0]).tolist() == [1, 0]
    with pytest.raises(ValueError, match="no label 'metal', only fruit, mineral, vegetable"):
        datastore.label_array(["metal"])


def test_what_it_gives_away_cannot_be_changed():
    datastore = make_datastore()
    given = np.zeros((1, 8), dtype=np.float32)
    datastore.add(given, [0])
    given[:] = 9
    assert datastore.keys[-1].tolist() == [0] * 8
    datastore.remove(["0"])
    for array in (datastore.keys, datastore.labels):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (([[0.0], [np.nan]], [0, 0], NAMES), {}, "keys: row 1 holds NaN"),
        (([[0.0], [7e4]], [0, 0], NAMES), {"dtype": "float16"}, r"keys: row 1 .* \(as float16\)"),
        (([0.0], [0], NAMES), {}, r"keys must be numbers of shape \(N, D\)"),
        (([[0.0]], [0, 1], NAMES), {}, "There are 1 keys, but 2 labels"),
        (([[0.0]], [3], NAMES), {}, "row 0 is 3, but there are 3 labels"),
        (([[0.0]], [0], ["a", "a"]), {}, r"label_names must be different strings, got \['a', 'a'\]"),
        (([[0.0]], [0], "abc"), {}, "label_names must be different strings, got 'abc'"),
        (([[0.0]], [0], [1]), {}, "label_names must be different strings"),
        (([[0.0]], [0], NAMES, ["x", "y"]), {}, "There are 1 keys, but 2 of text"),
        (([[0.0]] * 2, [0, 0], NAMES), {"ids": ["a", "a"]}, "The id 'a' is given twice"),
        (([[0.0]], [0], NAMES), {"dtype": "float64"}, "dtype must be 'float32' or 'float16', got 'float64'"),
        (([[0.0]], [0], NAMES), {"index": "nonsense"}, "Unknown index 'nonsense'"),
        (([[0.0] * 8], [0], NAMES), {"index": "PQ3"}, "no index 'PQ3' for keys of dimension 8"),
        (([[0.0]], [0], NAMES), {"probe": [[0.0, 1.0]]}, r"probe must be numbers of shape \(N, 1\)"),
        (([[0.0]], [0], NAMES), {"probe": [[np.inf]]}, "probe: row 0 holds NaN"),
        (([[0.0]], [0], NAMES), {"multi_label": True}, "row 0 are 0: pass a list"),
    ],
)
def test_what_makes_no_datastore(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        KNNDatastore(*arguments, **options)


@pytest.mark.parametrize("k", [0, -1, 1.0, "1", True, None])
def test_k_that_is_no_count(k):
    with pytest.raises(ValueError, match="k must be an integer of at least 1, got"):
        make_datastore().search(np.zeros((1, 8)), k)


@pytest.mark.parametrize(
    ("queries", "message"),
    [
        (np.zeros(8), r"queries must be numbers of shape \(N, 8\)"),
        (np.zeros((1, 7)), r"queries must be numbers of shape \(N, 8\).*\(1, 7\)"),
        ([[0.0] * 7 + [np.nan]], "queries: row 0 holds NaN"),
    ],
)
def test_queries_that_do_not_fit(queries, message):
    with pytest.raises(ValueError, match=message):
        make_datastore().search(queries, 1)


def test_an_empty_datastore_says_that_it_is_empty():
    datastore = KNNDatastore.empty(8, NAMES)
    with pytest.raises(ValueError, match="The datastore is empty.*add examples first"):
        datastore.search(np.zeros((1, 8)), 1)
    assert (len(datastore), datastore.dimension, datastore.keys.shape) == (0, 8, (0, 8))
    datastore.add([[1] * 8], ["fruit"])
    assert datastore.search(np.zeros((1, 8)), 5).distances.tolist() == [[8.0]]
    datastore.remove(["0"])
    with pytest.raises(ValueError, match="add examples first"):
        datastore.search(np.zeros((1, 8)), 1)


def test_identical_vectors_are_at_zero_in_any_batch():
    keys = 100 + np.random.default_rng(0).standard_normal((300, 64))
    datastore = KNNDatastore(keys, [0] * 300, NAMES)
    for batch in (1, 100):
        neighbors = datastore.search(datastore.keys[:batch], 3)
        assert (neighbors.distances[:, 0] == 0).all()
        assert neighbors.rows[:, 0].tolist() == list(range(batch))


def test_ids_are_a_counter_that_gives_none_again():
    datastore = KNNDatastore.empty(1)
    assert datastore.add([[0]] * 2, ["a"] * 2) == ["0", "1"]
    assert datastore.add([[0]] * 2, ["a"] * 2, ids=["x", "3"]) == ["x", "3"]
    datastore.remove(["1"])
    assert datastore.add([[0]] * 2, ["a"] * 2) == ["2", "4"]
    with pytest.raises(ValueError, match="The id '3' is there already"):
        datastore.add([[0]], ["a"], ids=["3"])
    assert datastore.ids == ["0", "x", "3", "2", "4"]


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        (([[np.nan] * 8], [0]), {}),
        (([[0] * 8], [3]), {}),
        (([[0] * 7], [0]), {}),
        (([[0] * 8], [0]), {"ids": ["3"]}),
        (([[0] * 8], ["new"]), {"texts": [3]}),
        (([[0] * 8], [0, 1]), {}),
    ],
)
def test_a_failed_add_changes_nothing(arguments, options):
    datastore = make_datastore()
    before = datastore._state
    with pytest.raises(ValueError):
        datastore.add(*arguments, **options)
    assert datastore._state is before
    assert datastore.add([[5] * 8], [1]) == ["50"]
    assert_exact(datastore)


def test_unknown_ids_are_named_and_nothing_is_removed():
    datastore = make_datastore()
    with pytest.raises(ValueError, match="no row with the id 'x': ids are strings"):
        datastore.remove(["1", "x"])
    with pytest.raises(ValueError, match=r"got one string: pass \['12'\]"):
        datastore.remove("12")
    assert len(datastore) == 50


def test_neighbors_stay_what_they_were_when_rows_go():
    datastore = make_datastore()
    neighbors = datastore.search(make_queries(datastore), 5)
    before = neighbors.ids, neighbors.texts, [neighbors.example(1, j) for j in range(5)]
    datastore.remove(datastore.ids[:40])
    datastore.add(np.zeros((60, 8)), [0] * 60)
    assert (neighbors.ids, neighbors.texts, [neighbors.example(1, j) for j in range(5)]) == before


def same(first, second):
    return (
        np.array_equal(first.keys, second.keys)
        and np.array_equal(first.labels, second.labels)
        and (first.label_names, first.ids, first.texts) == (second.label_names, second.ids, second.texts)
    )


@pytest.mark.parametrize("multi_label", [False, True])
@pytest.mark.parametrize("index", ["Flat", "IVF16,Flat"])
def test_any_sequence_of_changes_equals_a_datastore_made_from_scratch(multi_label, index, monkeypatch):
    monkeypatch.setattr("docsplit_hf.neighbors.store.snapshot.MOST_CHANGES", 100)
    rng = np.random.default_rng(0)
    names = [f"label {i}" for i in range(6)]
    rows = {}  # id: key, label, text

    def make(count):
        labels = [[names[i] for i in rng.permutation(6)[: rng.integers(4)]] for _ in range(count)]
        return rng.standard_normal((count, 8)).astype(np.float32), (
            labels if multi_label else [names[i] for i in rng.integers(0, 6, count)]
        )

    datastore = KNNDatastore.empty(
        8, names[:2], multi_label=multi_label, index=index, nprobe=16 if index[0] == "I" else None
    )
    for step in range(40):
        if step > 0 and rng.random() < 0.4:
            gone = rng.permutation(list(rows))[: rng.integers(1, 60)].tolist()
            datastore.remove(gone)
            for row_id in gone:
                del rows[row_id]
        else:
            count = 1200 if step == 0 else rng.integers(1, 90)
            keys, labels = make(count)
            texts = [f"{step}-{i}" for i in range(count)]
            ids = [f"id {step}-{i}" for i in range(count)] if step % 3 == 0 else None
            ids = datastore.add(keys, labels, texts=texts, ids=ids)
            rows.update(zip(ids, zip(keys, labels, texts, strict=True), strict=True))
        assert datastore.ids == list(rows)
    assert (datastore._state.index is None) == (index == "Flat")
    scratch = KNNDatastore(
        [row[0] for row in rows.values()],
        [row[1] for row in rows.values()],
        datastore.label_names,
        texts=[row[2] for row in rows.values()],
        ids=list(rows),
        multi_label=multi_label,
    )
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
    added = rng.standard_normal((1, 4))
    second.add(added, labels("a"), texts=["Two"])
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
    with pytest.raises(ValueError, match="several labels a row"):
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


def test_another_encoder_is_refused(caplog):
    probe = np.random.default_rng(0).standard_normal((3, 8))
    datastore = make_datastore(probe=probe)
    with caplog.at_level(logging.WARNING):
        datastore.check_encoder(probe + 1e-3)
    assert caplog.text == ""
    for other in (probe + 0.5, probe[:, :4], probe[:2]):
        with pytest.raises(ValueError, match="built by another encoder"):
            datastore.check_encoder(other)
    make_datastore().check_encoder(probe)
    assert "no probe" in caplog.text


INDEXES = [
    ("IVF16,Flat", 8, None, "float32", 0.9),
    ("IVF16,SQ8", 8, None, "float32", 0.9),
    ("IVF16,PQ4x4", 16, 25, "float16", 0.9),
    ("PCA8,IVF16,Flat", 8, 10, "float32", 0.7),
    ("HNSW32", None, None, "float32", 0.9),
    ("HNSW32", None, 2, "float16", 0.9),
    ("SQfp16", None, None, "float16", 0.99),
    ("SQ8", None, 2, "float32", 0.99),
]


@pytest.mark.parametrize(("index", "nprobe", "rerank", "dtype", "least"), INDEXES)
def test_an_index_finds_the_nearest_and_stays_right_when_rows_come_and_go(index, nprobe, rerank, dtype, least):
    datastore = make_datastore(2500, 16, index=index, nprobe=nprobe, rerank=rerank, dtype=dtype)
    assert datastore._state.indexed == 2500
    assert recall(datastore) >= least
    rng = np.random.default_rng(1)
    datastore.add(rng.standard_normal((300, 16)), rng.integers(0, 3, 300), ids=[f"new {i}" for i in range(300)])
    datastore.remove(datastore.ids[100:400] + datastore.ids[-50:])
    assert (datastore._state.indexed, datastore._state.outside_index) == (2200, 550)
    assert recall(datastore) >= least
    neighbors = datastore.search(datastore.keys[-1:], 1)
    assert neighbors.ids == [["new 249"]]


def test_reranking_finds_more():
    datastore = make_datastore(2500, 16, index="PQ4x4")
    recalls = []
    for rerank in (1, None, 16):
        datastore.reindex("PQ4x4", rerank=rerank)
        recalls.append(recall(datastore))
    assert recalls == sorted(recalls) and recalls[-1] > recalls[0] + 0.2


def test_there_is_never_a_phantom_row():
    datastore = make_datastore(2500, 16, index="IVF32,Flat", nprobe=1)
    neighbors = datastore.search(make_queries(datastore), 2500)
    assert all(sorted(row) == list(range(2500)) for row in neighbors.rows.tolist())
    query = datastore.keys[:1]
    nearest = datastore.search(query, 900).ids[0]
    datastore.remove(nearest)  # all that the list of this query holds
    assert datastore._state.indexed == 1600
    found = datastore.search(query, 20)
    assert not set(found.ids[0]) & set(nearest)
    assert np.isfinite(found.distances).all()


def test_an_index_is_built_again_when_too_much_has_changed(caplog):
    caplog.set_level(logging.INFO)
    datastore = make_datastore(1200, index="IVF16,Flat")
    first = datastore._state.index
    datastore.add(np.ones((600, 8)), [0] * 600)
    datastore.remove(datastore.ids[:400])
    assert datastore._state.index is first and datastore._state.outside_index == 1000
    caplog.clear()
    datastore.remove(datastore.ids[:1])
    assert datastore._state.index is not first and datastore._state.outside_index == 0
    assert "Built the index 'IVF16,Flat' of 1399 rows" in caplog.text
    caplog.clear()
    datastore.remove(datastore.ids[:500])
    datastore.remove(datastore.ids[:501])
    assert datastore._state.index is None
    assert "398 rows are too few for 'IVF16,Flat': search is exact until there are 1000" in caplog.text
    assert_exact(datastore)


def test_an_index_waits_for_enough_rows_and_says_so_once(caplog):
    with caplog.at_level(logging.WARNING):
        datastore = make_datastore(900, index="IVF16,Flat", nprobe=16)
        assert_exact(datastore)
        for number in range(2):
            datastore.add(np.random.default_rng(number).standard_normal((49, 8)), [0] * 49)
    assert caplog.text.count("900 rows are too few for 'IVF16,Flat': search is exact until there are 1000") == 1
    assert caplog.text.count("too few") == 1 and datastore._state.index is None
    datastore.add(np.zeros((2, 8)), [0] * 2)
    assert datastore._state.indexed == 1000
    assert_exact(datastore)


def test_reindex():
    datastore = make_datastore(2500, 16)
    datastore.reindex("IVF16,Flat", nprobe=1)
    first = datastore._state.index
    few = recall(datastore)
    datastore.reindex("IVF16,Flat", nprobe=16)
    assert datastore._state.index is first
    assert few < recall(datastore) == 1
    datastore.reindex("HNSW32")
    assert datastore.index == "HNSW32" and recall(datastore) > 0.9
    with pytest.raises(ValueError, match="Unknown index 'nonsense'"):
        datastore.reindex("nonsense")
    with pytest.raises(ValueError, match="no index 'PQ5'"):
        datastore.reindex("PQ5")
    assert datastore.index == "HNSW32"
    datastore.reindex()
    assert datastore._state.index is None
    assert_exact(datastore)


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
    done, failures, searches = threading.Event(), [], [0, 0]

    def search(thread):
        rng = np.random.default_rng(thread)
        try:
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
                searches[thread] += 1
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=search, args=(thread,)) for thread in range(2)]
    for thread in threads:
        thread.start()
    rng = np.random.default_rng(9)
    changes, present, end = 0, set(range(1500)), time.monotonic() + 1
    while time.monotonic() < end and not failures:
        gone = rng.permutation(list(present))[:40]
        datastore.remove(map(str, gone))
        present -= set(gone.tolist())
        new = rng.permutation([i for i in range(4000) if i not in present])[:40]
        add(new)
        present |= set(new.tolist())
        changes += 1
    done.set()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    assert min(searches) > 5 and changes > 5
