"""Checks of a fitted state from an untrusted folder."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from ..label_tree import SETTING as HIERARCHY_SETTING
from ..label_tree import is_hierarchy_setting
from .expert import ArraySpec, Sizes
from .fit_settings import SAVED_COMPARES_WITH_DOCUMENTS, SAVED_MULTI_LABEL, SUGGESTED_SETTING
from .registry import EXPERTS
from .report import FitReport
from .state_values import SHARED_RANGES, SUM_TOLERANCE, UNLIMITED, fault_of_distributions, is_possible
from .teacher_expert import ANSWERS as TEACHER_ANSWERS
from .teacher_expert import SETTING as TEACHER_SETTING
from .teacher_expert import is_teacher_setting

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...arrays.snapshot import FittedState
    from ...arrays.store import View

# Names of arrays in saved folders.
SOFT_LABELS = "soft"
SHIFT = "shift"
PROPORTIONS = "proportions"
PROPORTION_DRAWS = "proportion_draws"
HELD_OUT_PREFIX = "held_out_"
HELD_OUT_COUNTED = f"{HELD_OUT_PREFIX}counted"  # only if some held-out texts are versions of others
DTYPE_KINDS = {
    "ids": "i",
    "held_out_ids": "i",
    "held_out_labels": "b",
    HELD_OUT_COUNTED: "b",
}  # kinds of NumPy dtypes; others are floats
LARGEST_WEIGHT = 1e6  # an expert with a weight has logits with a standard deviation of at least 1e-6
LARGEST_TEMPERATURE = 1e32  # above any squared distance


def check_state(state: FittedState, view: View) -> None:
    """Refuse invalid settings, invalid arrays, and labels that the datastore does not have.

    Raises:
        ValueError: If the state does not fit the datastore; it names the setting or array.
    """
    _check_labels_and_weights(state.settings, view)
    _check_array_types(state)
    _check_temperature(state.settings)
    _require(isinstance(state.settings.get("has_head"), bool), "has_head", state.settings.get("has_head"))
    teacher = state.settings.get(TEACHER_SETTING)
    _require(is_teacher_setting(teacher), TEACHER_SETTING, teacher)
    hierarchy = state.settings.get(HIERARCHY_SETTING)
    _require(is_hierarchy_setting(hierarchy), HIERARCHY_SETTING, hierarchy)
    specs = _array_specs(state, view)
    _check_shapes(state.arrays, specs)
    _check_ranges(state.arrays, specs)
    fault = fault_of_distributions(state.arrays, state.settings[SAVED_MULTI_LABEL])
    if fault is not None:
        _require(False, fault.name, fault.reason)
    _check_guarantees(state)
    _check_other_settings(state.settings)


def sizes_of(state: FittedState, embedding_dimensions: int) -> Sizes:
    """Derive the sizes of the arrays of a state."""
    word_dimensions = len(state.arrays["components"]) if "components" in state.arrays else 0
    return Sizes(
        labels=len(state.settings["labels"]),
        terms=len(state.vocabulary),
        dimensions=embedding_dimensions + word_dimensions,
        embedding_dimensions=embedding_dimensions,
        has_head=state.settings["has_head"],
    )


def _check_labels_and_weights(settings: dict[str, Any], view: View) -> None:
    labels = settings.get("labels")
    weights = settings.get("weights")
    _require(_is_list_of(labels, str) and labels and set(labels) <= set(view.label_names), "labels", labels)
    multi_label = settings.get(SAVED_MULTI_LABEL)
    _require(multi_label is view.multi_label, SAVED_MULTI_LABEL, multi_label)
    are_known = isinstance(weights, dict) and weights and set(weights) <= set(EXPERTS)
    _require(are_known and _is_list_of(list(weights.values()), float), "weights", weights)
    _require(len(set(labels)) == len(labels), "labels", labels)
    _require(all(0 <= weight <= LARGEST_WEIGHT for weight in weights.values()), "weights", weights)


def _check_array_types(state: FittedState) -> None:
    _require(len(set(state.vocabulary)) == len(state.vocabulary), "vocabulary", "with a term twice")
    for name, array in state.arrays.items():
        _require(array.dtype.kind == DTYPE_KINDS.get(name, "f"), name, array.dtype.name)
        _require(array.ndim > 0 and (name != "ids" or len(array)), name, array.shape)


def _check_temperature(settings: dict[str, Any]) -> None:
    temperature = settings.get("temperature")
    is_possible_temperature = isinstance(temperature, float) and 0 < temperature <= LARGEST_TEMPERATURE
    _require(is_possible_temperature, "temperature", temperature)


def _array_specs(state: FittedState, view: View) -> dict[str, ArraySpec]:
    """Shape and range of each array that the state must have, by its saved name."""
    arrays = state.arrays
    sizes = sizes_of(state, embedding_dimensions=view.dimension)
    texts = len(arrays["ids"]) if "ids" in arrays else 0
    held_out = arrays["held_out_ids"].size if "held_out_ids" in arrays else 0
    word_dimensions = sizes.dimensions - sizes.embedding_dimensions
    has_no_components = "components" in arrays and arrays["components"].shape == (0, 0)
    shapes = {
        "mean": (sizes.embedding_dimensions,),
        "components": (0, 0) if has_no_components else (word_dimensions, sizes.terms),
        "whitening": (sizes.dimensions, sizes.dimensions),
        SOFT_LABELS: (texts, sizes.labels),
        SHIFT: (sizes.labels,),
        PROPORTIONS: (sizes.labels,),
        "ids": (texts,),
        "idf": (sizes.terms,),
        "held_out_ids": (held_out,),
        "held_out_probabilities": (held_out, sizes.labels),
        "held_out_labels": (held_out, sizes.labels),
        "held_out_familiarity": (held_out,),
    }
    if PROPORTION_DRAWS in arrays:  # states of the first version have none
        shapes[PROPORTION_DRAWS] = (len(arrays[PROPORTION_DRAWS]), sizes.labels)
    if HELD_OUT_COUNTED in arrays:
        shapes[HELD_OUT_COUNTED] = (held_out,)
    specs = {}
    for name, shape in shapes.items():
        limits = SHARED_RANGES.get(name, UNLIMITED)
        specs[name] = ArraySpec(shape, limits.least, limits.largest)
    teacher = state.settings.get(TEACHER_SETTING)
    if teacher is not None:
        specs[TEACHER_ANSWERS] = ArraySpec((len(teacher["documents"]), sizes.labels), 0.0, 1.0)
    for name in state.settings["weights"]:
        expert = EXPERTS[name]
        for array, spec in expert.arrays(sizes).items():
            specs[expert.saved_name(array)] = spec
    return specs


def _check_shapes(arrays: Mapping[str, np.ndarray], specs: Mapping[str, ArraySpec]) -> None:
    _require(arrays.keys() == specs.keys(), "arrays", sorted(arrays))
    for name, spec in specs.items():
        _require(arrays[name].shape == spec.shape, name, arrays[name].shape)


def _check_ranges(arrays: Mapping[str, np.ndarray], specs: Mapping[str, ArraySpec]) -> None:
    for name, array in arrays.items():
        spec = specs[name]
        if array.size and array.dtype.kind == "f":
            is_inside = array.min() >= spec.least and array.max() <= spec.largest  # false for NaN
            _require(is_inside, name, f"outside {spec.least:g} to {spec.largest:g}")


def _check_guarantees(state: FittedState) -> None:
    """Check the arrays and settings of guarantees; states of the first version have none."""
    draws = state.arrays.get(PROPORTION_DRAWS, np.zeros((0, 1), np.float32))
    are_proportions = ((draws >= 0) & (draws <= 1)).all() and np.allclose(draws.sum(1), 1, atol=SUM_TOLERANCE)
    _require(are_proportions, PROPORTION_DRAWS, "not shares that add up to 1")
    lost = state.settings.get("novelty", 0.0)
    _require(isinstance(lost, float) and 0 <= lost < 1, "novelty", lost)
    is_compared = state.settings.get(SAVED_COMPARES_WITH_DOCUMENTS, False)
    _require(isinstance(is_compared, bool), SAVED_COMPARES_WITH_DOCUMENTS, is_compared)


def _check_other_settings(settings: dict[str, Any]) -> None:
    labels = len(settings["labels"])
    suggested = settings.get(SUGGESTED_SETTING, [])
    _require(_is_list_of(suggested, str), SUGGESTED_SETTING, suggested)
    paths = settings.get("paths", [])
    are_paths = is_possible("paths", paths) and (not paths or [path[-1] for path in paths] == settings["labels"])
    _require(are_paths, "paths", paths)
    document_vote = settings.get("document_vote", 1.0)
    _require(isinstance(document_vote, float) and 0 < document_vote <= 1, "document_vote", document_vote)
    thresholds = settings.get("thresholds", [0.5] * labels)
    _require(_is_list_of(thresholds, float) and len(thresholds) == labels, "thresholds", thresholds)
    _require(all(0 <= threshold <= 1 for threshold in thresholds), "thresholds", thresholds)
    for name, value in settings.items():
        _require(is_possible(name, value), name, value)
    for field in fields(FitReport):
        is_required = field.default is MISSING and field.default_factory is MISSING
        _require(not is_required or field.name in settings, field.name, None)


def _is_list_of(values: Any, kind: type) -> bool:
    return isinstance(values, list) and all(type(value) is kind for value in values)


def _require(condition: Any, name: str, found: Any) -> None:
    if not condition:
        raise ValueError(f"What was fitted on this datastore does not fit it: {name} is {found!r}. Call fit() again.")
