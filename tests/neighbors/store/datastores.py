"""Datastores of random keys, and what their answers should be."""

import numpy as np

from docsplit_hf import KNNDatastore

NAMES = ["fruit", "mineral", "vegetable"]


def make_datastore(rows=50, dimension=8, seed=0, multi_label=False, **options):
    rng = np.random.default_rng(seed)
    keys = rng.standard_normal((rows, dimension))
    labels = [rng.permutation(3)[: i % 4].tolist() for i in range(rows)] if multi_label else rng.integers(0, 3, rows)
    texts = [f"Text {i}" if i % 3 else None for i in range(rows)]
    return KNNDatastore(keys, labels, NAMES, texts, **options)


def make_queries(datastore, count=6, seed=7):
    return np.random.default_rng(seed).standard_normal((count, datastore.dimension)).astype(np.float32)


def answers(datastore, k=5):
    neighbors = datastore.search(make_queries(datastore), k)
    arrays = neighbors.distances.tolist(), neighbors.labels.tolist()
    return [*arrays, neighbors.ids, neighbors.texts, neighbors.text_pairs, list(neighbors.label_names)]


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
