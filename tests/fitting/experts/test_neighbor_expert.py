import numpy as np
import pytest

from docsplit_hf.fitting.experts.neighbor_expert import (
    LEAST_PROPORTION,
    VOTERS,
    Neighbors,
    nearest_texts,
    vote,
)

from ..ensemble.stores import features_of, make_queries, make_store


def nearest_of_known(store, queries, known, **options):
    """The nearest of examples and documents, some of which were fitted: ``known``, bool ``(m,)``."""
    places = np.where(known, np.arange(len(known)), -1)
    return nearest_texts(store.snapshot, queries, None, places, **options)


def by_definition(query, keys, soft, temperature):
    """Equation 2 over the 30 nearest of all keys."""
    distances = np.square(keys.astype(float) - query).sum(1)
    nearest = np.argsort(distances, kind="stable")[:VOTERS]
    weights = np.exp(-(distances[nearest] - distances[nearest].min()) / temperature)
    return (weights / weights.sum()) @ soft[nearest]


@pytest.mark.parametrize("documents", [60, 0])
def test_examples_and_documents_vote_by_equation_2(documents):
    store = make_store(documents=documents)
    _, queries, _ = make_queries(50)
    nearest = nearest_of_known(store, queries, np.ones(documents, bool))
    keys = np.concatenate([store.keys, store.documents.keys]) if documents else store.keys
    soft = np.random.default_rng(0).dirichlet(np.ones(3), len(keys))
    rows = [nearest.examples.rows, *([nearest.documents.rows + 12] if documents else [])]
    temperature = nearest.temperature()
    weights = nearest.weights(temperature)
    np.testing.assert_allclose(weights.sum(1), 1)
    assert ((weights > 0).sum(1) <= VOTERS).all() and 0 < temperature < nearest.distances.max()
    expected = [by_definition(query, keys, soft, temperature) for query in queries]
    np.testing.assert_allclose(vote(weights, np.hstack(rows), soft), expected, atol=1e-5)


def test_votes_of_documents_count_less():
    nearest = nearest_of_known(make_store(), make_queries(50)[1], np.ones(60, bool))
    examples = nearest.examples.rows.shape[1]
    expected = nearest.weights(1.0)
    expected[:, examples:] *= 0.25
    found = nearest.weights(1.0, document_vote=0.25)
    np.testing.assert_allclose(found, expected / expected.sum(1, keepdims=True))
    assert (found[:, examples:].sum(1) > 0).all()


def test_a_text_its_copies_and_later_documents_have_no_vote():
    store = make_store()
    store.add_documents(store.keys[:2], store.texts[:2], ids=["copy", "another"])
    known = np.ones(62, bool)
    known[5] = False
    nearest = nearest_of_known(store, store.keys[:2], known, exclude_copies=True)
    for row in range(2):
        weights = nearest.weights(1.0)[row]
        assert weights[: nearest.examples.rows.shape[1]][nearest.examples.rows[row] == row].tolist() == [0]
        of_documents = weights[nearest.examples.rows.shape[1] :]
        assert not of_documents[np.isin(nearest.documents.rows[row], [5, 60 + row])].any()
        assert weights.sum() == pytest.approx(1)


def test_copies_of_the_query_have_no_votes():
    store = make_store(3, documents=0)
    same = np.ones((1, 16), np.float32)
    store.add(same, [0], ["a"])
    store.remove(["0", "1", "2"])
    weights = nearest_of_known(store, same, np.zeros(0, bool), exclude_copies=True).weights(1.0)
    proportions = vote(weights, np.zeros((1, 1), int), np.eye(1))
    logits = Neighbors().score({}, features_of(neighbor_label_proportions=proportions))
    assert not weights.any() and np.isfinite(logits).all()


@pytest.mark.parametrize("index", ["HNSW16", "IVF4,Flat"])
def test_an_index_serves_the_votes(index):
    store = make_store(2_000, documents=2_000)
    _, queries, _ = make_queries(50)
    exact = nearest_of_known(store, queries, np.ones(2_000, bool))
    store.reindex(index)
    assert store.snapshot.index is not None and store.snapshot.documents.index is not None
    found = nearest_of_known(store, queries, np.ones(2_000, bool))
    for one, other in ((exact.examples, found.examples), (exact.documents, found.documents)):
        assert np.mean([len({*a} & {*b}) / len(a) for a, b in zip(one.ids, other.ids, strict=True)]) > 0.8


def test_scores_are_finite_logits_of_the_label_proportions():
    proportions = np.array([[0, 1, 0], [0.2, 0.3, 0.5]])
    log_probabilities = Neighbors().score({}, features_of(neighbor_label_proportions=proportions))
    log_odds = Neighbors().score({}, features_of(neighbor_label_proportions=proportions, multi_label=True))
    assert np.isfinite(log_probabilities).all() and np.isfinite(log_odds).all()
    np.testing.assert_allclose(np.exp(log_probabilities), proportions + LEAST_PROPORTION)
    np.testing.assert_allclose(1 / (1 + np.exp(-log_odds[1])), proportions[1])
