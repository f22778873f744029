"""Whether a fitted state, which may come from a stranger's folder, is one of experts, and of this datastore."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .expert import Sizes
from .experts import EXPERTS, PROPORTIONS, SHIFT, SOFT

KINDS = {"ids": "i", "held_out_ids": "i", "held_out_labels": "b"}  # of arrays that are not floats
LARGEST_WEIGHT = 1e6  # the logits of an expert spread over at least a millionth

if TYPE_CHECKING:
    from ..store.fitted_state import FittedState
    from ..store.snapshot import Snapshot


def check_state(state: FittedState, snapshot: Snapshot) -> None:
    """Refuse settings of other types, arrays of other shapes, and labels that the datastore does not have."""
    settings, arrays = state.settings, state.arrays
    labels, weights = settings.get("labels"), settings.get("weights")
    _require(_is_list_of(labels, str) and labels and set(labels) <= set(snapshot.label_names), "labels", labels)
    _require(settings.get("several") is snapshot.multi_label, "several", settings.get("several"))
    known = isinstance(weights, dict) and weights and set(weights) <= set(EXPERTS)
    _require(known and _is_list_of(list(weights.values()), float), "weights", weights)
    _require(len(set(labels)) == len(labels), "labels", labels)
    _require(all(0 <= weight <= LARGEST_WEIGHT for weight in weights.values()), "weights", weights)
    _require(len(set(state.vocabulary)) == len(state.vocabulary), "vocabulary", "with a term twice")
    for name, array in arrays.items():
        _require(array.dtype.kind == KINDS.get(name, "f"), name, array.dtype.name)
        _require(array.ndim > 0 and (name != "ids" or len(array)), name, array.shape)
    terms, classes, dimension = len(state.vocabulary), len(labels), snapshot.keys.shape[1]
    temperature = settings.get("temperature")
    _require(isinstance(temperature, float) and temperature > 0, "temperature", temperature)
    texts, word_dimensions = (arrays[name].shape[0] if name in arrays else 0 for name in ("ids", "components"))
    joined, held_out = dimension + word_dimensions, arrays["held_out_ids"].size if "held_out_ids" in arrays else 0
    shapes = {
        "mean": [(dimension,)],
        "components": [(word_dimensions, terms), (0, 0)],
        "whitening": [(joined, joined)],
        SOFT: [(texts, classes)],
        SHIFT: [(classes,)],
        PROPORTIONS: [(classes,)],
        "ids": [(texts,)],
        "idf": [(terms,)],
        "held_out_ids": [(held_out,)],
        "held_out_probabilities": [(held_out, classes)],
        "held_out_labels": [(held_out, classes)],
        "held_out_familiarity": [(held_out,)],
    }
    _require(isinstance(settings.get("has_head"), bool), "has_head", settings.get("has_head"))
    sizes = Sizes(classes, terms, joined, dimension, settings["has_head"])
    shapes |= {array: [shape] for name in weights for array, shape in EXPERTS[name].shapes(sizes).items()}
    _require(arrays.keys() == shapes.keys(), "arrays", sorted(arrays))
    for name, expected in shapes.items():
        _require(arrays[name].shape in expected, name, arrays[name].shape)
    for name in ("held_out_probabilities", "held_out_familiarity"):
        _require(((arrays[name] >= 0) & (arrays[name] <= 1)).all(), name, "outside 0 to 1")
    suggested = settings.get("suggested", [])
    _require(_is_list_of(suggested, str), "suggested", suggested)
    thresholds = settings.get("thresholds", [0.5] * classes)
    _require(_is_list_of(thresholds, float) and len(thresholds) == classes, "thresholds", thresholds)


def _is_list_of(values: Any, kind: type) -> bool:
    return isinstance(values, list) and all(type(value) is kind for value in values)


def _require(condition: Any, what: str, found: Any) -> None:
    if not condition:
        raise ValueError(f"What was fitted on this datastore does not fit it: {what} is {found!r}. Call fit() again.")
