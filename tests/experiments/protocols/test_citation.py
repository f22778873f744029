import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from docsplit_hf.experiments.protocols.citation import (
    best_threshold,
    cosine_threshold_score,
    join_embeddings,
    pair_head_score,
)


def pairs(count, seed, noise=0.0):
    """Pairs of unit vectors of 8 dimensions that are near one another where the label is 1."""
    rng = np.random.default_rng(seed)
    a, other = rng.normal(size=(2, count, 8))
    labels = np.arange(count) % 2
    b = np.where(labels[:, None] == 1, a + 0.3 * rng.normal(size=a.shape), other) + noise * rng.normal(size=a.shape)
    return *(x.astype(np.float32) for x in (a, b)), labels


@pytest.mark.parametrize("sparse", [False, True])
def test_the_cosine_tells_near_pairs_and_random_labels_give_chance(sparse):
    convert = scipy.sparse.csr_matrix if sparse else np.asarray
    (a, b, labels), (a_test, b_test, labels_test) = pairs(400, 0), pairs(400, 1)
    sides = convert(a), convert(b), labels, convert(a_test), convert(b_test)
    assert cosine_threshold_score(*sides, labels_test)["accuracy"] > 0.95
    assert 0.35 < cosine_threshold_score(*sides, np.random.default_rng(0).permutation(labels_test))["accuracy"] < 0.65


def test_the_head_learns_what_the_cosine_knows():
    train, test = pairs(600, 0), pairs(400, 1)
    assert pair_head_score(*train, *test, seed=0, interaction="nli")["accuracy"] > 0.8
    random = train[0], train[1], np.random.default_rng(0).permutation(train[2])
    assert 0.35 < pair_head_score(*random, *test, seed=0)["accuracy"] < 0.65


def test_what_one_side_alone_says_is_learned_from_the_concatenation():
    a, b, _ = pairs(600, 0)
    labels = (b[:, 0] > 0).astype(np.int64)
    assert pair_head_score(a[:400], b[:400], labels[:400], a[400:], b[400:], labels[400:], seed=0)["accuracy"] > 0.9


def test_the_head_is_stopped_on_citing_documents_that_it_has_not_seen(monkeypatch):
    a, b, labels = pairs(60, 0)
    a = a[np.arange(60) // 6]  # ten documents that cite
    seen = {}

    def fit(train, train_labels, held_out, *rest):
        seen.update(train={row[:8].tobytes() for row in train}, held_out={row[:8].tobytes() for row in held_out})
        return lambda features: np.zeros(len(features), dtype=np.int64)

    monkeypatch.setattr("docsplit_hf.experiments.protocols.citation.fit_mlp", fit)
    pair_head_score(a, b, labels, a, b, labels, seed=0)
    assert (len(seen["train"]), len(seen["held_out"])) == (9, 1)
    assert not seen["train"] & seen["held_out"]


@given(
    st.lists(st.tuples(st.sampled_from([-1.0, -0.5, 0.0, 0.1, 0.5, 1.0]), st.integers(0, 1)), min_size=1, max_size=12)
)
def test_no_threshold_is_better_than_the_best(scored):
    scores, labels = (np.array(values) for values in zip(*scored, strict=True))
    accuracy = [((scores > threshold) == labels).mean() for threshold in [-2, *np.unique(scores)]]
    assert ((scores > best_threshold(scores, labels)) == labels).mean() == max(accuracy)


def test_an_unknown_interaction_is_refused():
    a, b, _ = pairs(5, 0)
    with pytest.raises(ValueError, match="Unknown interaction 'sum'"):
        join_embeddings(a, b, "sum")


def test_what_are_no_pairs_is_refused():
    a, b, labels = pairs(10, 0)
    test = a, b, labels
    with pytest.raises(ValueError, match="Use cosine_threshold_score"):
        pair_head_score(scipy.sparse.csr_matrix(a), scipy.sparse.csr_matrix(b), labels, *test, seed=0)
    for score in (pair_head_score, cosine_threshold_score):
        with pytest.raises(ValueError, match="two rows for each pair"):
            score(a, b[:, 1:], labels, *test, seed=0)
        with pytest.raises(ValueError, match=r"must be 1 \(cites\) or 0, got 2"):
            score(a, b, labels + 1, *test, seed=0)
        with pytest.raises(ValueError, match="All 10 training pairs have the label 1"):
            score(a, b, np.ones(10), *test, seed=0)
        with pytest.raises(ValueError, match="row 0 holds NaN"):
            score(a * np.nan, b, labels, *test, seed=0)
