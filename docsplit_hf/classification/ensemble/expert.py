"""Expert: one opinion in the mixture; what it learns from, and what it is asked about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import scipy.sparse as sp

    from .corpus import Corpus


class Lesson(NamedTuple):
    """The N texts of a corpus, of which n are examples with labels."""

    corpus: Corpus
    rows: np.ndarray  # int64 (n,): the examples
    targets: np.ndarray  # (n, C), 0 or 1
    several: bool  # whether a text may have several labels
    has_head: bool  # whether a trained classifier speaks, too
    weights: np.ndarray  # float32 (N,): what each text counts
    soft: np.ndarray  # (N, C): labels of all texts, as far as they are known by now
    centers: np.ndarray  # (C, D): of the topics that go with them; (C, 0) without
    names: np.ndarray | None = None  # (C, H): embeddings of the labels' names, H the first dimensions of vectors
    is_text: np.ndarray | None = None  # bool (n,): which examples are texts, not descriptions of labels; None: all
    belief: float = 0.0  # the probability that names tell labels apart, rather than being any words

    @property
    def has_documents(self) -> bool:
        """Whether there are enough texts without labels to count on."""
        return len(self.corpus.ids) > 2 * len(self.rows)


class Asked(NamedTuple):
    """N texts that the experts are asked about."""

    vectors: np.ndarray  # (N, D), of norm 1
    whitened: np.ndarray  # (N, D)
    words: sp.csr_matrix | None  # TF-IDF (N, V)
    shares: np.ndarray  # (N, C): of the labels in the votes of the neighbors
    logits: np.ndarray | None  # (N, C) of a trained classifier
    several: bool


class Sizes(NamedTuple):
    """How large the arrays of a fitted state are."""

    labels: int
    terms: int
    dimensions: int  # of vectors
    embedding: int  # how many of these are of an embedding
    has_head: bool


class Expert:
    """One that is listed in ``EXPERTS``; what it learned is arrays by name, which are saved with the datastore."""

    learns_from_documents = False  # whether it is fitted again when the labels of documents are better known

    def can_learn(self, corpus: Corpus, several: bool, has_names: bool) -> bool:
        """Whether there is what it needs."""
        return True

    def prior(self, lesson: Lesson) -> float:
        """Its share of the mixture before any example is held out."""
        raise NotImplementedError

    def fit(self, lesson: Lesson) -> dict[str, np.ndarray]:
        """What it learns."""
        return {}

    def score(self, learned: Mapping[str, np.ndarray], asked: Asked) -> np.ndarray:
        """Logits ``(N, C)``; log odds where a text may have several labels."""
        raise NotImplementedError

    def shapes(self, sizes: Sizes) -> dict[str, tuple[int, ...]]:
        """The shapes of what it learned, to check what comes from a folder."""
        return {}
