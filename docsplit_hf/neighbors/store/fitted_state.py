"""FittedState: what was fitted on a datastore's rows, kept with them by a store that does not know what it says."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...text.characters import replace_lone_surrogates

DTYPES = ("float32", "float64", "int64", "int32", "bool")


@dataclass(frozen=True, eq=False)
class FittedState:
    """Settings, arrays and a vocabulary, copied and checked: what is kept can be saved, and never changes.

    ``settings``: what JSON gives back as it was. ``arrays``: of ``DTYPES``, and finite, by name; they become read-only.
    ``vocabulary``: any strings without lone surrogates.
    """

    settings: dict[str, Any]
    arrays: dict[str, np.ndarray]
    vocabulary: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "settings", _as_json(self.settings))
        object.__setattr__(self, "arrays", {name: _frozen(name, array) for name, array in self.arrays.items()})
        object.__setattr__(self, "vocabulary", tuple(self.vocabulary))
        for term in self.vocabulary:
            if not _is_text(term):
                raise ValueError(
                    f"The term {term!r} of the vocabulary is no string, or has half a character (a lone surrogate): "
                    "clean it with docsplit_hf.text.characters.replace_lone_surrogates."
                )

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        # A pickle does not keep that arrays are read-only.
        return FittedState, (self.settings, self.arrays, self.vocabulary)


def _as_json(settings: dict[str, Any]) -> dict[str, Any]:
    try:
        copied = json.loads(json.dumps(settings, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"The settings of a fitted state must be JSON, and they are not: {error}.") from error
    if copied != settings or not isinstance(copied, dict):
        raise ValueError(f"JSON gives the settings {settings!r} back as {copied!r}: use lists, and strings as names.")
    return copied


def _frozen(name: str, array: np.ndarray) -> np.ndarray:
    if not _is_text(name) or name == "__metadata__":  # which safetensors keeps for itself
        raise ValueError(f"An array of a fitted state is named {name!r}: give it another name.")
    if not isinstance(array, np.ndarray) or array.dtype not in map(np.dtype, DTYPES):
        kind = array.dtype if isinstance(array, np.ndarray) else type(array).__name__
        raise ValueError(f"The array {name!r} of a fitted state is {kind}, not one of {', '.join(DTYPES)}: convert it.")
    if not np.isfinite(array).all():
        raise ValueError(f"The array {name!r} of a fitted state holds NaN or infinity: fit again.")
    copied = np.array(array, order="C")  # contiguous, as safetensors must have it
    copied.flags.writeable = False
    return copied


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and replace_lone_surrogates(value) == value
