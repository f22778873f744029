import numpy as np
import pytest

from docsplit_hf.classification.ensemble.neighbor_expert import LEAST_SHARE, NEIGHBORS, Neighbors, nearest_of_both, vote

from .stores import asked, make_queries, make_store


def nearest_of_known(store, queries, known, **options):
    """The nearest of examples and documents, some of which are ``known``, bool ``(m,)``."""
    places = np.where(known, np.arange(len(known)), -1)
    unknown = int((~known).sum())
    return nearest_of_both(store.snapshot, queries, None, lambda found: places[found.rows], unknown, **options)


def by_definition(query, keys, soft, temperature):
    """Equation 2 over the 30 nearest of all keys."""
    distances = np.square(keys.astype(float) - query).sum(1)
    nearest = np.argsort(distances, kind="stable")[:NEIGHBORS]
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
    assert ((weights > 0).sum(1) <= NEIGHBORS).all() and 0 < temperature < nearest.distances.max()
    expected = [by_definition(query, keys, soft, temperature) for query in queries]
    np.testing.assert_allclose(vote(weights, np.hstack(rows), soft), expected, atol=1e-5)


def test_neither_a_text_nor_its_copy_is_its_own_neighbor_and_who_is_unknown_has_no_vote():
    store = make_store()
    store.add_documents(store.keys[:2], store.texts[:2], ids=["copy", "another"])
    known = np.ones(62, bool)
    known[5] = False
    nearest = nearest_of_known(store, store.keys[:2], known, without_equal=True)
    for row in range(2):
        weights = nearest.weights(1.0)[row]
        assert weights[: nearest.examples.rows.shape[1]][nearest.examples.rows[row] == row].tolist() == [0]
        of_documents = weights[nearest.examples.rows.shape[1] :]
        assert not of_documents[np.isin(nearest.documents.rows[row], [5, 60 + row])].any()
        assert weights.sum() == pytest.approx(1)


def test_thirty_known_documents_are_found_if_fewer_are_known_than_was_expected():
    """A server tells only how many documents there are, and a known one may have been removed."""
    store = make_store(documents=100)
    queries = store.documents.keys[:5]
    known = np.arange(100) % 2 == 0
    places = np.where(known, np.arange(100), -1)
    exact = nearest_of_known(store, queries, known)
    found = nearest_of_both(store.snapshot, queries, None, lambda found: places[found.rows], unknown=0)
    np.testing.assert_array_equal(found.weights(1.0), exact.weights(1.0))
    assert (np.isfinite(found.distances).sum(1) >= NEIGHBORS).all()


def test_where_all_are_copies_nobody_votes():
    store = make_store(3, documents=0)
    same = np.ones((1, 16), np.float32)
    store.add(same, [0], ["a"])
    store.remove(["0", "1", "2"])
    weights = nearest_of_known(store, same, np.zeros(0, bool), without_equal=True).weights(1.0)
    shares = vote(weights, np.zeros((1, 1), int), np.eye(1))
    assert not weights.any() and np.isfinite(Neighbors().score({}, asked(shares=shares))).all()


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


def test_scores_are_logits_of_shares_and_finite():
    shares = np.array([[0, 1, 0], [0.2, 0.3, 0.5]])
    one, several = (Neighbors().score({}, asked(shares=shares, several=several)) for several in (False, True))
    assert np.isfinite(one).all() and np.isfinite(several).all()
    np.testing.assert_allclose(np.exp(one), shares + LEAST_SHARE)
    np.testing.assert_allclose(1 / (1 + np.exp(-several[1])), shares[1])
