"""Sets of labels that hold the right label of a text with a guaranteed probability (conformal prediction sets).

The nonconformity of a label of a text is 1 - p, where p is its probability (LAC, Sadinle et al. 2019). The set has the
labels whose nonconformity is at most a limit, and always the most probable label. The limit comes from the right labels
of held-out texts.
"""

from __future__ import annotations

from numbers import Real
from typing import NamedTuple

import numpy as np

from .rejection import guaranteed_limit, min_held_out_texts

NO_LIMIT = 1.0  # nonconformity is at most 1: all labels are in the set


class LabelSetLimits(NamedTuple):
    """Highest nonconformity of the labels in a set."""

    by_label: np.ndarray  # (C,); NO_LIMIT where the level cannot be guaranteed otherwise
    per_class: bool  # whether each label has a limit of its own, by the held-out texts that have it


def check_level(level: float) -> None:
    """Raise ValueError if ``labels_at`` is not a probability between 0 and 1."""
    if isinstance(level, bool) or not isinstance(level, Real) or not 0 < level < 1:
        raise ValueError(
            f"labels_at must be the probability that a set holds the right label, such as 0.95, got {level!r}."
        )


def nonconformity_of_right_labels(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Highest nonconformity of the right labels of each held-out text, float32 ``(m,)``; 0 without a label.

    A set with this limit holds all right labels of the text, if it has several.

    Args:
        probabilities: Probabilities of the labels, ``(m, C)``.
        labels: Right labels, bool ``(m, C)``.
    """
    return np.where(labels, nonconformity(probabilities), 0).max(1).astype(np.float32)


def nonconformity(probabilities: np.ndarray) -> np.ndarray:
    """Nonconformity ``1 - p`` of labels; float32, as probabilities of held-out texts are saved."""
    return 1 - probabilities.astype(np.float32)


def label_set_limits(
    right_nonconformity: np.ndarray, labels: np.ndarray, importance: np.ndarray, level: float, multi_label: bool
) -> LabelSetLimits:
    """Find the lowest limits at which the sets hold the right labels with probability ``level``.

    The limits hold for 9 of 10 draws of the held-out texts. Each label has a limit of its own (class-conditional, or
    Mondrian) if enough held-out texts have it; otherwise there is one limit for all labels, and none of their own.

    Args:
        right_nonconformity: The result of ``nonconformity_of_right_labels``, ``(m,)``.
        labels: Right labels of the held-out texts, bool ``(m, C)``.
        importance: Importance weights of the held-out texts, ``(B, m)``; those of one label are equal.
        level: The probability, from 0 to 1.
        multi_label: Whether a text may have several labels. Then there is one limit, as the set is for all of them.
    """
    outside = 1 - level
    per_class = not multi_label and bool(labels.sum(0).min(initial=len(labels)) >= min_held_out_texts(outside))
    if not per_class:
        limit = guaranteed_limit(right_nonconformity, outside, importance)
        return LabelSetLimits(by_label=np.full(labels.shape[1], limit), per_class=False)
    of_labels = [right_nonconformity[has_label] for has_label in labels.T]
    limits = [guaranteed_limit(values, outside, np.ones((1, len(values)))) for values in of_labels]
    return LabelSetLimits(by_label=np.array(limits), per_class=True)


def label_sets(probabilities: np.ndarray, limits: np.ndarray) -> np.ndarray:
    """Choose the labels of each text: those within their limits, and the most probable one.

    Args:
        probabilities: Probabilities of the labels, ``(N, C)``.
        limits: Highest nonconformity of each label, ``(C,)``.

    Returns:
        Whether each label is in the set, bool ``(N, C)``.
    """
    chosen = nonconformity(probabilities) <= limits
    chosen[np.arange(len(chosen)), probabilities.argmax(1)] = True
    return chosen
