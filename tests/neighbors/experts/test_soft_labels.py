import numpy as np
import pytest
import scipy.sparse as sp

from docsplit_hf.neighbors.experts import soft_labels
from docsplit_hf.neighbors.experts.document_vectors import unit
from docsplit_hf.neighbors.experts.soft_labels import ALPHA, neighbor_graph, spread_labels

from .stores import make_keys


def make_graph(count=30, k=4, seed=0):
    return neighbor_graph(unit(np.random.default_rng(seed).standard_normal((count, 5)).astype(np.float32)), k)


def test_the_graph_is_by_its_definition():
    vectors = unit(np.random.default_rng(0).standard_normal((30, 5)).astype(np.float32))
    cosines = vectors.astype(np.float64) @ vectors.T
    np.fill_diagonal(cosines, -np.inf)
    nearest = np.argsort(-cosines, axis=1)[:, :4]
    affinity = np.zeros((30, 30))
    for row, columns in enumerate(nearest):
        affinity[row, columns] = affinity[columns, row] = np.maximum(cosines[row, columns], 0) ** 2
    root = 1 / np.sqrt(affinity.sum(1))
    found = neighbor_graph(vectors, 4)
    assert found.dtype == np.float32 and abs(found - found.T).max() < 1e-6
    np.testing.assert_allclose(found.toarray(), affinity * root[:, None] * root, atol=1e-6)


def test_copies_and_few_texts_are_a_graph_too():
    copies = np.repeat(unit(np.eye(3, 5, dtype=np.float32)), 20, axis=0)
    graph = neighbor_graph(copies)
    assert np.isfinite(graph.data).all() and graph.diagonal().sum() == 0 and abs(graph - graph.T).max() < 1e-6
    for count in range(4):
        assert neighbor_graph(np.ones((count, 1), np.float32)).shape == (count, count)


def test_an_approximate_graph_is_nearly_the_exact_one(monkeypatch):
    vectors = unit(make_keys(np.arange(2_000) % 3, noise=2.0))
    exact = neighbor_graph(vectors)
    monkeypatch.setattr(soft_labels, "EXACT_GRAPH", 1_000)
    monkeypatch.setattr(soft_labels, "LISTS", 32)
    approximate = neighbor_graph(vectors)
    assert abs(approximate - approximate.T).max() < 1e-6
    assert (exact.astype(bool).multiply(approximate.astype(bool))).sum() > 0.97 * exact.nnz


def test_spreading_goes_to_the_closed_form(monkeypatch):
    """``F = (1 - a)(I - a S)^-1 Y``, each label with the same mass, each text a distribution; examples as given."""
    monkeypatch.setattr(soft_labels, "STEPS", 400)
    graph, rows, targets = make_graph(), np.array([2, 7, 11, 20]), np.eye(3)[[0, 1, 2, 1]]
    start = np.zeros((30, 3))
    start[rows] = targets
    closed = (1 - ALPHA) * np.linalg.solve(np.eye(30) - ALPHA * graph.toarray(), start)
    balanced = closed / closed.sum(0)
    expected = balanced / balanced.sum(1, keepdims=True)
    expected[rows] = targets
    np.testing.assert_allclose(spread_labels(graph, rows, targets, several=False), expected, atol=1e-4)
    several = np.array([[1, 1, 0], [0, 1, 0], [0, 0, 0], [1, 0, 1]], float)
    start = np.zeros((30, 4))
    start[rows] = np.hstack([several, np.ones((4, 1))])
    closed = np.linalg.solve(np.eye(30) - ALPHA * graph.toarray(), start)
    expected = closed[:, :3] / closed[:, 3:]
    expected[rows] = several
    np.testing.assert_allclose(spread_labels(graph, rows, several, several=True), expected, atol=1e-4)


def test_forty_steps_are_near_the_end(monkeypatch):
    graph, rows, targets = make_graph(), np.array([2, 7, 11]), np.eye(3)
    found = spread_labels(graph, rows, targets, several=False)
    monkeypatch.setattr(soft_labels, "STEPS", 400)
    assert np.abs(found - spread_labels(graph, rows, targets, several=False)).max() < 0.02


@pytest.mark.parametrize("several", [False, True])
def test_a_text_that_no_example_reaches_has_all_labels_alike_or_as_often_as_the_examples(several):
    graph = sp.block_array([[make_graph(10), None], [None, make_graph(6)]], format="csr").astype(np.float32)
    targets = np.array([[1, 0], [1, 1], [1, 0]], float) if several else np.eye(2)[[0, 1, 0]]
    found = spread_labels(graph, np.arange(3), targets, several)
    np.testing.assert_allclose(found[10:], [[1, 1 / 3]] * 6 if several else 0.5, rtol=1e-6)
    assert np.array_equal(found[:3], targets) and found.dtype == np.float32
    if not several:
        np.testing.assert_allclose(found.sum(1), 1, rtol=1e-6)


def test_unequal_examples_have_equal_mass():
    """Three examples of one label do not outvote one of another where both are as near."""
    graph = sp.csr_array(np.array([[0, 0, 0, 0, 0.5], [0] * 5, [0] * 5, [0] * 5, [0.5, 0, 0, 0, 0]], np.float32))
    graph = graph + sp.csr_array(([0.5, 0.5], ([1, 4], [4, 1])), (5, 5), dtype=np.float32)
    found = spread_labels(graph, np.arange(4), np.eye(2)[[0, 1, 0, 0]], several=False)
    assert found[4, 1] > 0.5
