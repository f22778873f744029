"""The papers' probe: a perceptron on frozen features, stopped early on held-out examples."""

from __future__ import annotations

import copy
import itertools
import logging
import math
from collections.abc import Callable

import numpy as np
import torch
from scipy.sparse import issparse
from torch import nn

from docsplit_hf.evaluation.protocols import LabeledFeatures, logistic_predictions, rows_to_choose_by

logger = logging.getLogger(__name__)

HIDDEN_WIDTH = 128  # the papers do not say
BATCH_SIZE = 8
LEARNING_RATE = 3e-4
PATIENCE = 3
SMALLEST_GAIN = 1e-3  # in nats: of classes that can be told apart, the loss falls for hundreds of epochs to no effect
MOST_EPOCHS = 100
STEPS_WITHOUT_HELD_OUT = 2_000


def mlp_predictions(features: LabeledFeatures, seed: int) -> np.ndarray:
    """Labels by the papers' perceptron (DocSplit, appendix A.1), ``(M,)``.

    Sparse features get a linear support vector machine, since a perceptron would have millions of weights.
    """
    if issparse(features.train):
        logger.info("Sparse features: a linear support vector machine takes the place of the perceptron.")
        return logistic_predictions(features, seed)
    rows = rows_to_choose_by(features, seed)
    return fit_mlp(features.train, features.train_labels, *rows, (HIDDEN_WIDTH,), BATCH_SIZE, seed)(features.test)


def fit_mlp(
    features: np.ndarray,
    labels: np.ndarray,
    kept: np.ndarray,
    held_out: np.ndarray,
    hidden_widths: tuple[int, ...],
    batch_size: int,
    seed: int,
) -> Callable[[np.ndarray], np.ndarray]:
    """Train a perceptron with ReLU by cross entropy and AdamW on the kept rows; gives what predicts labels.

    It ends after 3 epochs without a held-out loss that is lower by 0.001, or after 100, and the best epoch is taken;
    without held-out rows, with the epoch in which 2,000 steps are reached.

    Features are multiplied by one number, such that their mean square is 1, as it is of BERT's vectors in the papers.
    Of vectors of norm 1 it is 1 / D: with the papers' learning rate, training would take several times as many epochs.
    """
    scale = np.float32(1 / max(float(np.sqrt(np.mean(np.square(features[kept], dtype=np.float64)))), 1e-12))
    rows, targets = torch.from_numpy(features * scale), torch.from_numpy(labels)
    train, train_targets = rows[kept], targets[kept]
    best_loss, best_epoch, best_weights = float("inf"), 0, None
    with torch.random.fork_rng(devices=[]):  # the caller's random numbers are left alone
        torch.manual_seed(seed)
        widths = (rows.shape[1], *hidden_widths, int(labels.max()) + 1)
        layers = [(nn.Linear(wide, narrow), nn.ReLU()) for wide, narrow in itertools.pairwise(widths)]
        network = nn.Sequential(*itertools.chain(*layers))[:-1]
        optimizer = torch.optim.AdamW(network.parameters(), lr=LEARNING_RATE)
        steps_per_epoch = math.ceil(len(train) / batch_size)
        epochs = MOST_EPOCHS if len(held_out) else math.ceil(STEPS_WITHOUT_HELD_OUT / steps_per_epoch)
        for epoch in range(1, epochs + 1):
            for batch in torch.randperm(len(train)).split(batch_size):
                loss = nn.functional.cross_entropy(network(train[batch]), train_targets[batch])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            if len(held_out) == 0:
                continue
            with torch.no_grad():
                loss = nn.functional.cross_entropy(network(rows[held_out]), targets[held_out]).item()
            if loss < best_loss - SMALLEST_GAIN:
                best_loss, best_epoch, best_weights = loss, epoch, copy.deepcopy(network.state_dict())
            elif epoch - best_epoch >= PATIENCE:
                break
    if best_weights is not None:
        network.load_state_dict(best_weights)
        logger.info(f"The perceptron is that of epoch {best_epoch} of {epoch}: held-out loss {best_loss:.3f}.")

    @torch.no_grad()
    def predict(others: np.ndarray) -> np.ndarray:
        return network(torch.from_numpy(others * scale)).argmax(1).numpy()

    return predict
