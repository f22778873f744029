"""Fit: everything that was learned from a datastore, the form in which it is saved, and checks of what was saved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Annotated, Any

import numpy as np

from ...arrays.fitted_state import FittedState
from ...arrays.snapshot import Snapshot
from ...reading.characters import words_of
from ..experts.corpus import id_numbers, texts_in
from ..experts.registry import EXPERTS, Learned
from ..experts.saved_types import (
    ABOVE_ZERO,
    ROUNDING,
    UP_TO_ONE,
    Array,
    Fraction,
    Range,
    is_possible,
    restored,
    saved_fields,
)
from ..experts.style_expert import STYLE_NUMBERS
from ..experts.teacher_expert import TEACHER_ANSWERS, TEACHER_SETTING, EarlierTeacherSetting, TeacherSetting
from ..experts.text_vectors import DocumentVectors, Tfidf
from ..label_tree import HIERARCHY_SETTING, LabelTree, extend_tree, is_hierarchy_setting, label_tree
from .guarantees import Guarantees, HeldOutAnswers
from .report import LATER_FIELDS, FitReport

FORGOTTEN = "(forgotten {})"  # in place of a word; no text has it, as a word has no brackets
SUGGESTED_SETTING = "suggested"  # setting of the fitted state with the ids of suggested documents


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Fitted experts with their weights."""

    labels: list[str]  # names of the labels that have examples, in the order of all arrays
    # Of each expert's logits: a logit has a standard deviation of at least 1e-6. 1 before weights are chosen.
    weights: dict[str, Annotated[float, Range(0, 1e6)]]
    multi_label: bool  # whether a text may have several labels
    has_head: bool  # whether a trained classification head also gives logits
    # Of the votes of the neighbors (equation 2); the largest is above any squared distance.
    temperature: Annotated[float, Range(ABOVE_ZERO, 1e32)]
    # Weight of the vote of a document, relative to that of an example.
    document_vote: Annotated[float, Range(ABOVE_ZERO, 1)]
    # Whether familiarity compares closeness to examples with closeness to documents, as some are out of scope.
    compares_with_documents: bool
    document_vectors: DocumentVectors
    terms: Annotated[Sequence[str], None]  # saved as the vocabulary; none if the texts of the corpus have no words
    idf: Annotated[np.ndarray, Array(("terms",), Range(1 - ROUNDING, 100.0))]  # 1 plus a logarithm of a count
    learned: Learned
    ids: Annotated[np.ndarray, Array(("texts",), kind="i")]  # int64: hashes of id and key of each text of the corpus

    @property
    def experts(self) -> list[str]:
        """Names of the experts."""
        return list(self.weights)

    @cached_property
    def tfidf(self) -> Tfidf:
        """TF-IDF of words."""
        return Tfidf(self.terms, self.idf)

    def label_columns(self, label_names: Sequence[str]) -> np.ndarray:
        """Numbers of the fitted labels among all labels, ``(C,)``."""
        return np.array([label_names.index(name) for name in self.labels])


@dataclass(frozen=True, eq=False)
class Fit:
    """Everything that ``fit`` learned from a datastore."""

    ensemble: Ensemble
    report: FitReport
    held_out: Annotated[HeldOutAnswers, "held_out_"]  # to all held-out texts
    # Of the label proportions among all texts; none if the held-out texts already have these.
    proportion_draws: Annotated[np.ndarray, Array(("draws", "labels"), UP_TO_ONE)]
    log_likelihood: float  # of the labels of the held-out texts, without a shift for label proportions
    thresholds: list[Fraction] | None  # probability from which a text gets each label, if it may have several

    @cached_property
    def guarantees(self) -> Guarantees:
        """The held-out answers that count, and the error rates that they guarantee."""
        return Guarantees(
            held_out=self.held_out.rows(self.held_out.is_counted),
            proportion_draws=self.proportion_draws,
            multi_label=self.ensemble.multi_label,
            # The calls use the default limit on novelty that fit() chose and reported.
            default_lost=self.report.novelty,
            tree=label_tree(self.report.paths),
        )

    def label_thresholds(self, label_names: Sequence[str]) -> np.ndarray | None:
        """Thresholds of all L labels, ``(L,)``; 0.5 for labels added after ``fit``. None if texts have one label."""
        if self.thresholds is None:
            return None
        own = dict(zip(self.ensemble.labels, self.thresholds, strict=True))
        return np.array([own.get(name, 0.5) for name in label_names])

    def tree_of(self, label_names: Sequence[str]) -> LabelTree:
        """The tree of all labels; those added after ``fit`` are nodes of their own."""
        return extend_tree(self.guarantees.tree, self.ensemble.label_columns(label_names), label_names)

    def to_state(self) -> FittedState:
        """Convert to data that a datastore saves."""
        settings = {}
        arrays = {}
        for name, path, kind in saved_fields(Fit):
            values = arrays if isinstance(kind, Array) else settings
            values[name] = reduce(getattr, path, self)
        for expert, learned in self.ensemble.learned.by_expert.items():
            arrays |= {f"{expert}.{name}": array for name, array in learned.items()}
        return FittedState(settings, arrays, tuple(self.ensemble.terms))

    @classmethod
    def from_state(cls, state: FittedState) -> Fit:
        """Restore what ``to_state`` converted, bit for bit."""
        arrays = state.arrays
        has_head = state.settings["has_head"]
        by_expert = {
            name: {array: arrays[f"{name}.{array}"] for array in EXPERTS[name].saved_arrays(has_head)}
            for name in state.settings["weights"]
        }
        return restored(cls, state.settings | {"by_expert": by_expert, "terms": state.vocabulary}, arrays)


def check_state(state: FittedState, snapshot: Snapshot) -> None:
    """Refuse invalid settings, invalid arrays, and labels that the datastore does not have.

    Raises:
        ValueError: If the state does not fit the datastore; it names the setting or array.
    """
    settings = state.settings
    specs = {}
    for name, _, kind in saved_fields(Fit):
        if isinstance(kind, Array):
            specs[name] = kind
        elif name in settings or name not in LATER_FIELDS:
            _require(is_possible(settings.get(name), kind), name, settings.get(name))
    _check_labels(settings, snapshot)
    teacher = settings.get(TEACHER_SETTING)
    _require(is_possible(teacher, TeacherSetting | EarlierTeacherSetting | None), TEACHER_SETTING, teacher)
    hierarchy = settings.get(HIERARCHY_SETTING)
    _require(is_hierarchy_setting(hierarchy), HIERARCHY_SETTING, hierarchy)
    suggested = settings.get(SUGGESTED_SETTING, [])
    _require(is_possible(suggested, list[str]), SUGGESTED_SETTING, suggested)
    if teacher is not None:
        specs[TEACHER_ANSWERS] = Array(("asked", "labels"), UP_TO_ONE)
    for name in settings["weights"]:
        for array, spec in EXPERTS[name].saved_arrays(settings["has_head"]).items():
            specs[f"{name}.{array}"] = spec
    _check_arrays(state, specs, snapshot.keys.shape[1])


def _check_labels(settings: Mapping[str, Any], snapshot: Snapshot) -> None:
    """Check the settings that depend on one another, or on the datastore."""
    labels = settings["labels"]
    weights = settings["weights"]
    paths = settings.get("paths", [])
    thresholds = settings["thresholds"]
    are_known = labels and set(labels) <= set(snapshot.label_names) and len(set(labels)) == len(labels)
    _require(are_known, "labels", labels)
    _require(weights and weights.keys() <= EXPERTS.keys(), "weights", weights)
    _require(settings["multi_label"] is snapshot.multi_label, "multi_label", settings["multi_label"])
    _require(not paths or [path[-1] for path in paths] == labels, "paths", paths)
    of_labels = len(labels) if snapshot.multi_label else None
    _require((None if thresholds is None else len(thresholds)) == of_labels, "thresholds", thresholds)


def _check_arrays(state: FittedState, specs: Mapping[str, Array], embedding_dimensions: int) -> None:
    """Check types, shapes and ranges; sizes are those of the arrays that define them."""
    arrays = state.arrays
    _require(len(set(state.vocabulary)) == len(state.vocabulary), "vocabulary", "with a term twice")
    _require(arrays.keys() == specs.keys(), "arrays", sorted(arrays))
    for name, array in arrays.items():
        _require(array.dtype.kind == specs[name].kind, name, array.dtype.name)
        _require(array.ndim == len(specs[name].shape), name, array.shape)
    _require(len(arrays["ids"]), "ids", arrays["ids"].shape)
    teacher = state.settings.get(TEACHER_SETTING)
    dimensions = embedding_dimensions + len(arrays["components"])
    sizes = {
        "labels": len(state.settings["labels"]),
        "terms": len(state.vocabulary),
        "terms and bias": len(state.vocabulary) + 1,
        "embedding": embedding_dimensions,
        "latent words": len(arrays["components"]),
        "style numbers": len(STYLE_NUMBERS),
        "style numbers and bias": len(STYLE_NUMBERS) + 1,
        "vector": dimensions,
        "vector and bias": dimensions + 1,
        "texts": len(arrays["ids"]),
        "held out": len(arrays["held_out_ids"]),
        "draws": len(arrays["proportion_draws"]),
        "asked": 0 if teacher is None else len(teacher["documents"]),
    }
    is_single_label = not state.settings["multi_label"]
    for name, spec in specs.items():
        array = arrays[name]
        _require(array.shape == tuple(sizes[size] for size in spec.shape), name, array.shape)
        least, largest = spec.values
        if array.size and spec.kind == "f":
            is_inside = array.min() >= least and array.max() <= largest  # false for NaN
            _require(is_inside, name, f"outside {least:g} to {largest:g}")
        if spec.is_distribution and is_single_label:
            sums = array.sum(-1, dtype=np.float64)
            _require(np.allclose(sums, 1, rtol=0, atol=ROUNDING), name, "no distribution: its rows do not add up to 1")
    counted = arrays["held_out_is_counted"]
    _require(counted.any() or not counted.size, "held_out_is_counted", "none of the held-out texts")
    if is_single_label:
        _require((arrays["held_out_labels"].sum(1) == 1).all(), "held_out_labels", "not one label for each text")
    sums = arrays["proportion_draws"].sum(1)
    _require(np.allclose(sums, 1, atol=ROUNDING), "proportion_draws", "not shares that add up to 1")


def _require(condition: Any, name: str, found: Any) -> None:
    if not condition:
        raise ValueError(f"What was fitted on this datastore does not fit it: {name} is {found!r}. Call fit() again.")


def without_words_of_removed(snapshot: Snapshot) -> Snapshot:
    """Replace terms of the vocabulary that are in no text any more, if texts were removed since the fit."""
    fitted = snapshot.fitted
    if fitted is None or "ids" not in fitted.arrays:
        return snapshot
    states = [state for state in (snapshot, snapshot.documents) if state is not None]
    present = np.concatenate([id_numbers(state.rows, state.keys) for state in states])
    if np.isin(fitted.arrays["ids"], present).all():
        return snapshot
    gone = set(fitted.vocabulary)
    for state in states:
        for text in texts_in(state.rows):
            gone.difference_update(words_of(text))
    terms = [FORGOTTEN.format(number) if term in gone else term for number, term in enumerate(fitted.vocabulary)]
    return replace(snapshot, fitted=replace(fitted, vocabulary=tuple(terms)))
