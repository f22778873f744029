"""Probes on frozen features, and the draw of few examples."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from docsplit_hf.evaluation import probes
from docsplit_hf.evaluation.probes import LabeledFeatures, logistic_predictions, sample_per_class


@given(st.integers(1, 6), st.integers(0, 99))
def test_each_class_has_the_same_number_of_shots_and_more_shots_include_fewer(shots, seed):
    labels = np.random.default_rng(0).permutation(np.repeat([0, 2, 5], [6, 7, 40]))
    rows = sample_per_class(labels, shots, seed, list("abcdef"))
    assert len(set(rows)) == len(rows)
    assert np.bincount(labels[rows]).tolist() == [shots, 0, shots, 0, 0, shots]
    assert shots == 1 or set(sample_per_class(labels, shots - 1, seed, list("abcdef"))) < set(rows)


def test_the_classes_that_are_too_small_are_named():
    labels = np.repeat([0, 1, 2], [3, 9, 4])
    with pytest.raises(ValueError, match="'ham' has 3, 'eggs' has 4: lower the number of shots to 3"):
        sample_per_class(labels, 5, 0, ["ham", "spam", "eggs"])
    with pytest.raises(ValueError, match="'E' has 1 .and 7 more classes are too small.: lower"):
        sample_per_class(np.arange(12), 2, 0, list("ABCDEFGHIJKL"))


def clusters(count, classes=4, dimension=16, spread=0.1, seed=0):
    """Features around one center for each class, and their labels; the centers are the same for all seeds."""
    centers = np.random.default_rng(99).normal(size=(classes, dimension))
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % classes
    features = centers[labels] + spread * rng.normal(size=(count, dimension))
    return (features / np.linalg.norm(features, axis=1, keepdims=True)).astype(np.float32), labels


def labeled(train, test, convert=np.asarray):
    """``LabeledFeatures`` of two pairs of features and labels, all training inputs different."""
    train_features, train_labels = train
    test_features, test_labels = test
    return LabeledFeatures(
        train=convert(train_features),
        train_labels=train_labels,
        test=convert(test_features),
        test_labels=test_labels,
        train_inputs=range(len(train_labels)),
    )


@pytest.fixture
def few_are_held_out(monkeypatch):
    """Hold out examples of small training sets too."""
    monkeypatch.setattr(probes, "FEWEST_TO_HOLD_OUT", 100)


@pytest.mark.parametrize("convert", [np.asarray, scipy.sparse.csr_matrix])
@pytest.mark.parametrize("count", [24, 500])
def test_separable_classes_are_separated_and_random_features_give_chance(convert, count, caplog):
    train, labels = clusters(count)
    test, test_labels = clusters(400, seed=1)
    features = labeled((train, labels), (test, test_labels), convert)
    with caplog.at_level("INFO", "docsplit_hf"):
        assert set(features.metrics(logistic_predictions(features, 0)).values()) == {1.0}
    assert ("with an accuracy of 1.000 on 48 held-out examples" in caplog.text) == (count == 500)
    noise, noise_test = np.random.default_rng(2).normal(size=(2, 600, 16)).astype(np.float32)
    random = labeled((noise[:count], labels), (noise_test[:400], test_labels), convert)
    assert 0.15 < np.mean(logistic_predictions(random, 0) == test_labels) < 0.35


def test_predictions_depend_only_on_the_seed_and_keep_the_callers_random_state(few_are_held_out):
    features = labeled(clusters(100, spread=2.0), clusters(300, spread=2.0, seed=1), scipy.sparse.csr_matrix)
    predicted = []
    for state in (1, 2):
        np.random.seed(state)
        before = np.random.get_state()[1].copy()
        predicted.append(logistic_predictions(features, 0))
        assert (np.random.get_state()[1] == before).all()
    assert (predicted[0] == predicted[1]).all()


def test_a_class_may_have_one_example_or_test_examples_only(few_are_held_out):
    train, labels = clusters(200)
    test, test_labels = clusters(40, seed=1)
    labels = np.where(np.arange(200) == 5, 4, labels)
    predicted = logistic_predictions(labeled((train, labels), (test, test_labels)), 0)
    assert np.mean(predicted == np.where(np.arange(40) == 0, 7, test_labels)) == pytest.approx(39 / 40)
