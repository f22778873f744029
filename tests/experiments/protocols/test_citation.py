import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from docsplit_hf.evaluation.experiment import Evaluation
from docsplit_hf.evaluation.systems import EncoderSystem, TfidfSystem
from experiments.protocols import citation
from experiments.protocols.citation import (
    PairFeatures,
    best_threshold,
    cosine_threshold_accuracy,
    hold_out_groups,
    pair_features,
    pair_head_accuracy,
)
from experiments.systems import BM25System
from experiments.tasks.citation_pairs import PairTask
from tests.evaluation.test_protocols import LengthEncoder


def pairs(count, seed):
    """Pairs of unit vectors of 8 dimensions that are near one another where the label is 1."""
    rng = np.random.default_rng(seed)
    a, other = rng.normal(size=(2, count, 8))
    labels = np.arange(count) % 2
    b = np.where(labels[:, None] == 1, a + 0.3 * rng.normal(size=a.shape), other)
    return PairFeatures(*(x.astype(np.float32) for x in (a, b)), labels)


def shuffled(pairs):
    return pairs._replace(labels=np.random.default_rng(0).permutation(pairs.labels))


@pytest.mark.parametrize("convert", [np.asarray, scipy.sparse.csr_matrix])
def test_the_cosine_tells_near_pairs_and_random_labels_give_chance(convert):
    train, test = (PairFeatures(convert(a), convert(b), y) for a, b, y in (pairs(400, 0), pairs(400, 1)))
    assert cosine_threshold_accuracy(train, test) > 0.95
    assert 0.35 < cosine_threshold_accuracy(train, shuffled(test)) < 0.65


def test_the_head_learns_what_one_side_says_and_random_labels_give_chance():
    sets = [PairFeatures(a, b, (b[:, 0] > 0).astype(np.int64)) for a, b, _ in (pairs(600, 0), pairs(300, 1))]
    assert pair_head_accuracy(*sets, seed=0) > 0.9
    assert 0.35 < pair_head_accuracy(shuffled(sets[0]), sets[1], seed=0) < 0.65


def test_the_head_is_stopped_on_citing_documents_that_it_has_not_seen(monkeypatch):
    a, b, labels = pairs(60, 0)
    few = PairFeatures(a[np.arange(60) // 6], b, labels)  # ten documents that cite
    seen = {}

    def fit(features, labels, kept, held_out, *rest):
        seen.update(train=set(map(bytes, features[kept, :8])), held_out=set(map(bytes, features[held_out, :8])))
        return lambda features: np.zeros(len(features), dtype=np.int64)

    monkeypatch.setattr(citation, "fit_mlp", fit)
    pair_head_accuracy(few, few, seed=0)
    assert (len(seen["train"]), len(seen["held_out"])) == (9, 1)
    assert not seen["train"] & seen["held_out"]


@given(
    st.lists(st.tuples(st.sampled_from([-1.0, -0.5, 0.0, 0.1, 0.5, 1.0]), st.integers(0, 1)), min_size=1, max_size=12)
)
def test_no_threshold_is_better_than_the_best(scored):
    scores, labels = (np.array(values) for values in zip(*scored, strict=True))
    accuracy = [((scores > threshold) == labels).mean() for threshold in [-2, *np.unique(scores)]]
    best = best_threshold(scores, labels)
    assert ((scores > best) == labels).mean() == max(accuracy)
    assert np.isinf(best) or best not in scores


@pytest.mark.parametrize("system", [EncoderSystem("length", LengthEncoder()), TfidfSystem(), BM25System()])
def test_pairs_get_the_features_of_their_documents(system):
    documents = {key: f"{key} alone and {key * 3} with others" for key in "abcdef"}
    task = PairTask("cited", documents, [("a", "b", 1), ("c", "a", 0)], [("d", "a", 1), ("e", "f", 0)])
    train, test = pair_features(Evaluation(system, task))
    assert train.labels.tolist() == [1, 0] and test.labels.tolist() == [1, 0]
    # What is fitted has seen the documents of the training pairs only; those are a, b, c, in this order.
    known, others = system.features([documents[key] for key in "abc"], [documents[key] for key in "def"])
    for found, expected in (
        (train.first, known[[0, 2]]), (train.second, known[[1, 0]]), (test.first, others[[0, 1]]),
    ):  # fmt: skip
        np.testing.assert_allclose(_dense(found), _dense(expected), rtol=1e-6)
    np.testing.assert_allclose(_dense(test.second)[0], _dense(known)[0], rtol=1e-6)


def _dense(features):
    return features.toarray() if scipy.sparse.issparse(features) else np.asarray(features)


@given(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=20), st.floats(0.01, 0.99), st.integers(0, 9))
def test_no_group_is_on_both_sides(groups, share, seed):
    kept, held_out = hold_out_groups(groups, share, seed)
    assert sorted([*kept, *held_out]) == list(range(len(groups)))
    sides = {groups[row] for row in kept}, {groups[row] for row in held_out}
    assert not sides[0] & sides[1] and sides[0]
    assert bool(sides[1]) == (len(set(groups)) > 1)
