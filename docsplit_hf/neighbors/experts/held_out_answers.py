"""HeldOutAnswers: what the mixture said of labeled texts that it had not learned from, kept with what was fitted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

PREFIX = "held_out_"


class HeldOutAnswers(NamedTuple):
    """Of m texts: examples in folds, or texts that were given to choose by."""

    ids: np.ndarray  # int64 (m,): of the examples, as the corpus has them; 0 of texts that are none
    probabilities: np.ndarray  # float32 (m, C)
    labels: np.ndarray  # bool (m, C): what they had when all was fitted
    familiarity: np.ndarray  # float32 (m,)

    @property
    def right(self) -> np.ndarray:
        """Whether the most probable label was right, bool ``(m,)``."""
        return np.take_along_axis(self.labels, self.probabilities.argmax(1)[:, None], 1)[:, 0]

    @classmethod
    def none(cls, labels: int) -> HeldOutAnswers:
        """Of no texts."""
        return cls(np.zeros(0, np.int64), np.zeros((0, labels), np.float32), np.zeros((0, labels), bool), np.zeros(0))

    def to_arrays(self) -> dict[str, np.ndarray]:
        """As arrays of a fitted state."""
        return {f"{PREFIX}{name}": array for name, array in self._asdict().items()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> HeldOutAnswers:
        """The same again."""
        return cls(*(arrays[f"{PREFIX}{name}"] for name in cls._fields))
