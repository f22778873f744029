import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docsplit_hf import KNNDatastore
from docsplit_hf.fitting.ensemble import held_out_scores
from docsplit_hf.fitting.ensemble.fit_experts import fit_experts
from docsplit_hf.fitting.ensemble.held_out_scores import (
    FEW_EXAMPLES,
    FOLDS,
    FOLDS_OF_FEW_EXAMPLES,
    FOLDS_OF_MANY_EXAMPLES,
    MANY_EXAMPLES,
    Voters,
    assign_folds,
    folds_of,
)
from docsplit_hf.fitting.ensemble.problem import Problem
from docsplit_hf.fitting.experts.corpus import make_corpus

from .stores import make_store

EXAMPLES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 8), st.booleans()), min_size=1, max_size=40)


@given(EXAMPLES)
def test_other_folds_have_examples_of_all_labels(examples):
    labels, groups, held_out = map(np.array, zip(*examples, strict=True))
    folds = assign_folds(labels, groups, held_out)
    assert (folds[~held_out] == -1).all()
    assert all(len(set(folds[groups == group])) == 1 for group in groups)  # copies, whatever their labels
    for fold in range(folds.max() + 1):
        assert set(labels[folds != fold]) == set(labels)
        assert (folds == fold).any()
    assert np.array_equal(folds, assign_folds(labels, groups, held_out))


@given(EXAMPLES)
def test_with_several_labels_copies_are_in_one_fold(examples):
    labels, groups, held_out = map(np.array, zip(*examples, strict=True))
    folds = assign_folds(np.eye(4, dtype=bool)[labels], groups, held_out)
    assert (folds[~held_out] == -1).all() and all(len(set(folds[groups == group])) == 1 for group in groups)


def test_each_label_is_distributed_over_all_folds():
    labels = np.repeat([0, 1, 2], [50, 10, 1])
    folds = assign_folds(labels, np.arange(61), np.ones(61, bool))
    assert np.bincount(folds[:50]).tolist() == [5] * FOLDS_OF_FEW_EXAMPLES
    assert np.bincount(folds[50:60]).tolist() == [1] * FOLDS_OF_FEW_EXAMPLES
    assert folds[60] == -1


def test_more_examples_have_fewer_folds():
    for texts, copies, count in (
        (FEW_EXAMPLES, 3, FOLDS_OF_FEW_EXAMPLES),
        (FEW_EXAMPLES + 1, 1, FOLDS),
        (MANY_EXAMPLES + 1, 1, FOLDS_OF_MANY_EXAMPLES),
    ):
        groups = np.repeat(np.arange(texts), copies)
        folds = assign_folds(np.zeros(len(groups), int), groups, np.ones(len(groups), bool))
        assert folds.max() == count - 1


def test_of_many_labels_only_enough_examples_are_held_out(monkeypatch):
    store = make_store(60, 0)
    corpus = make_corpus(store.snapshot)
    folds = folds_of(store.snapshot, corpus.rows, np.arange(60))
    assert sorted(set(folds)) == list(range(FOLDS_OF_FEW_EXAMPLES))
    monkeypatch.setattr(held_out_scores, "MANY_LABELS", 2)
    monkeypatch.setattr(held_out_scores, "ENOUGH_HELD_OUT", 13)
    fewer = folds_of(store.snapshot, corpus.rows, np.arange(60))
    assert 13 <= (fewer >= 0).sum() < 13 + 60 / FOLDS_OF_FEW_EXAMPLES
    assert np.array_equal(fewer[fewer >= 0], folds[fewer >= 0])


@pytest.mark.parametrize("each", [4, 13])
def test_word_counts_are_not_below_chance_on_texts_that_show_no_label(each):
    """A fold that holds out more texts of a label has fewer to learn from, which must not count against this label."""
    rng = np.random.default_rng(0)
    labels = np.repeat(["a", "b", "c"], each)
    texts = [" ".join(f"w{word}" for word in rng.integers(0, 3_000, 60)) for _ in labels]
    store = KNNDatastore(rng.standard_normal((len(texts), 8)).astype(np.float32), labels.tolist(), [], texts)
    report = fit_experts(Problem(store.snapshot), show_progress=False).report
    accuracy = {record["expert"]: record["accuracy"] for record in report.measured}
    assert min(accuracy["word counts"], accuracy["word_regression"]) > 0.3


def test_labels_with_one_example_are_not_held_out():
    assert assign_folds(np.arange(4), np.arange(4), np.ones(4, bool)).tolist() == [-1] * 4
    assert assign_folds(np.array([0, 0, 1]), np.array([5, 5, 6]), np.ones(3, bool)).tolist() == [-1] * 3  # a copy


def test_examples_of_other_folds_have_more_votes():
    """Those of the own fold have no label yet, and the same votes as documents."""
    voters = Voters(np.array([[0, 1, 2], [2, 1, 0]]), np.array([[0.5, 0.25, 0.25], [1.0, 0.0, 0.0]]), 1.0, None)
    votes = voters.votes(np.array([1, 0]), text_weights=np.array([3.0, 1.0, 1.0], np.float32))
    np.testing.assert_allclose(votes, [[1, 0, 0], [0.75, 0.125, 0.125]])
