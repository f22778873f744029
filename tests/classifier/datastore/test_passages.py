"""Rows of several passages: adding, removing, merging, copying and searching."""

import copy
import logging
import pickle

import numpy as np
import pytest

from docsplit_hf import KNNDatastore
from docsplit_hf.arrays.passages import Passages, take_passages, whole_rows
from docsplit_hf.arrays.snapshot import equal_neighbors

from ...arrays.test_grouped_search import by_definition
from .datastores import NAMES, answers, everything, fill, make_datastore, make_passages, make_queries, with_passages


def passages_of(datastore):
    """The passages of all rows; of one each where the datastore keeps none."""
    found = take_passages(datastore.snapshot.passages, np.arange(len(datastore)))
    return whole_rows(datastore.keys, datastore.snapshot.rows) if found is None else found


def assert_exact(datastore, k=10):
    queries = make_queries(datastore)
    stored = passages_of(datastore)
    asked = make_passages(queries, most=6)
    for passages in (None, asked):
        found = datastore.search(queries, k, passages)
        embeddings, counts = (queries, np.ones(len(queries), int)) if passages is None else passages[:2]
        expected = by_definition(embeddings.astype(np.float32), counts, stored.embeddings, stored.counts)
        order = np.argsort(expected, axis=1, kind="stable")[:, :k]
        assert found.ids == [[datastore.ids[row] for row in rows] for rows in order]
        np.testing.assert_allclose(found.distances, np.take_along_axis(expected, order, 1), rtol=1e-5)
        assert np.array_equal(found.labels, datastore.labels[order])


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_any_sequence_of_changes_equals_a_datastore_of_the_remaining_rows(dtype):
    rng = np.random.default_rng(0)
    datastore = KNNDatastore.empty(8, NAMES, dtype=dtype)
    left = {}
    for step in range(60):
        keys = rng.standard_normal((rng.integers(1, 6), 8)).astype(dtype)
        labels = [step % 3]
        passages = make_passages(keys, step) if step % 3 else None
        texts = [None if i % 2 else f"Text {step}-{i}" for i in range(len(keys))]
        replaced = rng.permutation(list(left))[:2].tolist() if step % 7 == 6 else []
        ids = datastore.add(keys, labels * len(keys), texts, replacing=replaced, passages=passages)
        cut = passages or Passages(keys, np.ones(len(keys), int), [[0, len(text or "")] for text in texts])
        ends = np.cumsum(cut.counts)
        for row, row_id in enumerate(ids):
            own = slice(ends[row] - cut.counts[row], ends[row])
            left[row_id] = keys[row], labels[0], texts[row], cut.embeddings[own], cut.spans[own]
        gone = replaced + (rng.permutation(list(left))[:4].tolist() if step % 5 == 4 else [])
        datastore.remove([row_id for row_id in gone if row_id not in replaced])
        for row_id in gone:
            del left[row_id]
    keys, labels, texts, embeddings, spans = zip(*left.values(), strict=True)
    passages = Passages(np.concatenate(embeddings), list(map(len, embeddings)), np.concatenate(spans))
    made = KNNDatastore(keys, labels, NAMES, texts, ids=list(left), dtype=dtype, passages=passages)
    assert len(made) > 40 and everything(datastore) == everything(made) and answers(datastore) == answers(made)
    assert_exact(datastore)


def test_rows_of_one_passage_each_equal_rows_without_passages():
    plain = make_datastore()
    ones = make_passages(plain.keys, most=1)
    datastore = make_datastore(passages=ones)
    datastore.add([[1] * 8], [0], passages=make_passages([[1.0] * 8], most=1))
    plain.add([[1] * 8], [0])
    assert datastore.snapshot.passages is None and everything(datastore) == everything(plain)
    queries = make_queries(plain)
    expected = plain.search(queries, 5)
    found = datastore.search(queries, 5, make_passages(queries, most=1))
    assert np.array_equal(expected.distances, found.distances) and np.array_equal(expected.rows, found.rows)
    assert (found.nearest, found.query_passages) == (None, None) and "passage" not in found.example(0, 0)


def test_removing_all_rows_of_several_passages_leaves_a_plain_datastore():
    datastore = with_passages()
    plain = make_datastore()
    several = passages_of(datastore).counts > 1
    gone = [row_id for row_id, cut in zip(datastore.ids, several, strict=True) if cut]
    for each in (datastore, plain):
        each.remove(gone)
    assert datastore.snapshot.passages is None and everything(datastore) == everything(plain)
    for each in (datastore, plain):
        each.add([[2] * 8], ["fruit"], ["New"])
    assert everything(datastore) == everything(plain)


def test_a_row_without_passages_has_one_of_its_whole_text():
    datastore = KNNDatastore([[0, 0], [1, 1]], ["a", "a"], [], ["Grün 好", None])
    datastore.add([[5, 5]], ["b"], passages=Passages([[4, 4], [6, 6]], [2], [[0, 3], [3, 9]]))
    assert [array.tolist() for array in take_passages(datastore.snapshot.passages, [0, 1, 2])] == [
        [[0, 0], [1, 1], [4, 4], [6, 6]], [1, 1, 2], [[0, 6], [0, 0], [0, 3], [3, 9]],
    ]  # fmt: skip


def test_the_nearest_passage_is_shown_with_its_span_and_text():
    text = "Apples are red. Quartz is hard."
    passages = Passages(
        [[0, 0], [9, 9], [1, 0], [5, 5], [7, 7]], [2, 1, 2], [[0, 15], [16, 31], [0, 4], [0, 1], [1, 2]]
    )
    datastore = KNNDatastore([[5, 5], [1, 0], [6, 6]], [0, 1, 2], NAMES, [text, "Pear", None], passages=passages)
    neighbors = datastore.search([[0, 0]], 3, Passages([[20, 20], [8.9, 9]], [2], [[0, 1], [1, 2]]))
    assert neighbors.rows.tolist() == [[2, 0, 1]]
    assert neighbors.passages.spans[neighbors.nearest].tolist() == [[[1, 2], [16, 31], [0, 4]]]
    assert neighbors.query_passages.tolist() == [[0, 0, 1]]
    assert neighbors.example(0, 0)["passage"] == {"start": 1, "end": 2}
    assert neighbors.example(0, 1)["passage"] == {"start": 16, "end": 31, "text": "Quartz is hard."}
    assert "passage" not in neighbors.example(0, 2)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_queries_of_several_passages_find_rows_of_one(dtype):
    assert_exact(make_datastore(dtype=dtype))


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda given: pickle.loads(pickle.dumps(given))])
def test_copies_are_independent(copied):
    datastore = fill(with_passages(), passages=True)
    before = everything(datastore)
    other = copied(datastore)
    other.add([[1] * 8], [0], passages=Passages(np.ones((2, 8)), [2], [[0, 1], [1, 2]]))
    other.add_documents([[1] * 8])
    assert everything(datastore) == before and everything(other) != before
    view = datastore.documents
    view.add([[3] * 8], [[]])
    assert len(datastore.documents) == len(view) - 1
    kept = other.documents.keys, other.fitted.arrays["float64"], other.snapshot.passages.embeddings
    for array in (*kept, datastore.snapshot.passages.counts):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_passages_are_added_and_kept_for_documents():
    first = with_passages(seed=1)
    second = fill(make_datastore(rows=3))
    both = make_datastore(rows=3)
    second.add_documents([[1] * 8], ["Two parts"], passages=Passages(np.ones((2, 8)), [2], [[0, 3], [4, 9]]))
    documents = everything(second.documents)
    stored = passages_of(first)
    for datastore in (second, both):
        datastore.add(first.keys, first.labels, first.texts, passages=stored)
    assert everything(second)[0] == everything(both)[0] and second.snapshot.counts.sum() > len(second)
    assert everything(second.documents) == documents
    assert second.documents.snapshot.counts.tolist() == [1] * 19 + [2]
    second.remove_documents(["d20"])
    assert second.documents.snapshot.passages is None
    second.relabel({"0": "mineral"})
    assert_exact(second)


@pytest.mark.parametrize(
    ("passages", "message"),
    [
        ((np.zeros((2, 7)), [2], [[0, 1]] * 2), r"embeddings of passages must be numbers of shape \(N, 8\)"),
        ((np.full((2, 8), np.nan), [2], [[0, 1]] * 2), "embeddings of passages: row 0 holds NaN"),
        ((np.zeros((2, 8)), [1, 1], [[0, 1]] * 2), r"counts of passages must be integers of shape \(1,\).*\(2,\)"),
        ((np.zeros((2, 8)), [2.0], [[0, 1]] * 2), "counts of passages must be integers"),
        ((np.zeros((2, 8)), [3], [[0, 1]] * 2), "counts of passages must be at least 1 each, and sum to 2"),
        ((np.zeros((0, 8)), [0], np.zeros((0, 2), int)), "counts of passages must be at least 1 each, and sum to 0"),
        ((np.zeros((2, 8)), [2], [[0, 1]]), r"spans of passages must be integers of shape \(2, 2\)"),
        ((np.zeros((2, 8)), [2], [[0, 1], [5, 4]]), "Passage 1 has the span 5 to 4"),
        ((np.zeros((2, 8)), [2], [[-1, 1], [5, 6]]), "Passage 0 has the span -1 to 1"),
    ],
)
def test_inconsistent_passages_are_refused_and_change_nothing(passages, message):
    for datastore in (make_datastore(), fill(with_passages(), passages=True)):
        before = datastore.snapshot
        contents = everything(datastore)
        with pytest.raises(ValueError, match=message):
            datastore.add([[1] * 8], [0], passages=Passages(*passages))
        with pytest.raises(ValueError, match=message):
            datastore.add_documents([[1] * 8], passages=Passages(*passages))
        with pytest.raises(ValueError, match=message):
            datastore.search([[1] * 8], 3, Passages(*passages))
        assert datastore.snapshot is before and everything(datastore) == contents
        datastore.add([[1] * 8], [0])
        datastore.add([[1] * 8], [0], passages=Passages(np.ones((2, 8)), [2], [[0, 1]] * 2))
        assert_exact(datastore)


def test_a_part_of_a_document_is_not_a_copy_of_it():
    part = np.ones((5, 8))
    rng = np.random.default_rng(0)
    embeddings = np.concatenate([part, part, rng.standard_normal((1, 8))])
    passages = Passages(embeddings, [5, 6], np.zeros((11, 2), int))
    datastore = KNNDatastore(rng.standard_normal((2, 8)), [0, 1], NAMES, passages=passages)
    for asked in (None, take_passages(datastore.snapshot.passages, [0, 1])):
        neighbors = datastore.search(datastore.keys, 2, asked)
        known = equal_neighbors(neighbors, datastore.keys, [None] * 2, None)
        assert np.array_equal(known, neighbors.rows == [[0], [1]])
    assert (neighbors.distances == 0).all()


@pytest.mark.parametrize(("index", "least"), [("IVF16,Flat", 0.9), ("HNSW32", 0.9)])
def test_an_index_of_passages_finds_nearly_all_after_additions_and_removals(index, least, caplog):
    def recall():
        rng = np.random.default_rng(3)
        rows = rng.integers(0, len(datastore), 60)
        asked = take_passages(datastore.snapshot.passages, rows)
        asked = asked._replace(embeddings=asked.embeddings + 0.1 * rng.standard_normal(asked.embeddings.shape))
        asked.embeddings[np.cumsum(asked.counts) - 1] = datastore.keys[rows]  # as the key of those of one must be
        found = datastore.search(datastore.keys[rows], 5, asked)
        stored = passages_of(datastore)
        expected = by_definition(asked.embeddings, asked.counts, stored.embeddings, stored.counts)
        np.testing.assert_allclose(found.distances, np.take_along_axis(expected, found.rows, 1), rtol=1e-4, atol=1e-6)
        assert (np.diff(found.distances, axis=1) >= 0).all() and all(len(set(ids)) == 5 for ids in found.ids)
        nearest = np.argsort(expected, axis=1)[:, :5]
        return np.mean([len(set(a) & set(b)) / 5 for a, b in zip(found.rows.tolist(), nearest.tolist(), strict=True)])

    datastore = with_passages(500, 16, index=index)
    state = datastore.snapshot
    assert (state.indexed, state.index.ntotal, state.outside_index) == (500, len(state.passages.embeddings), 0)
    assert recall() >= least
    datastore.add([*np.random.default_rng(5).standard_normal((39, 16)), np.ones(16)], [0] * 40)
    caplog.clear()
    with caplog.at_level(logging.INFO):
        datastore.remove(datastore.ids[100:200])
    gone = int(state.passages.counts[100:200].sum())
    assert datastore.snapshot.index is state.index and "Built" not in caplog.text
    assert (datastore.snapshot.indexed, datastore.snapshot.outside_index) == (400, gone + 40)
    assert recall() >= least
    assert datastore.search(np.ones((1, 16)), 1).rows.tolist() == [[439]]
    found = datastore.search(np.ones((1, 16)), 440)  # more than a graph or few lists give
    assert sorted(found.rows[0]) == list(range(440))
    several = datastore.snapshot.counts > 1
    datastore.remove([row_id for row_id, cut in zip(datastore.ids, several, strict=True) if cut])
    assert datastore.snapshot.passages is None and datastore.search(np.ones((1, 16)), 1).distances[0] == 0
