"""FittedState: what a fit has learned, in the form in which a datastore saves it."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

DTYPES = ("float32", "float64", "int64", "int32", "bool")  # of arrays


@dataclass(frozen=True, eq=False)
class FittedState:
    """Settings, arrays and a vocabulary that can be saved: copied, and read-only.

    ``settings``: a JSON object, which the store does not interpret. ``arrays``: finite, of ``DTYPES``, by name.
    ``vocabulary``: strings without lone surrogates.
    """

    settings: dict[str, Any]
    arrays: dict[str, np.ndarray]
    vocabulary: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "settings", copy.deepcopy(self.settings))
        object.__setattr__(self, "arrays", {name: _frozen(name, array) for name, array in self.arrays.items()})
        object.__setattr__(self, "vocabulary", tuple(self.vocabulary))

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        # Built again, as pickles lose the read-only flag of arrays.
        return FittedState, (self.settings, self.arrays, self.vocabulary)


def _frozen(name: str, array: np.ndarray) -> np.ndarray:
    if array.dtype not in map(np.dtype, DTYPES):
        raise ValueError(f"The array {name!r} of a fitted state is {array.dtype}, not one of {', '.join(DTYPES)}.")
    if not np.isfinite(array).all():
        raise ValueError(f"The array {name!r} of a fitted state holds NaN or infinity: fit again.")
    copied = np.array(array, order="C")  # safetensors needs contiguous arrays
    copied.flags.writeable = False
    return copied
