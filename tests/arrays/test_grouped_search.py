"""Grouped search equals its definition; each document is found once."""

import tracemalloc
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docsplit_hf.arrays.grouped_search import grouped_among, grouped_search


def matched(pairs):
    matches = min(pairs.shape)
    weights = 1 / np.arange(1, matches + 1)
    both = [np.sort(pairs.min(axis))[:matches] for axis in (0, 1)]
    return (weights @ both[0] + weights @ both[1]) / (2 * weights.sum())


def by_definition(queries, query_counts, keys, counts, distance=matched):
    """Distances of all documents from all queries, each from those of all pairs of passages."""
    stored = np.split(keys.astype(np.float64), np.cumsum(counts)[:-1])
    asked = np.split(queries.astype(np.float64), np.cumsum(query_counts)[:-1])
    squares = [[((query[:, None] - document[None]) ** 2).sum(-1) for document in stored] for query in asked]
    return np.array([[distance(pairs) for pairs in of_query] for of_query in squares])


@given(data=st.data())
def test_grouped_search_equals_its_definition(data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32), label="seed"))
    documents, dimension = (data.draw(st.integers(1, most), label="size") for most in (40, 12))
    counts = rng.integers(1, 8, documents)
    query_counts = rng.integers(1, 8, data.draw(st.integers(1, 5), label="asked"))
    integers = data.draw(st.booleans(), label="integers")
    far = data.draw(st.sampled_from([0, 30]), label="far")

    def draw(rows):
        drawn = rng.integers(-2, 3, (rows, dimension)) if integers else rng.standard_normal((rows, dimension)) + far
        return drawn.astype(np.float32)

    queries = draw(query_counts.sum())
    keys = draw(counts.sum())
    keys = keys.astype(data.draw(st.sampled_from(["float32", "float16"]), label="dtype"))
    k = data.draw(st.integers(1, documents), label="k")
    block = data.draw(st.sampled_from([1, 200, 2**26]), label="bytes of a block")
    with patch("docsplit_hf.arrays.grouped_search.BLOCK_BYTES", block):
        found = grouped_search(queries, query_counts, keys, counts, k)
    expected = by_definition(queries, query_counts, keys, counts)
    np.testing.assert_allclose(found.distances, np.sort(expected)[:, :k], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(np.take_along_axis(expected, found.rows, 1), found.distances, rtol=1e-5, atol=1e-6)
    assert all(len(set(rows)) == k for rows in found.rows.tolist())
    own = queries[(np.cumsum(query_counts) - query_counts)[:, None] + found.query_passages].astype(np.float64)
    named = ((own - keys[found.passages]) ** 2).sum(-1)
    stored = np.split(keys.astype(np.float64), np.cumsum(counts)[:-1])
    nearest = [[((q - stored[row]) ** 2).sum(-1).min() for q, row in zip(*pair, strict=True)]
               for pair in zip(own, found.rows, strict=True)]  # fmt: skip
    np.testing.assert_allclose(named, nearest, rtol=1e-5, atol=1e-6)
    assert (found.query_passages < query_counts[:, None]).all()
    assert np.array_equal(np.repeat(np.arange(documents), counts)[found.passages], found.rows)
    asked = np.split(queries.astype(np.float64), np.cumsum(query_counts)[:-1])
    # The passage that is nearer to this document than to the mean of all by the largest margin, within rounding.
    largest = np.square(queries.astype(np.float64)).sum(1).max() + np.square(keys.astype(np.float64)).sum(1).max()
    for query, rows, named in zip(asked, found.rows, found.query_passages, strict=True):
        to_all = np.stack([((query[:, None] - one[None]) ** 2).sum(-1).min(1) for one in stored], axis=1)
        margins = to_all.mean(1, keepdims=True) - to_all[:, rows]
        rounding = 2e-4 * to_all.mean(1).max() + 2.0**-22 * (dimension + 3) * largest
        assert (margins[named, np.arange(k)] >= margins.max(0) - rounding).all()


def documents(rng, count=30, dimension=6):
    return [rng.standard_normal((rng.integers(3, 9), dimension)).astype(np.float32) for _ in range(count)]


def search(queries, stored, k=30):
    lengths = [np.array([len(passages) for passages in each]) for each in (queries, stored)]
    return grouped_search(np.concatenate(queries), lengths[0], np.concatenate(stored), lengths[1], k)


def test_far_passages_beyond_the_smaller_count_do_not_matter():
    """The smaller number of passages counts: a document within a longer one is at distance 0."""
    rng = np.random.default_rng(0)
    queries = documents(rng, 4)
    stored = documents(rng)
    far = [np.full((200, 6), 9, np.float32) if i % 2 else np.zeros((0, 6), np.float32) for i in range(len(stored))]
    longer = [np.concatenate(both) for both in zip(stored, far, strict=True)]
    found = search(stored, longer, 1)
    assert found.rows[:, 0].tolist() == list(range(len(stored))) and (found.distances == 0).all()
    again = search([each[:1] for each in queries], longer, 10)
    expected = search([each[:1] for each in queries], stored, 10)
    assert np.array_equal(expected.distances, again.distances) and np.array_equal(expected.rows, again.rows)


def test_shared_passages_do_not_change_the_order():
    rng = np.random.default_rng(0)
    shared = 30 * np.eye(6, dtype=np.float32)[:5]  # far from all else
    queries, stored = ([each[:1] for each in documents(rng, count)] for count in (4, 30))
    found = search(queries, stored, 10)
    again = search(*([np.concatenate([shared, each]) for each in part] for part in (queries, stored)), 10)
    assert np.array_equal(found.rows, again.rows)
    assert (again.query_passages == 5).all()  # and they are not what is shown
    assert np.array_equal(again.passages, found.rows * 6 + 5)
    np.testing.assert_allclose(again.distances, found.distances / 6 / (1 / np.arange(1, 7)).sum(), rtol=1e-4)


def test_of_passages_that_tell_as_much_the_nearest_is_shown():
    """Both passages of the query are nearer to the first document than to the other by the same distance."""
    stored = [np.array([[1, 0, 0]], np.float32), np.array([[3**0.5, 0, 0]], np.float32)]
    query = np.array([[0, 3**0.5, 0], [0, 0, 0]], np.float32)  # at 4 and 6, and at 1 and 3
    found = search([query], stored, 2)
    assert found.rows.tolist() == [[0, 1]] and found.query_passages[0, 0] == 1


def test_the_distance_of_a_document_to_itself_is_zero():
    rng = np.random.default_rng(0)
    # Far from the origin, where distances by products tell nothing apart.
    stored = [300 + 0.1 * rng.standard_normal((i % 8 + 1, 64), dtype=np.float32) for i in range(80)]
    found = search(stored, stored, 2)
    assert (found.distances[:, 0] == 0).all() and found.rows[:, 0].tolist() == list(range(80))


def test_lower_rows_come_first_among_many_equal_documents():
    found = search(
        [np.ones((2, 300), np.float32) / 3], [np.ones((i % 3 + 1, 300), np.float32) for i in range(500)], 400
    )
    assert found.rows.tolist() == [list(range(400))]
    assert (found.passages[0] == np.cumsum([0, *(i % 3 + 1 for i in range(399))])).all()


def test_search_among_some_rows_agrees_with_search_among_all():
    rng = np.random.default_rng(0)
    (query,) = documents(rng, 1)
    stored = documents(rng)
    keys = np.concatenate(stored)
    counts = np.array([len(each) for each in stored])
    rows = np.array([2, 3, 11, 29])
    found = grouped_among(query, keys, counts, rows, 4)
    everything = search([query], stored)
    kept = np.isin(everything.rows[0], rows)
    for among, each in list(zip(found, everything, strict=True))[:2]:  # what is telling depends on the others
        assert np.array_equal(among[0], each[0][kept])


@pytest.mark.parametrize("asked", [1, 1500])
def test_memory_is_bounded_by_blocks(asked):
    rng = np.random.default_rng(0)
    queries = rng.standard_normal((asked, 16)).astype(np.float32)
    keys = rng.standard_normal((7_000, 16)).astype(np.float16)
    counts = np.array([*[10] * 400, 1500, 1500])
    with patch("docsplit_hf.arrays.grouped_search.BLOCK_BYTES", 2**18):
        tracemalloc.start()
        grouped_search(queries, np.array([asked]), keys, counts, 10)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 12 * 2**18  # all pairs would be 42 MB
