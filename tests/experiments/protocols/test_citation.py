import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from docsplit_hf.evaluation.systems import TfidfSystem
from experiments.evaluation.experiment import Evaluation
from experiments.evaluation.systems import EncoderSystem
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
from tests.experiments.evaluation.test_protocols import LengthEncoder


def pairs(count, seed):
    """Pairs of vectors of 8 dimensions that are similar where the label is 1."""
    rng = np.random.default_rng(seed)
    first, other = rng.normal(size=(2, count, 8))
    labels = np.arange(count) % 2
    second = np.where(labels[:, None] == 1, first + 0.3 * rng.normal(size=first.shape), other)
    return PairFeatures(first.astype(np.float32), second.astype(np.float32), labels)


def shuffled(pairs):
    return pairs._replace(labels=np.random.default_rng(0).permutation(pairs.labels))


@pytest.mark.parametrize("convert", [np.asarray, scipy.sparse.csr_matrix])
def test_a_cosine_threshold_finds_similar_pairs_and_random_labels_give_chance(convert):
    train = pairs(400, 0)
    train = train._replace(first=convert(train.first), second=convert(train.second))
    test = pairs(400, 1)
    test = test._replace(first=convert(test.first), second=convert(test.second))
    assert cosine_threshold_accuracy(train, test) > 0.95
    assert 0.35 < cosine_threshold_accuracy(train, shuffled(test)) < 0.65


def labeled_by_second(pairs):
    """The same pairs, with labels that depend on the second document alone."""
    return pairs._replace(labels=(pairs.second[:, 0] > 0).astype(np.int64))


def test_the_head_learns_labels_of_one_document_and_random_labels_give_chance():
    train = labeled_by_second(pairs(600, 0))
    test = labeled_by_second(pairs(300, 1))
    assert pair_head_accuracy(train, test, seed=0) > 0.9
    assert 0.35 < pair_head_accuracy(shuffled(train), test, seed=0) < 0.65


def test_early_stopping_of_the_head_uses_held_out_citing_documents(monkeypatch):
    few = pairs(60, 0)
    few = few._replace(first=few.first[np.arange(60) // 6])  # ten citing documents
    citing = {}

    def fit(features, labels, kept, held_out, hidden_widths, batch_size, seed):
        citing["train"] = {bytes(row) for row in features[kept, :8]}
        citing["held_out"] = {bytes(row) for row in features[held_out, :8]}
        return lambda features: np.zeros(len(features), dtype=np.int64)

    monkeypatch.setattr(citation, "fit_mlp", fit)
    pair_head_accuracy(few, few, seed=0)
    assert len(citing["train"]) == 9 and len(citing["held_out"]) == 1
    assert not citing["train"] & citing["held_out"]


@given(
    st.lists(st.tuples(st.sampled_from([-1.0, -0.5, 0.0, 0.1, 0.5, 1.0]), st.integers(0, 1)), min_size=1, max_size=12)
)
def test_no_threshold_is_better_than_the_best(scored):
    scores = np.array([score for score, _ in scored])
    labels = np.array([label for _, label in scored])
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
    # The system is fitted on the documents of the training pairs only: a, b, c, in this order.
    known, others = system.features([documents[key] for key in "abc"], [documents[key] for key in "def"])
    np.testing.assert_allclose(_dense(train.first), _dense(known[[0, 2]]), rtol=1e-6)
    np.testing.assert_allclose(_dense(train.second), _dense(known[[1, 0]]), rtol=1e-6)
    np.testing.assert_allclose(_dense(test.first), _dense(others[[0, 1]]), rtol=1e-6)
    np.testing.assert_allclose(_dense(test.second)[0], _dense(known)[0], rtol=1e-6)


def _dense(features):
    return features.toarray() if scipy.sparse.issparse(features) else np.asarray(features)


@given(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=20), st.floats(0.01, 0.99), st.integers(0, 9))
def test_no_group_is_on_both_sides(groups, share, seed):
    kept, held_out = hold_out_groups(groups, share, seed)
    assert sorted([*kept, *held_out]) == list(range(len(groups)))
    kept_groups = {groups[row] for row in kept}
    held_out_groups = {groups[row] for row in held_out}
    assert not kept_groups & held_out_groups and kept_groups
    assert bool(held_out_groups) == (len(set(groups)) > 1)
