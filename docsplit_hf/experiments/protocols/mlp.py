"""A small perceptron on frozen features, trained until examples that were held out say to stop."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch

logger = logging.getLogger(__name__)

LEARNING_RATE = 3e-4
PATIENCE = 3
SMALLEST_GAIN = 1e-3  # in nats: of classes that can be told apart, the loss falls for hundreds of epochs to no effect
MOST_EPOCHS = 100
STEPS_WITHOUT_HELD_OUT = 2_000


def fit_mlp(
    train: np.ndarray,
    labels: np.ndarray,
    held_out: np.ndarray,
    held_out_labels: np.ndarray,
    hidden_widths: tuple[int, ...],
    batch_size: int,
    seed: int,
) -> Callable[[np.ndarray], np.ndarray]:
    """Train a multi-layer perceptron with ReLU by cross entropy and AdamW, learning rate 3e-4 (DocSplit, appendix A.1).

    After each epoch the cross entropy on the held-out examples is computed; training ends after 3 epochs without one
    that is lower by 0.001, or after 100, and the weights of the best are taken. Without held-out examples it ends with
    the epoch in which 2,000 steps are reached.

    Features are multiplied by one number, such that their mean square is 1. The papers say nothing of it, and have
    vectors of BERT, whose mean square is of that size. Of vectors of norm 1 it is 1 / D: with the learning rate of the
    papers, training then takes several times as many epochs, the more the wider the vector. Angles and the ratios of
    distances stay as they were, unlike when each column is standardized.

    Args:
        train: ``(N, D)``, float32.
        labels: int64 ``(N,)``, from 0.
        held_out: ``(M, D)``; M may be 0.
        held_out_labels: int64 ``(M,)``.
        hidden_widths: The widths of the hidden layers.
        batch_size: Examples a step.
        seed: Decides the first weights and the order of the examples.

    Returns:
        A function from features ``(K, D)`` to predicted labels, int64 ``(K,)``.

    Example:

        >>> features, labels = np.eye(2, dtype=np.float32)[[0, 1] * 32], np.array([0, 1] * 32)
        >>> predict = fit_mlp(features, labels, features[:8], labels[:8], hidden_widths=(64,), batch_size=8, seed=0)
        >>> predict(features[:2])
        array([0, 1])
    """
    import torch

    scale = 1 / max(float(np.sqrt(np.mean(np.square(train, dtype=np.float64)))), 1e-12)
    num_labels = int(max(labels.max(), held_out_labels.max() if len(held_out_labels) else 0)) + 1
    examples, targets = _tensor(train, scale), torch.from_numpy(np.asarray(labels, dtype=np.int64))
    held_out_examples = _tensor(held_out, scale)
    held_out_targets = torch.from_numpy(np.asarray(held_out_labels, dtype=np.int64))
    best_loss, best_epoch, best_weights = float("inf"), 0, None
    with _random_numbers_of(seed):
        network = _network((train.shape[1], *hidden_widths, num_labels))
        optimizer = torch.optim.AdamW(network.parameters(), lr=LEARNING_RATE)
        steps_per_epoch = -(-len(examples) // batch_size)
        epochs = MOST_EPOCHS if len(held_out) else -(-STEPS_WITHOUT_HELD_OUT // steps_per_epoch)
        for epoch in range(1, epochs + 1):
            for rows in torch.randperm(len(examples)).split(batch_size):
                loss = torch.nn.functional.cross_entropy(network(examples[rows]), targets[rows])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            if len(held_out) == 0:
                continue
            with torch.no_grad():
                loss = torch.nn.functional.cross_entropy(network(held_out_examples), held_out_targets).item()
            if loss < best_loss - SMALLEST_GAIN:
                best_loss, best_epoch, best_weights = loss, epoch, copy.deepcopy(network.state_dict())
            elif epoch - best_epoch >= PATIENCE:
                break
    if best_weights is not None:
        network.load_state_dict(best_weights)
        logger.info(f"The perceptron is that of epoch {best_epoch} of {epoch}: held-out loss {best_loss:.3f}.")

    def predict(features: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return network(_tensor(features, scale)).argmax(1).numpy()

    return predict


def _network(widths: tuple[int, ...]) -> torch.nn.Sequential:
    import torch

    layers: list[torch.nn.Module] = []
    for wide, narrow in zip(widths, widths[1:], strict=False):
        layers += [torch.nn.Linear(wide, narrow), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def _tensor(features: np.ndarray, scale: float) -> torch.Tensor:
    import torch

    return torch.from_numpy(np.asarray(features, dtype=np.float32) * np.float32(scale))


@contextmanager
def _random_numbers_of(seed: int) -> Iterator[None]:
    """Torch's random numbers by this seed, and those of the caller untouched."""
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
