"""What users of a datastore give and get: search, labels, ids, refusals."""

import logging

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docsplit_hf import KNNDatastore
from docsplit_hf.arrays.fitted_state import FittedState
from docsplit_hf.arrays.probe import check_probe

from .datastores import NAMES, assert_exact, brute_force, make_datastore, make_queries


@given(data=st.data())
def test_search_equals_brute_force(data):
    seed = data.draw(st.integers(0, 2**32), label="seed")
    rows = data.draw(st.integers(1, 60), label="rows")
    dimension = data.draw(st.integers(1, 20), label="dimension")
    rng = np.random.default_rng(seed)
    keys = rng.standard_normal((rows, dimension))
    if data.draw(st.booleans(), label="duplicates"):
        keys = rng.integers(-2, 3, (rows, dimension))
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
    assert all(len(set(row)) == min(k, rows) for row in neighbors.rows.tolist())
    assert np.array_equal(neighbors.labels, labels[neighbors.rows])
    assert neighbors.ids == [[str(row) for row in rows] for rows in neighbors.rows]


def test_results_show_text_label_and_distance():
    datastore = KNNDatastore(
        [[0, 0], [3, 4]], ["fruit", 1], ["stone", "mineral"], texts=["An apple.", "Quartz."], text_pairs=[None, "Pair"]
    )
    neighbors = datastore.search([[0, 0]], k=2)
    assert [neighbors.example(0, rank) for rank in range(2)] == [
        {"label": "fruit", "text": "An apple.", "text_pair": None, "id": "0", "distance": 0.0},
        {"label": "mineral", "text": "Quartz.", "text_pair": "Pair", "id": "1", "distance": 25.0},
    ]
    assert neighbors.texts == [["An apple.", "Quartz."]]
    assert (neighbors.distances.dtype, neighbors.labels.dtype, neighbors.rows.dtype) == ("float32", "int64", "int64")
    with pytest.raises(IndexError):
        neighbors.example(0, 2)


def test_several_labels_per_row_and_new_labels():
    datastore = KNNDatastore([[0, 0], [1, 1], [2, 2]], [["a", "b"], [], [1]], ["a", "b"])
    neighbors = datastore.search([[0, 0]], k=3)
    assert datastore.multi_label and neighbors.labels.shape == (1, 3, 2) and neighbors.labels.dtype == bool
    assert [neighbors.example(0, j)["labels"] for j in range(3)] == [["a", "b"], [], ["b"]]
    datastore.add([[3, 3]], [["c", "a"]])
    assert datastore.label_names == ("a", "b", "c") and neighbors.label_names == ("a", "b")
    assert datastore.labels.tolist() == [[1, 1, 0], [0, 0, 0], [0, 1, 0], [1, 0, 1]]
    with pytest.raises(ValueError, match="pass a list"):
        datastore.add([[3, 3]], ["c"])
    assert KNNDatastore([[0, 0]], [[]], []).multi_label and not KNNDatastore(np.zeros((0, 2)), [], []).multi_label


def test_returned_arrays_are_read_only(tmp_path):
    datastore = make_datastore()
    given = np.zeros((1, 8), dtype=np.float32)
    datastore.add(given, [0])
    given[:] = 9
    assert datastore.keys[-1].tolist() == [0] * 8
    datastore.remove(["0"])
    datastore.save_pretrained(tmp_path)
    for owner in (datastore, KNNDatastore.from_pretrained(tmp_path)):
        for array in (owner.keys, owner.labels):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 0


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (([[0.0], [7e4]], [0, 0], NAMES), {"dtype": "float16"}, r"keys: row 1 .* \(as float16\)"),
        (([[0.0]], [0, 1], NAMES), {}, "There are 1 keys, but 2 labels"),
        (([[0.0]], [0], ["a", "a"]), {}, r"label_names must be different strings, got \['a', 'a'\]"),
        (([[0.0]], [0], "abc"), {}, "label_names must be different strings, got 'abc'"),
        (([[0.0]], [0], [1]), {}, "label_names must be different strings"),
        (([[0.0]], [0], NAMES), {"dtype": "float64"}, "dtype must be 'float32' or 'float16', got 'float64'"),
        (([[0.0]], [0], NAMES), {"probe": [[0.0, 1.0]]}, r"probe must be numbers of shape \(N, 1\)"),
        (([[0.0]], [0], NAMES), {"probe": [[np.inf]]}, "probe: row 0 holds NaN"),
    ],
)
def test_wrong_arguments_are_refused(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        KNNDatastore(*arguments, **options)


def test_searching_an_empty_datastore_is_refused():
    datastore = KNNDatastore.empty(8, NAMES)
    assert (len(datastore), datastore.snapshot.keys.shape[1], datastore.keys.shape) == (0, 8, (0, 8))
    with pytest.raises(ValueError, match="The datastore is empty.*add examples first"):
        datastore.search(np.zeros((1, 8)), 1)
    datastore.add([[1] * 8], ["fruit"])
    assert datastore.search(np.zeros((1, 8)), 5).distances.tolist() == [[8.0]]


def test_automatic_ids_are_not_reused():
    datastore = KNNDatastore.empty(1)
    assert datastore.add([[0]] * 2, ["a"] * 2) == ["0", "1"]
    assert datastore.add([[0]] * 2, ["a"] * 2, ids=["x", "3"]) == ["x", "3"]
    datastore.remove(["1"])
    assert datastore.add([[0]] * 2, ["a"] * 2) == ["4", "5"]
    with pytest.raises(ValueError, match="The id '3' is there already"):
        datastore.add([[0]], ["a"], ids=["3"])
    assert datastore.ids == ["0", "x", "3", "4", "5"]


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
    before = datastore.snapshot
    with pytest.raises(ValueError):
        datastore.add(*arguments, **options)
    assert datastore.snapshot is before
    assert datastore.add([[5] * 8], [1]) == ["50"]
    assert_exact(datastore)


def test_another_encoder_is_refused_and_rounding_is_accepted(caplog):
    probe = np.random.default_rng(0).standard_normal((3, 8))
    stored = make_datastore(probe=probe).snapshot.probe
    with caplog.at_level(logging.WARNING):
        for same in (probe.astype(np.float16), 1.05 * probe):
            check_probe(same, stored)
    assert caplog.text == ""
    for other in (probe + 0.5, 1.2 * probe, 0 * probe, np.nan * probe):
        with pytest.raises(ValueError, match="built by another encoder"):
            check_probe(other, stored)
    with pytest.raises(ValueError, match=r"embeddings have shape \(3, 4\), the datastore's \(3, 8\)"):
        check_probe(probe[:, :4], stored)
    check_probe(probe, make_datastore().snapshot.probe)
    assert "no probe" in caplog.text


@pytest.mark.parametrize("several", [False, True])
def test_relabeling_changes_only_labels(several):
    datastore = KNNDatastore(np.eye(4), [[0], [1], [], [0, 1]] if several else [0, 1, 2, 0], NAMES, ids=list("abcd"))
    datastore.fitted = FittedState({}, {}, ())
    before = datastore.snapshot
    found = datastore.search([[0, 0, 0, 1]], 2)
    datastore.relabel({"d": ["vegetable", "mineral"], "b": []} if several else {"d": "mineral", "b": 2})
    expected = [[1, 0, 0], [0, 0, 0], [0, 0, 0], [0, 1, 1]] if several else [0, 2, 2, 1]
    assert datastore.labels.tolist() == np.array(expected, dtype=datastore.labels.dtype).tolist()
    assert not datastore.labels.flags.writeable and datastore.fitted is before.fitted
    assert datastore.keys is before.keys and datastore.ids == list("abcd")
    assert np.array_equal(found.labels[0, 0], before.labels[3])  # what was found does not change
    datastore.add([[0] * 4], [["fruit"] if several else "fruit"])
    assert datastore.labels[:4].tolist() == np.array(expected, dtype=datastore.labels.dtype).tolist()
    datastore.relabel({})
