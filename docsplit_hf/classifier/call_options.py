"""Options of a pipeline call: types, and checks of single options and of their combinations."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import numpy as np

from ..fitting.label_sets import NO_LIMIT, check_level
from ..fitting.rejection import HIGHEST_NOVELTY, check_error, check_lost_fraction, min_held_out_texts

if TYPE_CHECKING:
    from ..fitting.ensemble.guarantees import Guarantees
    from ..fitting.ensemble.scoring import PreparedExperts

logger = logging.getLogger(__name__)


class ReadingOptions(TypedDict, total=False):
    """Options for reading texts."""

    max_length: int
    max_passages: int
    max_tokens_per_batch: int
    batch_size: int | None
    bf16: bool | Literal["auto"]


class CallOptions(ReadingOptions, total=False):
    """Options of a call, as ``KNNClassifierPipeline.__call__`` describes them."""

    top_k: int | None
    k: int
    knn_temperature: float
    knn_weight: float
    return_neighbors: int
    return_documents: int
    explain: bool
    return_novelty: bool
    return_read: bool
    show_progress: bool
    reject: float
    novelty: float
    reject_each_label: bool
    reject_label: str
    labels_at: float


READING_OPTIONS = tuple(ReadingOptions.__annotations__)
KNN_OPTIONS = ("k", "knn_temperature", "knn_weight")  # with any of them, answers are by equation 3
MINIMUMS = {
    "top_k": 1,
    "k": 1,
    "max_length": 1,
    "max_passages": 1,
    "max_tokens_per_batch": 1,
    "return_neighbors": 0,
    "return_documents": 0,
}
FLAGS = ("explain", "return_novelty", "return_read", "show_progress", "reject_each_label")
IGNORED_OPTIONS = ("truncation", "padding")  # of other pipelines of transformers; accepted for compatibility


def checked_options(**options: Any) -> CallOptions:
    """Check each option, and remove those that are ignored or None, except ``top_k``: None asks for all labels.

    Raises:
        TypeError: If an option is unknown, or ``reject_label`` is not a string.
        ValueError: If an option is out of its range.
    """
    given = {name: value for name, value in options.items() if value is not None or name == "top_k"}
    unknown = given.keys() - {*CallOptions.__annotations__, *IGNORED_OPTIONS}
    if unknown:
        raise TypeError(f"pipeline('docsplit-knn') has no argument {min(unknown)!r}.")
    if given.get("truncation", True) not in (True, "longest_first"):
        raise ValueError(f"truncation={given['truncation']!r}: long texts are always cut, and counted.")
    for name, least in MINIMUMS.items():
        value = given.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, Integral) or value < least):
            raise ValueError(f"{name} must be a whole number from {least}, got {value!r}.")
    for name in FLAGS:
        if given.get(name, True) not in (True, False):
            raise ValueError(f"{name} must be True or False, got {given[name]!r}.")
    if not given.get("knn_temperature", 1) > 0:
        raise ValueError(f"knn_temperature must be above 0, got {given['knn_temperature']}.")
    if not 0 <= given.get("knn_weight", 1) <= 1:
        weight = given["knn_weight"]
        raise ValueError(f"knn_weight must be from 0 (classifier alone) to 1 (neighbors alone), got {weight}.")
    if "reject" in given:
        check_error(given["reject"])
    if "labels_at" in given:
        check_level(given["labels_at"])
    if "novelty" in given:
        check_lost_fraction(given["novelty"])
    if not isinstance(given.get("reject_label", ""), str):
        raise TypeError(f"reject_label must be a name, got {given['reject_label']!r}.")
    return {name: value for name, value in given.items() if name not in IGNORED_OPTIONS}


def check_reading_options(options: ReadingOptions) -> None:
    """Raise TypeError for options other than ``ReadingOptions``."""
    unknown = options.keys() - {*READING_OPTIONS}
    if unknown:
        raise TypeError(f"There is no argument {min(unknown)!r} here: choose among {', '.join(READING_OPTIONS)}.")


def check_rejection(options: CallOptions, experts: PreparedExperts | None, label_names: Sequence[str]) -> None:
    """Raise ValueError for options that exclude each other, and warn about limits that cannot be guaranteed."""
    reject = options.get("reject")
    reject_label = options.get("reject_label")
    most_lost = options.get("novelty")
    if reject is None:
        if most_lost is not None:
            raise ValueError(f"novelty={most_lost!r} is a second limit beside that of reject: pass reject, too.")
        if options.get("reject_each_label"):
            raise ValueError("reject_each_label=True says for what the rate of reject holds: pass reject, too.")
        if reject_label is not None:
            raise ValueError(f"reject_label={reject_label!r} is for texts without an answer: pass reject, too.")
        return
    if "top_k" in options:
        raise ValueError(f"reject gives a text one answer or none: leave out top_k={options['top_k']!r}.")
    if reject_label in label_names:
        raise ValueError(f"reject_label={reject_label!r} is a label of the examples: take another name.")
    if experts is None:
        return
    guarantees = experts.fitted.guarantees
    if options.get("reject_each_label"):
        _check_each_label(guarantees, experts.ensemble.labels, reject, most_lost)
    elif np.isinf(guarantees.level_thresholds(reject, most_lost)).all():
        logger.warning(
            "No text gets an answer: reject=%g cannot be guaranteed. %s", reject, guarantees.describe(reject)
        )
    if most_lost and guarantees.novelty_limit(most_lost) == HIGHEST_NOVELTY:
        logger.warning(
            "novelty=%g has no effect: to guarantee that so few texts are lost takes %d held-out texts, not %d. "
            "Add examples and fit() again, or allow more.",
            most_lost,
            min_held_out_texts(most_lost),
            len(guarantees.held_out.ids),
        )


def _check_each_label(guarantees: Guarantees, labels: Sequence[str], reject: float, most_lost: float | None) -> None:
    """Raise ValueError for a tree of labels, and warn about labels that no text gets."""
    if guarantees.multi_label or not guarantees.tree.is_flat:
        raise ValueError("reject_each_label is for one label per text, and for labels that are no tree: leave it out.")
    thresholds = guarantees.label_thresholds(reject, most_lost)
    without = [name for name, threshold in zip(labels, thresholds, strict=True) if np.isinf(threshold)]
    if without:
        logger.warning(
            "No text gets the label %s: reject=%g cannot be guaranteed among the answers with it. That takes %d "
            "held-out texts that are answered with a label, if all are right.",
            ", ".join(map(repr, without)),
            reject,
            min_held_out_texts(reject),
        )


def check_label_sets(options: CallOptions, experts: PreparedExperts | None, label_names: Sequence[str]) -> None:
    """Raise ValueError for options that exclude each other, and warn about sets that nothing can be guaranteed for."""
    level = options.get("labels_at")
    if level is None:
        return
    if "top_k" in options:
        raise ValueError(f"labels_at chooses the number of labels: leave out top_k={options['top_k']!r}.")
    if experts is None:
        return
    guarantees = experts.fitted.guarantees
    if (guarantees.label_set_limits(level).by_label == NO_LIMIT).all():
        logger.warning(
            "labels_at=%g: every set has all labels. To guarantee that fewer labels hold the right one takes %d "
            "held-out texts; the %d here count as %.0f. Add examples and fit() again, or choose a lower level.",
            level,
            min_held_out_texts(1 - level),
            len(guarantees.held_out.ids),
            guarantees.effective_size(),
        )
    new = [name for name in label_names if name not in set(experts.ensemble.labels)]
    if new:
        logger.warning(
            "labels_at=%g is not guaranteed for texts of %s: no example had these labels at the last fit(). Add "
            "examples, and fit() again.",
            level,
            ", ".join(map(repr, new)),
        )
