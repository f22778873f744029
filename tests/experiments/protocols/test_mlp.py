import re

import numpy as np
import pytest
import torch

from docsplit_hf.experiments.protocols import mlp
from docsplit_hf.experiments.protocols.mlp import fit_mlp


def test_it_is_adamw_on_cross_entropy_with_the_papers_learning_rate(monkeypatch):
    """The same predictions as the plain loop, which shares no line with it but the order of the random numbers."""
    monkeypatch.setattr(mlp, "STEPS_WITHOUT_HELD_OUT", 398)  # ends with the epoch, at 400
    rng = np.random.default_rng(0)
    train, labels = rng.normal(size=(40, 6)).astype(np.float32), rng.integers(0, 3, 40)
    train /= np.sqrt((train.astype(np.float64) ** 2).mean())  # so that its scale stays
    predictions = fit_mlp(train, labels, train[:0], labels[:0], (5,), batch_size=8, seed=3)(train)
    torch.manual_seed(3)
    network = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3))
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-4)
    for _ in range(400 // 5):
        for rows in torch.randperm(40).split(8):
            network.zero_grad()
            torch.nn.CrossEntropyLoss()(
                network(torch.from_numpy(train)[rows]), torch.from_numpy(labels)[rows]
            ).backward()
            optimizer.step()
    expected = network(torch.from_numpy(train)).argmax(1).numpy()
    assert (predictions == expected).mean() > 0.97  # up to the rounding of the scale


def test_it_stops_when_held_out_examples_say_so_and_takes_the_best_weights(caplog):
    rng = np.random.default_rng(0)
    features, labels = rng.normal(size=(200, 8)).astype(np.float32), rng.integers(0, 2, 200)  # nothing to learn
    with caplog.at_level("INFO", "docsplit_hf"):
        fit_mlp(features[:100], labels[:100], features[100:], labels[100:], (64,), batch_size=4, seed=0)
    best, last = map(int, re.search(r"epoch (\d+) of (\d+)", caplog.text).groups())
    assert last == best + 3 < 100


@pytest.mark.parametrize("widths", [(), (4,), (8, 4)])
def test_any_number_of_layers(widths, monkeypatch):
    monkeypatch.setattr(mlp, "STEPS_WITHOUT_HELD_OUT", 30)
    features, labels = np.eye(3, dtype=np.float32).repeat(10, 0), np.arange(3).repeat(10)
    predict = fit_mlp(features, labels, features[:0], labels[:0], widths, batch_size=1, seed=0)
    assert predict(features).shape == (30,)
    assert predict(features).dtype == np.int64
