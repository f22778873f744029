import numpy as np

from docsplit_hf.neighbors.experts.document_vectors import unit
from docsplit_hf.neighbors.experts.neighbor_scores import (
    LEAST_SHARE,
    NEIGHBORS,
    POWER,
    neighbor_scores,
    neighbor_shares,
)


def by_definition(queries, vectors, soft):
    cosines = queries.astype(float) @ vectors.T
    nearest = np.argsort(-cosines, axis=1)[:, :NEIGHBORS]
    weights = np.maximum(np.take_along_axis(cosines, nearest, 1), LEAST_SHARE) ** POWER
    return np.einsum("qk,qkc->qc", weights / weights.sum(1, keepdims=True), soft[nearest])


def test_shares_are_those_of_the_nearest():
    rng = np.random.default_rng(0)
    vectors, queries = (unit(rng.standard_normal((count, 6)).astype(np.float32)) for count in (90, 1_100))
    soft = rng.dirichlet(np.ones(3), 90).astype(np.float32)
    shares = neighbor_shares(queries, vectors, soft)
    np.testing.assert_allclose(shares, by_definition(queries, vectors, soft), atol=1e-5)
    np.testing.assert_allclose(shares.sum(1), 1, rtol=1e-6)
    few = neighbor_shares(queries, vectors[:2], soft[:2])
    np.testing.assert_allclose(few, by_definition(queries, vectors[:2], soft[:2]), atol=1e-5)


def test_a_text_is_not_its_own_neighbor():
    rng = np.random.default_rng(0)
    vectors = unit(rng.standard_normal((90, 6)).astype(np.float32))
    soft, rows = rng.dirichlet(np.ones(3), 90).astype(np.float32), np.array([3, 40])
    found = neighbor_shares(vectors[rows], vectors, soft, without_equal=True)
    for row, shares in zip(rows, found, strict=True):
        others = np.arange(90) != row
        np.testing.assert_allclose(shares, by_definition(vectors[[row]], vectors[others], soft[others])[0], atol=1e-5)


def test_scores_are_logits_of_shares_and_finite():
    shares = np.array([[0, 1, 0], [0.2, 0.3, 0.5]])
    one, several = neighbor_scores(shares, False), neighbor_scores(shares, True)
    assert np.isfinite(one).all() and np.isfinite(several).all()
    np.testing.assert_allclose(np.exp(one), shares + LEAST_SHARE)
    np.testing.assert_allclose(1 / (1 + np.exp(-several[1])), shares[1])
