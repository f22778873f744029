import re

import numpy as np
import pytest
import scipy.sparse
import torch

from docsplit_hf.evaluation import probes
from experiments.protocols import perceptron
from experiments.protocols.perceptron import fit_mlp, mlp_predictions
from tests.evaluation.test_probes import clusters, labeled


@pytest.fixture
def few_are_held_out(monkeypatch):
    """Hold out examples of small training sets too, for early stopping."""
    monkeypatch.setattr(probes, "FEWEST_TO_HOLD_OUT", 100)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("count", [24, 500])
def test_separable_classes_are_separated_and_random_features_give_chance(sparse, count, monkeypatch, caplog):
    monkeypatch.setattr(perceptron, "STEPS_WITHOUT_HELD_OUT", 300)
    convert = scipy.sparse.csr_matrix if sparse else np.asarray
    train, labels = clusters(count)
    test, test_labels = clusters(400, seed=1)
    with caplog.at_level("INFO", "experiments"):
        assert (mlp_predictions(labeled((train, labels), (test, test_labels), convert), 0) == test_labels).all()
    assert ("takes the place of the perceptron" in caplog.text) == sparse
    noise, noise_test = np.random.default_rng(2).normal(size=(2, 600, 16)).astype(np.float32)
    random = labeled((noise[:count], labels), (noise_test[:400], test_labels), convert)
    assert 0.15 < np.mean(mlp_predictions(random, 0) == test_labels) < 0.35


def test_predictions_do_not_depend_on_the_scale_of_the_features(few_are_held_out):
    train, labels = clusters(200, spread=0.7)
    test, test_labels = clusters(300, spread=0.7, seed=1)
    small = mlp_predictions(labeled((0.02 * train, labels), (0.02 * test, test_labels)), 0)
    large = mlp_predictions(labeled((5 * train, labels), (5 * test, test_labels)), 0)
    assert (small == large).all()


def test_without_held_out_examples_it_is_adamw_on_cross_entropy(monkeypatch):
    """The same predictions as a plain loop, written independently, with the same order of random numbers."""
    monkeypatch.setattr(perceptron, "STEPS_WITHOUT_HELD_OUT", 398)  # ends with the epoch, at 400
    rng = np.random.default_rng(0)
    features = rng.normal(size=(40, 6)).astype(np.float32)
    labels = rng.integers(0, 3, 40)
    features /= np.sqrt((features.astype(np.float64) ** 2).mean())  # a mean square of 1, so they are not rescaled
    predict = fit_mlp(features, labels, np.arange(40), np.arange(0), (5,), batch_size=8, seed=3)
    predictions = predict(features)
    torch.manual_seed(3)
    network = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3))
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-4)
    rows = torch.from_numpy(features)
    targets = torch.from_numpy(labels)
    for _ in range(400 // 5):
        for batch in torch.randperm(40).split(8):
            network.zero_grad()
            torch.nn.CrossEntropyLoss()(network(rows[batch]), targets[batch]).backward()
            optimizer.step()
    assert (predictions == network(rows).argmax(1).numpy()).mean() > 0.97  # up to the rounding of the scale


def test_training_stops_early_by_the_held_out_loss_and_keeps_the_best_weights(caplog):
    rng = np.random.default_rng(0)
    features = rng.normal(size=(200, 8)).astype(np.float32)
    labels = rng.integers(0, 2, 200)  # random: nothing to learn
    with caplog.at_level("INFO", "experiments"):
        fit_mlp(features, labels, np.arange(100), np.arange(100, 200), (64,), batch_size=4, seed=0)
    best, last = map(int, re.search(r"epoch (\d+) of (\d+)", caplog.text).groups())
    assert last == best + 3 < 100
