"""Expert on label names: their embeddings, and the names that say only that a text has another topic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from .expert import Expert, Features, TrainingData
from .saved_types import UNIT_COMPONENTS, Array
from .text_vectors import unit

NAMES_PRIOR_WITHOUT_EXAMPLES = 1.0
EXAMPLES_THAT_HALVE_NAMES_PRIOR = 1.5  # examples per label
# Log odds that a topic's name tells its texts from others: 1, 3 and 4 were within 0.4 points on 92 yes/no tasks.
EVIDENCE_OF_ONE_TOPIC = 2.0
_SEPARATORS_TO_SPACES = str.maketrans("._-/", "    ")
_OTHER = frozenset(("another", "other", "others", "else", "none", "nothing", "neither", "misc", "miscellaneous"))
_NOT = frozenset(("not", "no", "non"))


class LabelNames(Expert):
    """Cosine to label names, weighted by how well examples confirm them."""

    name = "label_names"
    needs_single_label = True
    needs_label_names = True
    arrays = {"vectors": Array(("labels", "embedding"), UNIT_COMPONENTS)}

    def prior(self, data: TrainingData) -> float:
        examples_per_label = len(data.rows) / data.targets.shape[1]
        halvings = examples_per_label / EXAMPLES_THAT_HALVE_NAMES_PRIOR
        return NAMES_PRIOR_WITHOUT_EXAMPLES / (1 + halvings) * data.reliability(data.names)

    def fit(self, data: TrainingData) -> dict[str, np.ndarray]:
        return {"vectors": data.names.vectors}

    def score(self, learned: Mapping[str, np.ndarray], features: Features) -> np.ndarray:
        of_names = learned["vectors"]
        return unit(features.vectors[:, : of_names.shape[1]]) @ of_names.T


def readable_names(names: Sequence[str]) -> list[str]:
    """Turn label names into words to embed: ``comp.sys.mac-hardware`` becomes four words."""
    return [name.translate(_SEPARATORS_TO_SPACES).strip() or name for name in names]


def only_topic(names: Sequence[str]) -> int | None:
    """Number of the label that names a topic, if the other of two only says "another one", "none" or "not" that topic.

    The words are English.
    """
    if len(names) != 2:
        return None
    first, second = (name.casefold().split() for name in readable_names(names))
    is_other = [_is_other(first, second), _is_other(second, first)]
    return is_other.index(False) if sum(is_other) == 1 else None


def _is_other(words: Sequence[str], others: Sequence[str]) -> bool:
    """Whether the words of a name are no topic, or deny those of the other name."""
    affirmed = [word for word in words if word not in _NOT]
    return not _OTHER.isdisjoint(words[:1] + words[-1:]) or (affirmed == others and words != others)


def names_as_vectors(embeddings: np.ndarray, mean: np.ndarray, topic: int | None = None) -> np.ndarray:
    """Center embeddings of label names ``(C, H)`` by the mean of all texts, then by that of all names; of norm 1.

    If only the label ``topic`` of two names one, the other has the opposite vector. It is not centered by the texts:
    half of them may have this topic.
    """
    if topic is not None:
        vector = unit(embeddings[[topic]].astype(np.float32))
        return np.where(np.arange(2)[:, None] == topic, vector, -vector)
    centered = unit(embeddings.astype(np.float32) - mean)
    return unit(centered - centered.mean(0)).astype(np.float32)
