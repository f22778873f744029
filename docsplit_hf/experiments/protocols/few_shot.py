"""Few-shot classification: the same number of training examples from each class."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def sample_per_class(labels: np.ndarray, shots: int, seed: int, label_names: Sequence[str] | None = None) -> np.ndarray:
    """Draw the same number of examples from every class, without putting any back (DocSplit, appendix A.1).

    The paper draws 10 of each class of FakeNews and arXiv, and 5 of 20News, NYT and BBCNews, and averages over 10
    repeats. It does not say what becomes of a class with fewer: here it is an error. The examples of fewer shots are
    among those of more shots of the same seed, so that a curve over the number of shots does not jump for another draw.

    Args:
        labels: The labels of the training set, ``(N,)``.
        shots: How many to draw from each class.
        seed: Decides which.
        label_names: The names of the classes, for the error. None: they are called by number.

    Returns:
        Rows of the training set, int64 ``(shots x classes,)``, ascending.

    Raises:
        ValueError: If shots is not at least 1, there are fewer than 2 classes, or a class has fewer examples.

    Example:

        >>> sample_per_class(np.array([0, 0, 0, 1, 1, 1]), shots=1, seed=0)
        array([2, 3])
    """
    labels = np.asarray(labels)
    if shots < 1:
        raise ValueError(f"shots must be at least 1, got {shots}.")
    classes, counts = np.unique(labels, return_counts=True)
    if len(classes) < 2:
        raise ValueError("Few-shot classification needs examples of at least 2 classes: check the labels.")
    if counts.min() < shots:
        short = [
            f"{str(number) if label_names is None else label_names[number]!r} has {count}"
            for number, count in zip(classes, counts, strict=True)
            if count < shots
        ]
        raise ValueError(
            f"{shots} examples of each class are to be drawn, but in the training set {', '.join(short[:5])}"
            f"{f' (and {len(short) - 5} more classes are too small)' if len(short) > 5 else ''}: lower the number of "
            f"shots to {counts.min()}, or give more examples."
        )
    order = np.random.default_rng(seed).permutation(len(labels))
    return np.sort(np.concatenate([order[labels[order] == label][:shots] for label in classes]))
