"""An approximate index finds nearly all, and nothing wrong, while rows come and go and it is built again."""

import logging

import numpy as np
import pytest

from .datastores import assert_exact, brute_force, make_datastore


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


@pytest.mark.parametrize(
    ("index", "nprobe", "rerank", "dtype", "least"),
    [
        ("IVF16,Flat", 8, None, "float32", 0.9),
        ("IVF16,PQ4x4", 16, 25, "float16", 0.9),
        ("PCA8,IVF16,Flat", 8, 10, "float32", 0.7),
        ("HNSW32", None, 2, "float16", 0.9),
        ("SQ8", None, 2, "float32", 0.99),
    ],
)
def test_an_index_finds_the_nearest_after_additions_and_removals(index, nprobe, rerank, dtype, least):
    datastore = make_datastore(2500, 16, index=index, nprobe=nprobe, rerank=rerank, dtype=dtype)
    assert datastore.snapshot.indexed == 2500
    assert recall(datastore) >= least
    rng = np.random.default_rng(1)
    datastore.add(rng.standard_normal((300, 16)), rng.integers(0, 3, 300), ids=[f"new {i}" for i in range(300)])
    datastore.remove(datastore.ids[100:400] + datastore.ids[-50:])
    assert (datastore.snapshot.indexed, datastore.snapshot.outside_index) == (2200, 550)
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


def test_removed_rows_are_not_found():
    datastore = make_datastore(2500, 16, index="IVF32,Flat", nprobe=1)
    query = datastore.keys[:1]
    nearest = datastore.search(query, 900).ids[0]
    datastore.remove(nearest)  # all that the list of this query holds
    assert datastore.snapshot.indexed == 1600
    found = datastore.search(query, 20)
    assert not set(found.ids[0]) & set(nearest) and np.isfinite(found.distances).all()


def test_an_index_is_rebuilt_after_many_changes(caplog):
    caplog.set_level(logging.INFO)
    datastore = make_datastore(1200, index="IVF16,Flat")
    first = datastore.snapshot.index
    datastore.add(np.ones((600, 8)), [0] * 600)
    datastore.remove(datastore.ids[:400])
    assert datastore.snapshot.index is first and datastore.snapshot.outside_index == 1000
    caplog.clear()
    datastore.remove(datastore.ids[:1])
    assert datastore.snapshot.index is not first and datastore.snapshot.outside_index == 0
    assert "Built the index 'IVF16,Flat' of 1399 rows" in caplog.text
    caplog.clear()
    datastore.remove(datastore.ids[:500])
    datastore.remove(datastore.ids[:501])
    assert datastore.snapshot.index is None
    assert "398 rows are too few for 'IVF16,Flat': search is exact until there are 1000" in caplog.text
    assert_exact(datastore)


def test_an_index_is_built_once_there_are_enough_rows_with_one_warning(caplog):
    with caplog.at_level(logging.WARNING):
        datastore = make_datastore(900, index="IVF16,Flat", nprobe=16)
        assert_exact(datastore)
        for number in range(2):
            datastore.add(np.random.default_rng(number).standard_normal((49, 8)), [0] * 49)
    assert caplog.text.count("900 rows are too few for 'IVF16,Flat': search is exact until there are 1000") == 1
    assert caplog.text.count("too few") == 1 and datastore.snapshot.index is None
    datastore.add(np.zeros((2, 8)), [0] * 2)
    assert datastore.snapshot.indexed == 1000
    assert_exact(datastore)


def test_reindex():
    datastore = make_datastore(2500, 16)
    datastore.reindex("IVF16,Flat", nprobe=1)
    first = datastore.snapshot.index
    few = recall(datastore)
    datastore.reindex("IVF16,Flat", nprobe=16)
    assert datastore.snapshot.index is first
    assert few < recall(datastore) == 1
    datastore.reindex("HNSW32")
    assert datastore.snapshot.options.factory == "HNSW32" and recall(datastore) > 0.9
    with pytest.raises(ValueError, match="Unknown index 'nonsense'"):
        datastore.reindex("nonsense")
    with pytest.raises(ValueError, match="cannot make the index 'PQ5'"):
        datastore.reindex("PQ5")
    assert datastore.snapshot.options.factory == "HNSW32"
    datastore.reindex()
    assert datastore.snapshot.index is None
    assert_exact(datastore)
