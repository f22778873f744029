import re

import numpy as np
import pytest
import scipy.sparse
import torch

from docsplit_hf.experiments.protocols import probe
from docsplit_hf.experiments.protocols.labeled_features import LabeledFeatures
from docsplit_hf.experiments.protocols.probe import fit_mlp, probe_metrics


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
    """Training sets that are quick to train on are stopped early, too."""
    monkeypatch.setattr(probe, "FEWEST_TO_HOLD_OUT", 100)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("kind", ["mlp", "logistic"])
@pytest.mark.parametrize("count", [24, 500])
def test_what_can_be_separated_is_and_random_labels_give_chance(kind, sparse, count, monkeypatch, caplog):
    monkeypatch.setattr(probe, "STEPS_WITHOUT_HELD_OUT", 300)
    convert = scipy.sparse.csr_matrix if sparse else np.asarray
    train, test = clusters(count), clusters(400, seed=1)
    with caplog.at_level("INFO", "docsplit_hf"):
        assert set(probe_metrics(kind, labeled(train, test, convert), 0).values()) == {1.0}
    assert ("takes the place of the perceptron" in caplog.text) == (kind == "mlp" and sparse)
    is_chosen = count == 500 and (kind == "logistic" or sparse)
    assert ("with an accuracy of 1.000 on 48 held-out examples" in caplog.text) == is_chosen
    noise, noise_test = np.random.default_rng(2).normal(size=(2, 600, 16)).astype(np.float32)
    random = labeled((noise[:count], train[1]), (noise_test[:400], test[1]), convert)
    assert 0.15 < probe_metrics(kind, random, 0)["accuracy"] < 0.35


@pytest.mark.parametrize("kind", ["mlp", "logistic"])
def test_the_scale_of_all_features_together_does_not_matter(kind, few_are_held_out):
    (train, labels), (test, test_labels) = clusters(200, spread=0.7), clusters(300, spread=0.7, seed=1)
    small, large = (
        probe_metrics(kind, labeled((factor * train, labels), (factor * test, test_labels)), 0)["accuracy"]
        for factor in (0.02, 5)
    )
    assert abs(small - large) < (1e-9 if kind == "mlp" else 0.05)


@pytest.mark.parametrize("convert", [np.asarray, scipy.sparse.csr_matrix])
def test_the_seed_decides_and_the_callers_random_numbers_are_left_alone(convert, few_are_held_out):
    features = labeled(clusters(100, spread=2.0), clusters(300, spread=2.0, seed=1), convert)
    scores = []
    for state, seed in ((1, 0), (2, 0), (2, 1)):
        np.random.seed(state)
        torch.manual_seed(state)
        before = np.random.get_state()[1].copy()
        scores.append(probe_metrics("mlp", features, seed))
        assert (np.random.get_state()[1] == before).all() and torch.initial_seed() == state
    assert scores[0] == scores[1]
    assert convert is not np.asarray or scores[1] != scores[2]


def test_a_class_with_one_example_and_one_that_is_only_tested_are_no_obstacle(few_are_held_out):
    train, labels = clusters(200)
    test, test_labels = clusters(40, seed=1)
    features = labeled(
        (train, np.where(np.arange(200) == 5, 4, labels)), (test, np.where(np.arange(40) == 0, 7, test_labels))
    )
    for kind in ("mlp", "logistic"):
        assert probe_metrics(kind, features, 0)["accuracy"] == pytest.approx(39 / 40)


def test_without_held_out_examples_it_is_adamw_on_cross_entropy(monkeypatch):
    """The same predictions as the plain loop, which shares no line with it but the order of the random numbers."""
    monkeypatch.setattr(probe, "STEPS_WITHOUT_HELD_OUT", 398)  # ends with the epoch, at 400
    rng = np.random.default_rng(0)
    features, labels = rng.normal(size=(40, 6)).astype(np.float32), rng.integers(0, 3, 40)
    features /= np.sqrt((features.astype(np.float64) ** 2).mean())  # so that its scale stays
    predictions = fit_mlp(features, labels, np.arange(40), np.arange(0), (5,), batch_size=8, seed=3)(features)
    torch.manual_seed(3)
    network = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3))
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-4)
    rows, targets = torch.from_numpy(features), torch.from_numpy(labels)
    for _ in range(400 // 5):
        for batch in torch.randperm(40).split(8):
            network.zero_grad()
            torch.nn.CrossEntropyLoss()(network(rows[batch]), targets[batch]).backward()
            optimizer.step()
    assert (predictions == network(rows).argmax(1).numpy()).mean() > 0.97  # up to the rounding of the scale


def test_it_stops_when_held_out_examples_say_so_and_takes_the_best_weights(caplog):
    rng = np.random.default_rng(0)
    features, labels = rng.normal(size=(200, 8)).astype(np.float32), rng.integers(0, 2, 200)  # nothing to learn
    with caplog.at_level("INFO", "docsplit_hf"):
        fit_mlp(features, labels, np.arange(100), np.arange(100, 200), (64,), batch_size=4, seed=0)
    best, last = map(int, re.search(r"epoch (\d+) of (\d+)", caplog.text).groups())
    assert last == best + 3 < 100
