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

from docsplit_hf.evaluation.probes import LabeledFeatures, logistic_predictions, rows_to_choose_by

logger = logging.getLogger(__name__)

HIDDEN_WIDTH = 128  # not given in the papers
BATCH_SIZE = 8
LEARNING_RATE = 3e-4
PATIENCE = 3
SMALLEST_GAIN = 1e-3  # in nats: with separable classes the loss falls for hundreds of epochs to no effect
MOST_EPOCHS = 100
STEPS_WITHOUT_HELD_OUT = 2_000


def mlp_predictions(features: LabeledFeatures, seed: int) -> np.ndarray:
    """Labels ``(M,)`` predicted by the papers' perceptron (DocSplit, appendix A.1).

    For sparse features a linear support vector machine is used, since a perceptron would have millions of weights.
    """
    if issparse(features.train):
        logger.info("Sparse features: a linear support vector machine takes the place of the perceptron.")
        return logistic_predictions(features, seed)
    kept, held_out = rows_to_choose_by(features, seed)
    predict = fit_mlp(
        features.train,
        features.train_labels,
        kept,
        held_out,
        hidden_widths=(HIDDEN_WIDTH,),
        batch_size=BATCH_SIZE,
        seed=seed,
    )
    return predict(features.test)


def fit_mlp(
    features: np.ndarray,
    labels: np.ndarray,
    kept: np.ndarray,
    held_out: np.ndarray,
    hidden_widths: tuple[int, ...],
    batch_size: int,
    seed: int,
) -> Callable[[np.ndarray], np.ndarray]:
    """Train a perceptron with ReLU by cross entropy and AdamW on the kept rows; return the function that predicts.

    Training stops after 3 epochs in which the held-out loss has not fallen by 0.001, or after 100 epochs, and returns
    to the best epoch. Without held-out rows it stops at the end of the epoch that reaches 2,000 steps.

    Features are scaled to a mean square of 1, which BERT's vectors have in the papers. Vectors of norm 1 have a mean
    square of 1 / D: unscaled, they would need several times as many epochs at the papers' learning rate.
    """
    root_mean_square = float(np.sqrt(np.mean(np.square(features[kept], dtype=np.float64))))
    scale = np.float32(1 / max(root_mean_square, 1e-12))
    rows = torch.from_numpy(features * scale)
    targets = torch.from_numpy(labels)
    train = rows[kept]
    train_targets = targets[kept]
    best_loss = float("inf")
    best_epoch = 0
    best_weights = None
    with torch.random.fork_rng(devices=[]):  # preserves the caller's random state
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
                best_loss = loss
                best_epoch = epoch
                best_weights = copy.deepcopy(network.state_dict())
            elif epoch - best_epoch >= PATIENCE:
                break
    if best_weights is not None:
        network.load_state_dict(best_weights)
        logger.info(f"The perceptron is that of epoch {best_epoch} of {epoch}: held-out loss {best_loss:.3f}.")

    @torch.no_grad()
    def predict(others: np.ndarray) -> np.ndarray:
        return network(torch.from_numpy(others * scale)).argmax(1).numpy()

    return predict
