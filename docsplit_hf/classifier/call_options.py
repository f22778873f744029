"""Options of a pipeline call: checks of single options and of their combinations."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np

from ..fitting.ensemble.guarantees import Guarantees
from ..fitting.ensemble.scoring import PreparedExperts
from ..fitting.label_sets import NO_LIMIT, check_level
from ..fitting.prediction import CallOptions, ReadingOptions
from ..fitting.rejection import HIGHEST_NOVELTY, RejectionLimits, min_held_out_texts

logger = logging.getLogger(__name__)


READING_OPTIONS = tuple(ReadingOptions.__annotations__)
METHODS = ("experts", "knn")
MINIMUMS = {
    "top_k": 1,
    "k": 1,
    "max_length": 1,
    "max_passages": 1,
    "return_neighbors": 0,
    "return_documents": 0,
}
FLAGS = ("explain", "return_novelty", "return_read", "show_progress")
IGNORED_OPTIONS = ("truncation", "padding")  # of other pipelines of transformers; accepted for compatibility
# What to write instead of options of earlier versions: of a call, and of the pipeline.
REMOVED = {
    "knn_temperature": "set pipe.model.config.knn_temperature",
    "knn_weight": "set pipe.model.config.knn_weight",
    "novelty": "write reject=RejectionLimits(0.05, novelty=0.05), from docsplit_hf",
    "reject_each_label": "write reject=RejectionLimits(0.05, each_label=True), from docsplit_hf",
    "reject_label": "a rejected text has the label None: write answer['label'] or 'unknown'",
    "max_tokens_per_batch": "batch_size limits the texts of a batch",
    "datastore_token": "open the datastore with its token, by KNNDatastore.from_pretrained",
    "packing": "it is chosen by the encoder",
    "calibration_texts": "call pipe.embedder.use_precision('int8', calibration_texts)",
    "backend": "precision='int8' is by OpenVINO, all else by torch",
}
# Instead of a collection of Milvus, by its address.
INSTEAD_OF_MILVUS = (
    "a datastore is a folder, which can be larger than the memory, and which several processes can read: write "
    "KNNDatastore.from_pretrained(folder, memory_map=True)"
)


def checked_options(**options: Any) -> CallOptions:
    """Check each option, and remove those that are ignored or None, except ``top_k``: None asks for all labels.

    Raises:
        TypeError: If an option is unknown.
        ValueError: If an option is out of its range.
    """
    given = {name: value for name, value in options.items() if value is not None or name == "top_k"}
    unknown = given.keys() - {*CallOptions.__annotations__, *IGNORED_OPTIONS}
    if unknown:
        name = min(unknown)
        instead = f" any more: {REMOVED[name]}" if name in REMOVED else ""
        raise TypeError(f"pipeline('docsplit-knn') has no argument {name!r}{instead}.")
    if given.get("truncation", True) not in (True, "longest_first"):
        raise ValueError(f"truncation={given['truncation']!r}: long texts are always cut, and counted.")
    for name, least in MINIMUMS.items():
        value = given.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, Integral) or value < least):
            raise ValueError(f"{name} must be a whole number from {least}, got {value!r}.")
    for name in FLAGS:
        if given.get(name, True) not in (True, False):
            raise ValueError(f"{name} must be True or False, got {given[name]!r}.")
    if given.get("method", METHODS[0]) not in METHODS:
        raise ValueError(f"method must be one of {', '.join(map(repr, METHODS))}, got {given['method']!r}.")
    if "reject" in given and not isinstance(given["reject"], RejectionLimits):
        given["reject"] = RejectionLimits(given["reject"])
    if "labels_at" in given:
        check_level(given["labels_at"])
    return {name: value for name, value in given.items() if name not in IGNORED_OPTIONS}


def check_method(options: CallOptions, experts: PreparedExperts | None) -> None:
    """Raise ValueError for options of another method than the one that answers."""
    method = options.get("method")
    if method == "knn" or (method is None and experts is None):
        return
    if experts is None:
        raise ValueError("method='experts': nothing was fitted, so call fit(), or leave method out.")
    if "k" in options:
        raise ValueError(
            f"k={options['k']} is for the vote of the nearest examples (equation 3), and after fit() the experts "
            "answer: pass method='knn' as well, or leave out k."
        )


def check_rejection(options: CallOptions, experts: PreparedExperts | None) -> None:
    """Raise ValueError for options that exclude each other, and warn about limits that cannot be guaranteed."""
    limits = options["reject"]
    if "top_k" in options:
        raise ValueError(f"reject gives a text one answer or none: leave out top_k={options['top_k']!r}.")
    if experts is None:
        return
    guarantees = experts.fitted.guarantees
    if limits.each_label:
        _check_each_label(guarantees, experts.ensemble.labels, limits)
    elif np.isinf(guarantees.level_thresholds(limits.error, limits.novelty)).all():
        logger.warning(
            "No text gets an answer: reject=%g cannot be guaranteed. %s",
            limits.error,
            guarantees.describe(limits.error),
        )
    if limits.novelty and guarantees.novelty_limit(limits.novelty) == HIGHEST_NOVELTY:
        logger.warning(
            "novelty=%g has no effect: to guarantee that so few texts are lost takes %d held-out texts, not %d. "
            "Add examples and fit() again, or allow more.",
            limits.novelty,
            min_held_out_texts(limits.novelty),
            len(guarantees.held_out.ids),
        )


def _check_each_label(guarantees: Guarantees, labels: Sequence[str], limits: RejectionLimits) -> None:
    """Raise ValueError for a tree of labels, and warn about labels that no text gets."""
    if guarantees.multi_label or guarantees.tree:
        raise ValueError("each_label is for one label per text, and for labels that are no tree: leave it out.")
    thresholds = guarantees.label_thresholds(limits.error, limits.novelty)
    without = [name for name, threshold in zip(labels, thresholds, strict=True) if np.isinf(threshold)]
    if without:
        logger.warning(
            "No text gets the label %s: reject=%g cannot be guaranteed among the answers with it. That takes %d "
            "held-out texts that are answered with a label, if all are right.",
            ", ".join(map(repr, without)),
            limits.error,
            min_held_out_texts(limits.error),
        )


def check_label_sets(options: CallOptions, experts: PreparedExperts | None, label_names: Sequence[str]) -> None:
    """Raise ValueError for options that exclude each other, and warn about sets that nothing can be guaranteed for."""
    level = options["labels_at"]
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
