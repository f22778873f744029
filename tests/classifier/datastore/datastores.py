"""Datastores of random keys, and their expected search results."""

import numpy as np

from docsplit_hf import KNNDatastore
from docsplit_hf.arrays.fitted_state import DTYPES, FittedState
from docsplit_hf.arrays.passages import Passages, take_passages

NAMES = ["fruit", "mineral", "vegetable"]


def make_datastore(rows=50, dimension=8, seed=0, multi_label=False, **options):
    rng = np.random.default_rng(seed)
    keys = rng.standard_normal((rows, dimension))
    labels = [rng.permutation(3)[: i % 4].tolist() for i in range(rows)] if multi_label else rng.integers(0, 3, rows)
    texts = [f"Text {i}" if i % 3 else None for i in range(rows)]
    return KNNDatastore(keys, labels, NAMES, texts, **options)


def make_passages(keys, seed=0, most=5):
    """Make one to five passages near each key; a single passage equals the key."""
    rng = np.random.default_rng(seed)
    keys = np.asarray(keys)
    counts = rng.integers(1, most + 1, len(keys))
    embeddings = np.repeat(keys, counts, axis=0)
    embeddings += np.repeat(counts > 1, counts)[:, None] * rng.standard_normal(embeddings.shape)
    starts = rng.integers(0, 4, len(embeddings))
    return Passages(embeddings, counts, np.stack([starts, starts + rng.integers(0, 4, len(embeddings))], axis=1))


def with_passages(rows=50, dimension=8, seed=0, **options):
    """Make a datastore with one to five passages per row."""
    passages = make_passages(np.random.default_rng(seed).standard_normal((rows, dimension)), seed)
    return make_datastore(rows, dimension, seed, passages=passages, **options)


def make_fitted(seed=0):
    """Make a fitted state with arrays of each dtype, empty and scalar arrays, and unusual terms."""
    rng = np.random.default_rng(seed)
    arrays = {dtype: (9 * rng.standard_normal((4, 3))).astype(dtype) for dtype in DTYPES}
    arrays |= {"a transposed one": rng.standard_normal((2, 5)).T, "no/rows": np.zeros((0, 3)), "ü": np.array(2.5)}
    settings = {"experts": [{"name": "knn", "weight": 0.1 + 0.2}, None, True, "\ud800"], "seed": seed}
    return FittedState(settings, arrays, ("the", "", "好", "a\0b", "the", f"term {seed}"))


def fill(datastore, rows=20, seed=3, passages=False):
    """Add documents, maybe of several passages, and a fitted state."""
    keys = np.random.default_rng(seed).standard_normal((rows, datastore.snapshot.keys.shape[1]))
    texts = [f"Document {i}" if i % 3 else None for i in range(rows)]
    datastore.add_documents(keys, texts, passages=make_passages(keys, seed) if passages else None)
    datastore.remove_documents(["d2"])
    datastore.fitted = make_fitted(seed)
    return datastore


def contents_of(fitted):
    """The contents of a fitted state, bit by bit."""
    arrays = [[name, str(a.dtype), list(a.shape), a.tobytes().hex()] for name, a in sorted(fitted.arrays.items())]
    return [fitted.settings, arrays, list(fitted.vocabulary)]


def everything(datastore):
    """Rows, documents and fitted state, bit by bit, as JSON."""
    rows = [
        datastore.keys.tobytes().hex(),
        datastore.snapshot.keys.dtype.name,
        datastore.labels.tolist(),
        list(datastore.label_names),
    ]
    rows += [datastore.ids, datastore.texts, datastore.snapshot.rows["text_pair"].to_pylist()]
    passages = take_passages(datastore.snapshot.passages, np.arange(len(datastore)))
    rows += [passages and [passages.embeddings.tobytes().hex(), passages.counts.tolist(), passages.spans.tolist()]]
    documents = datastore.documents
    fitted = datastore.fitted
    return [rows, documents and everything(documents), fitted and contents_of(fitted)]


def same(first, second):
    """Whether two datastores have the same rows; their indexes may differ."""
    return (
        np.array_equal(first.keys, second.keys)
        and np.array_equal(first.labels, second.labels)
        and (first.label_names, first.ids, first.texts) == (second.label_names, second.ids, second.texts)
    )


def make_queries(datastore, count=6, seed=7):
    return np.random.default_rng(seed).standard_normal((count, datastore.snapshot.keys.shape[1])).astype(np.float32)


def answers(datastore, k=5):
    neighbors = datastore.search(make_queries(datastore), k)
    arrays = [neighbors.distances.tolist(), neighbors.labels.tolist()]
    return [*arrays, neighbors.ids, neighbors.texts, list(neighbors.label_names)]


def brute_force(datastore, queries, k):
    """Distances and ids of the nearest rows, by the definition."""
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
