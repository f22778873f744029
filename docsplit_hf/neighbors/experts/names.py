"""The expert "names": how near a text is to the name of each label, as far as the examples confirm it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit, log_softmax

from .document_vectors import unit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .corpus import Corpus
    from .expert import Asked, Lesson, Sizes

MOST, HALF_LIFE = 0.5, 3.0  # its share without examples, and with how many of each label it has half of that
_NO_WORDS = str.maketrans("._-/", "    ")


class Names:
    """Cosines of embeddings and of the names of labels."""

    learns_from_documents = False

    def can_learn(self, corpus: Corpus, several: bool, has_names: bool) -> bool:
        """Where each text has one label, and an encoder has read the names."""
        return has_names and not several

    def prior(self, lesson: Lesson) -> float:
        """Less with more examples, and next to nothing where names are no help with these.

        It is times the probability that names tell labels apart, rather than being any words, given the examples: as
        they were not learned from, all of them testify.
        """
        scores = _cosines(lesson.corpus.vectors, lesson.names)
        scores /= max(np.sqrt(np.square(scores - scores.mean(1, keepdims=True)).mean()), 1e-9)
        said = log_softmax(scores[lesson.rows], axis=1)[lesson.targets > 0]
        labels = lesson.targets.shape[1]
        evidence = float(said.sum() + len(said) * np.log(labels))
        return MOST / (1 + len(lesson.rows) / labels / HALF_LIFE) * float(expit(evidence))

    def fit(self, lesson: Lesson) -> dict[str, np.ndarray]:
        """The embeddings of the names."""
        return {"names": lesson.names}

    def score(self, learned: Mapping[str, np.ndarray], asked: Asked) -> np.ndarray:
        """Of the cosines."""
        return _cosines(asked.vectors, learned["names"])

    def shapes(self, sizes: Sizes) -> dict[str, tuple[int, ...]]:
        """A name for each label."""
        return {"names": (sizes.labels, sizes.embedding)}


def readable_names(names: Sequence[str]) -> list[str]:
    """Names as an encoder reads them: ``comp.sys.mac-hardware`` is four words."""
    return [name.translate(_NO_WORDS).strip() or name for name in names]


def names_as_vectors(embeddings: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Embeddings of names, ``(C, H)``, less what all texts, and all names, have in common; of norm 1."""
    centered = unit(embeddings.astype(np.float32) - mean)
    return unit(centered - centered.mean(0)).astype(np.float32)


def _cosines(vectors: np.ndarray, names: np.ndarray) -> np.ndarray:
    return unit(vectors[:, : names.shape[1]]) @ names.T
