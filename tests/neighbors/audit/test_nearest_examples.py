import numpy as np
import pytest

from docsplit_hf.neighbors.audit.nearest_examples import nearest_examples
from docsplit_hf.neighbors.experts import soft_labels
from docsplit_hf.neighbors.experts.document_vectors import unit


def make_vectors(count, copies=0, seed=0):
    vectors = unit(np.random.default_rng(seed).standard_normal((count, 8)).astype(np.float32))
    return np.concatenate([vectors, vectors[:copies]])


@pytest.mark.parametrize("copies", [0, 5])
def test_they_are_those_of_the_largest_cosines_without_the_example_itself(copies):
    vectors = make_vectors(30, copies)
    found, cosines = nearest_examples(vectors, 4), vectors @ vectors.T
    np.fill_diagonal(cosines, -2)
    np.testing.assert_allclose(found.cosines, -np.sort(-cosines, axis=1)[:, :4], atol=1e-6)
    np.testing.assert_allclose(np.take_along_axis(cosines, found.rows, 1), found.cosines, atol=1e-6)
    np.testing.assert_allclose(found.closeness(), found.cosines.mean(1), atol=1e-6)


def test_there_may_be_fewer():
    found = nearest_examples(make_vectors(3))
    assert found.rows.shape == (3, 2) and found.counts(np.arange(3)).tolist() == [2, 2, 2]


def test_what_an_index_misses_does_not_count(monkeypatch):
    rows = np.array([[1, -1, -1], [0, 2, 1], [2, 1, -1]])  # the index missed the first one itself
    monkeypatch.setattr("docsplit_hf.neighbors.audit.nearest_examples.nearest_rows", lambda vectors, k: rows.copy())
    vectors = make_vectors(3)
    found = nearest_examples(vectors, 2)
    assert found.rows.tolist() == [[1, -1], [0, 2], [1, -1]] and found.counts(np.arange(3)).tolist() == [1, 2, 1]
    assert found.closeness()[0] == pytest.approx(float(vectors[0] @ vectors[1]))
    values = np.array([7, 8, 7])
    assert found.agreeing(values, np.array([1, 2]), np.array([7, 7])).tolist() == [2, 0]


def test_many_are_searched_by_an_index(monkeypatch):
    vectors = make_vectors(2_000)
    exact = nearest_examples(vectors).rows
    monkeypatch.setattr(soft_labels, "EXACT_GRAPH", 1_000)
    found = nearest_examples(vectors).rows
    assert np.mean([len(set(a) & set(b)) for a, b in zip(exact.tolist(), found.tolist(), strict=True)]) > 9
