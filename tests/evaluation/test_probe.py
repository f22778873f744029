import numpy as np
import pytest
import scipy.sparse

from docsplit_hf.evaluation import probe
from docsplit_hf.evaluation.labeled_features import LabeledFeatures
from docsplit_hf.evaluation.probe import logistic_predictions


def clusters(count, classes=4, dimension=16, spread=0.1, seed=0):
    """Features around one center for each class, and their labels; the centers are the same for all seeds."""
    centers = np.random.default_rng(99).normal(size=(classes, dimension))
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % classes
    features = centers[labels] + spread * rng.normal(size=(count, dimension))
    return (features / np.linalg.norm(features, axis=1, keepdims=True)).astype(np.float32), labels


def labeled(train, test, convert=np.asarray):
    return LabeledFeatures(convert(train[0]), train[1], convert(test[0]), test[1], range(len(train[1])))


@pytest.fixture
def few_are_held_out(monkeypatch):
    """Of training sets that are quick to train on some examples are held out, too."""
    monkeypatch.setattr(probe, "FEWEST_TO_HOLD_OUT", 100)


@pytest.mark.parametrize("convert", [np.asarray, scipy.sparse.csr_matrix])
@pytest.mark.parametrize("count", [24, 500])
def test_what_can_be_separated_is_and_random_labels_give_chance(convert, count, caplog):
    train, test = clusters(count), clusters(400, seed=1)
    features = labeled(train, test, convert)
    with caplog.at_level("INFO", "docsplit_hf"):
        assert set(features.metrics(logistic_predictions(features, 0)).values()) == {1.0}
    assert ("with an accuracy of 1.000 on 48 held-out examples" in caplog.text) == (count == 500)
    noise, noise_test = np.random.default_rng(2).normal(size=(2, 600, 16)).astype(np.float32)
    random = labeled((noise[:count], train[1]), (noise_test[:400], test[1]), convert)
    assert 0.15 < np.mean(logistic_predictions(random, 0) == test[1]) < 0.35


def test_the_seed_decides_and_the_callers_random_numbers_are_left_alone(few_are_held_out):
    features = labeled(clusters(100, spread=2.0), clusters(300, spread=2.0, seed=1), scipy.sparse.csr_matrix)
    predicted = []
    for state in (1, 2):
        np.random.seed(state)
        before = np.random.get_state()[1].copy()
        predicted.append(logistic_predictions(features, 0))
        assert (np.random.get_state()[1] == before).all()
    assert (predicted[0] == predicted[1]).all()


def test_a_class_with_one_example_and_one_that_is_only_tested_are_no_obstacle(few_are_held_out):
    train, labels = clusters(200)
    test, test_labels = clusters(40, seed=1)
    labels = np.where(np.arange(200) == 5, 4, labels)
    predicted = logistic_predictions(labeled((train, labels), (test, test_labels)), 0)
    assert np.mean(predicted == np.where(np.arange(40) == 0, 7, test_labels)) == pytest.approx(39 / 40)
