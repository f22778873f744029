"""What every table is read against: always the largest class."""

from __future__ import annotations

import numpy as np

WORD_COUNTS, LARGEST_CLASS = "word counts", "largest class"
BY_CHANCE = 1.645  # standard deviations that chance alone exceeds once in twenty times


def largest_class(targets: np.ndarray, count: int, several: bool) -> np.ndarray:
    """The same for each of ``count`` texts: the shares of the labels; of several, the most frequent set is likely."""
    shares = targets.mean(0)
    if several:
        sets, counts = np.unique(targets, axis=0, return_counts=True)
        shares = np.where(sets[counts.argmax()] > 0, np.maximum(shares, 0.5), np.minimum(shares, 0.49))
    return np.tile(shares, (count, 1))


def at_chance(accuracy: float, largest: float | None, texts: int) -> str:
    """A line where an accuracy on so many texts is, but for chance, no better than that of the largest class."""
    if largest is None or accuracy - largest > BY_CHANCE * np.sqrt(largest * (1 - largest) / texts):
        return ""
    return (
        f"\nNot reliably better than always the largest class: {accuracy:.1%} right against {largest:.1%}, on "
        f"{texts:,} texts. Nothing shows yet that these labels can be told apart: add examples, or check the labels."
    )
