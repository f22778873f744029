import logging

import numpy as np
import pytest
import scipy.sparse
import torch

from docsplit_hf.experiments.protocols import mlp, probe
from docsplit_hf.experiments.protocols.probe import fit_and_score


def clusters(count, classes=4, dimension=16, spread=0.1, seed=0):
    """Features around one center for each class, and their labels; the centers are the same for all seeds."""
    centers = np.random.default_rng(99).normal(size=(classes, dimension))
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % classes
    features = centers[labels] + spread * rng.normal(size=(count, dimension))
    return (features / np.linalg.norm(features, axis=1, keepdims=True)).astype(np.float32), labels


@pytest.fixture
def few_are_held_out(monkeypatch):
    """Training sets that are quick to train on are stopped early, too."""
    monkeypatch.setattr(probe, "FEWEST_TO_HOLD_OUT", 100)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("kind", ["mlp", "logistic"])
@pytest.mark.parametrize("count", [24, 500])
def test_what_can_be_separated_is_and_random_labels_give_chance(kind, sparse, count, monkeypatch):
    monkeypatch.setattr(mlp, "STEPS_WITHOUT_HELD_OUT", 300)
    (train, labels), (test, test_labels) = clusters(count), clusters(400, seed=1)
    convert = scipy.sparse.csr_matrix if sparse else np.asarray
    perfect = fit_and_score(kind, convert(train), labels, convert(test), test_labels, seed=0)
    assert perfect == {"accuracy": 1.0, "macro_f1": 1.0}
    noise, noise_test = np.random.default_rng(2).normal(size=(2, 600, 16)).astype(np.float32)
    random = fit_and_score(kind, convert(noise[:count]), labels, convert(noise_test[:400]), test_labels, seed=0)
    assert 0.15 < random["accuracy"] < 0.35


@pytest.mark.parametrize("kind", ["mlp", "logistic"])
def test_the_scale_of_all_features_together_does_not_matter(kind, few_are_held_out):
    train, labels = clusters(200, spread=0.7)
    test, test_labels = clusters(300, spread=0.7, seed=1)
    small, large = (
        fit_and_score(kind, factor * train, labels, factor * test, test_labels, 0)["accuracy"] for factor in (0.02, 5)
    )
    assert abs(small - large) < (1e-9 if kind == "mlp" else 0.05)


def test_the_seed_decides_and_nothing_else(few_are_held_out):
    train, labels = clusters(100, spread=2.0)
    test, test_labels = clusters(300, spread=2.0, seed=1)
    scores = []
    for state, seed in ((1, 0), (2, 0), (2, 1)):
        torch.manual_seed(state)
        scores.append(fit_and_score("mlp", train, labels, test, test_labels, seed))
        assert torch.initial_seed() == state  # the caller's random numbers are left alone
    assert scores[0] == scores[1] != scores[2]


def test_a_support_vector_machine_neither_reads_nor_moves_the_callers_random_numbers():
    train, labels = (scipy.sparse.random(60, 200, 0.1, "csr", random_state=0), np.arange(60) % 4)
    np.random.seed(1)
    expected = np.random.random()
    np.random.seed(1)
    fit_and_score("mlp", train, labels, train, labels, 0)
    assert np.random.random() == expected


def test_a_class_with_one_example_and_one_that_is_only_tested_are_no_obstacle(few_are_held_out):
    train, labels = clusters(200)
    labels = np.where(np.arange(200) == 5, 4, labels)
    test, test_labels = clusters(40, classes=4, seed=1)
    test_labels = np.where(np.arange(40) == 0, 7, test_labels)
    for kind in ("mlp", "logistic"):
        assert fit_and_score(kind, train, labels, test, test_labels, 0)["accuracy"] == pytest.approx(39 / 40)


def test_the_log_says_that_sparse_features_get_another_classifier(caplog):
    train, labels = clusters(24)
    with caplog.at_level(logging.INFO, "docsplit_hf"):
        fit_and_score("mlp", scipy.sparse.csr_matrix(train), labels, scipy.sparse.csr_matrix(train), labels, 0)
    assert "takes the place of the perceptron" in caplog.text


@pytest.mark.parametrize("sparse", [False, True])
def test_a_model_that_gives_nan_is_named_and_not_scored(sparse):
    train, labels = clusters(24)
    broken = train.copy()
    broken[3, 2] = np.nan
    convert = scipy.sparse.csr_matrix if sparse else np.asarray
    with pytest.raises(ValueError, match="the training features: row 3 holds NaN"):
        fit_and_score("logistic", convert(broken), labels, convert(train), labels, 0)
    with pytest.raises(ValueError, match="the test features: row 3 holds NaN"):
        fit_and_score("mlp", convert(train), labels, convert(broken), labels, 0)


def test_what_cannot_be_probed_is_refused():
    train, labels = clusters(24)
    with pytest.raises(ValueError, match="has the label 2: there is nothing to tell apart"):
        fit_and_score("mlp", train, np.full(24, 2), train, labels, 0)
    with pytest.raises(ValueError, match="24 rows, but 23 labels"):
        fit_and_score("mlp", train, labels[1:], train, labels, 0)
    with pytest.raises(ValueError, match="the test features: there are none"):
        fit_and_score("mlp", train, labels, train[:0], labels[:0], 0)
    with pytest.raises(ValueError, match="Unknown probe 'svm'"):
        fit_and_score("svm", train, labels, train, labels, 0)
