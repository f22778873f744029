import numpy as np
import pytest
import scipy.sparse as sp

from docsplit_hf import KNNDatastore
from docsplit_hf.fitting.ensemble.fit_experts import fit_experts
from docsplit_hf.fitting.ensemble.problem import Problem
from docsplit_hf.fitting.ensemble.scoring import prepare_experts
from docsplit_hf.fitting.experts import corpus
from docsplit_hf.fitting.experts import corpus as corpus_module
from docsplit_hf.fitting.experts.corpus import (
    PROPAGATION_ALPHA,
    make_corpus,
    nearest_rows,
    neighbor_graph,
    propagate_in_folds,
)
from docsplit_hf.fitting.experts.text_vectors import (
    Tfidf,
    unit,
)
from docsplit_hf.reading.inputs import joined_texts

from ..ensemble.stores import fitted_store, make_keys, make_store, make_texts, score

LABELS = np.arange(210) % 3  # enough texts for words to make dimensions


def make_graph(count=30, k=4, seed=0):
    return neighbor_graph(unit(np.random.default_rng(seed).standard_normal((count, 5)).astype(np.float32)), k)


def test_the_graph_equals_its_definition():
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


def test_graphs_of_copies_and_of_few_texts():
    copies = np.repeat(unit(np.eye(3, 5, dtype=np.float32)), 20, axis=0)
    graph = neighbor_graph(copies)
    assert np.isfinite(graph.data).all() and graph.diagonal().sum() == 0 and abs(graph - graph.T).max() < 1e-6
    for count in range(4):
        assert neighbor_graph(np.ones((count, 1), np.float32)).shape == (count, count)


def test_of_equally_near_texts_the_first_ones_are_the_nearest():
    copies = np.tile(unit(make_keys(np.arange(3))), (20, 1))
    expected = np.arange(60)[:, None] % 3 + 3 * np.arange(11)
    np.testing.assert_array_equal(nearest_rows(copies, 11), expected)


def test_an_approximate_graph_is_nearly_the_exact_one(monkeypatch):
    vectors = unit(make_keys(np.arange(2_000) % 3, noise=2.0))
    exact = neighbor_graph(vectors)
    monkeypatch.setattr(corpus_module, "MAX_EXACT_GRAPH_TEXTS", 1_000)
    monkeypatch.setattr(corpus_module, "INDEX_LISTS", 32)
    approximate = neighbor_graph(vectors)
    assert abs(approximate - approximate.T).max() < 1e-6
    assert (exact.astype(bool).multiply(approximate.astype(bool))).sum() > 0.97 * exact.nnz


def test_propagation_reaches_the_closed_form():
    """``F = (1 - a)(I - a S)^-1 Y``, each label with equal mass, each text a distribution; examples as given."""
    graph = make_graph()
    rows = np.array([2, 7, 11, 20])
    targets = np.eye(3)[[0, 1, 2, 1]]
    start = np.zeros((30, 3))
    start[rows] = targets
    closed = (1 - PROPAGATION_ALPHA) * np.linalg.solve(np.eye(30) - PROPAGATION_ALPHA * graph.toarray(), start)
    balanced = closed / closed.sum(0)
    expected = balanced / balanced.sum(1, keepdims=True)
    expected[rows] = targets
    [found] = propagate_in_folds(graph, [rows], [targets], multi_label=False)
    np.testing.assert_allclose(found, expected, atol=1e-3)
    targets = np.array([[1, 1, 0], [0, 1, 0], [0, 0, 0], [1, 0, 1]], float)
    start = np.zeros((30, 4))
    start[rows] = np.hstack([targets, np.ones((4, 1))])
    closed = np.linalg.solve(np.eye(30) - PROPAGATION_ALPHA * graph.toarray(), start)
    expected = closed[:, :3] / closed[:, 3:]
    expected[rows] = targets
    [found] = propagate_in_folds(graph, [rows], [targets], multi_label=True)
    np.testing.assert_allclose(found, expected, atol=1e-3)


@pytest.mark.parametrize("multi_label", [False, True])
def test_a_text_that_no_example_reaches_gets_equal_labels_or_the_frequencies_of_the_examples(multi_label):
    graph = sp.block_array([[make_graph(10), None], [None, make_graph(6)]], format="csr").astype(np.float32)
    targets = np.array([[1, 0], [1, 1], [1, 0]], float) if multi_label else np.eye(2)[[0, 1, 0]]
    [found] = propagate_in_folds(graph, [np.arange(3)], [targets], multi_label)
    np.testing.assert_allclose(found[10:], [[1, 1 / 3]] * 6 if multi_label else 0.5, rtol=1e-6)
    assert np.array_equal(found[[0, 1, 2]], targets) and found.dtype == np.float32
    if not multi_label:
        np.testing.assert_allclose(found.sum(1), 1, rtol=1e-6)


def test_the_corpus_has_all_texts_and_the_places_of_the_examples():
    store = make_store(pairs=True)
    found = make_corpus(store.snapshot)
    assert len(found.ids) == len(set(found.ids.tolist())) == len(found.vectors) == 72
    texts = joined_texts(store.texts, store.snapshot.rows["text_pair"].to_pylist())
    rows = Tfidf(found.terms, found.idf).transform(texts)
    words = sp.csr_matrix((rows.data, rows.indices, rows.indptr), rows.shape)
    assert len(found.rows) == 12 and (words != found.words[found.rows]).nnz == 0
    np.testing.assert_allclose(np.linalg.norm(found.vectors, axis=1), 1, rtol=1e-5)


def test_labels_change_only_the_places_of_the_examples():
    store = make_store()
    before = make_corpus(store.snapshot)
    row = 7
    documents = store.documents
    store.add(documents.keys[[row]], ["fruit"], [documents.texts[row]], replacing=[documents.ids[row]])
    fresh = make_corpus(store.snapshot)
    reused = make_corpus(store.snapshot, before)
    assert reused.vectors is before.vectors and len(reused.rows) == 13
    for name in ("rows", "documents", "contents", "ids", "vectors", "whitened"):
        assert np.array_equal(getattr(fresh, name), getattr(reused, name)), name
    assert (fresh.graph != reused.graph).nnz == 0
    store.remove_documents([documents.ids[0]])
    assert make_corpus(store.snapshot, before).vectors is not before.vectors


def test_the_order_of_examples_and_labels_makes_no_difference():
    store = make_store(30)
    order = np.random.default_rng(0).permutation(30)
    labels = [store.label_names[label] for label in store.labels]
    other = KNNDatastore(
        store.keys[order],
        [labels[i] for i in order],
        list(reversed(store.label_names)),
        [store.texts[i] for i in order],
    )
    other.add_documents(store.documents.keys[::-1], store.documents.texts[::-1])
    found = []
    for one in (store, other):
        one.fitted = fit_experts(Problem(one.snapshot), show_progress=False).to_state()
        found.append(
            {answer: column for answer, column in zip(one.label_names, score(one).probabilities.T, strict=True)}
        )
    for name in store.label_names:
        assert np.array_equal(found[0][name], found[1][name])


def test_the_sample_of_many_documents_does_not_depend_on_their_order(monkeypatch):
    monkeypatch.setattr(corpus, "MAX_DOCUMENTS", 20)
    store = make_store()
    other = KNNDatastore(store.keys, store.labels, store.label_names, store.texts)
    other.add_documents(store.documents.keys[::-1], store.documents.texts[::-1])
    assert np.array_equal(make_corpus(store.snapshot).vectors, make_corpus(other.snapshot).vectors)


def test_many_documents_are_sampled_reproducibly(monkeypatch, caplog):
    monkeypatch.setattr(corpus, "MAX_DOCUMENTS", 20)
    store = fitted_store()
    assert "Of 60 documents, a random 20 are used" in caplog.text
    arrays = store.fitted.arrays
    assert len(arrays["ids"]) == len(arrays["soft_labels"]) == 12 + 20
    assert store.fitted.settings["documents"] == 20
    assert np.array_equal(make_corpus(store.snapshot).ids, arrays["ids"])
    assert (prepare_experts(store.snapshot).places >= 0).sum() == 20
    assert len(store.documents) == 60


def test_rounding_of_embeddings_does_not_change_the_folds():
    """Processors round differently: folds must be equal, and answers may differ only by rounding."""
    labels = np.arange(60) % 3
    keys = make_keys(labels)
    texts = make_texts(labels)
    rounded = np.nextafter(keys, np.float32(np.inf))
    orders = []
    probabilities = []
    for given in (keys, rounded):
        store = KNNDatastore(given, labels, ["fruit", "mineral", "predator"], texts)
        orders.append(make_corpus(store.snapshot).rows)
        held_out = fit_experts(Problem(store.snapshot), show_progress=False).held_out
        probabilities.append(held_out.probabilities)
    assert np.array_equal(orders[0], orders[1])
    np.testing.assert_allclose(probabilities[0], probabilities[1], atol=1e-3)
