"""Base class of the ensemble members, and their inputs.

An expert is one member of the ensemble: it gives logits of the labels from one view of a text, such as its words or its
nearest neighbors. The classes are listed in ``ALL_EXPERTS`` in ``registry.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import scipy.sparse as sp

    from .corpus import Corpus


class TrainingData(NamedTuple):
    """N texts that experts are fitted on, of which n are examples with labels."""

    corpus: Corpus
    rows: np.ndarray  # int64 (n,): places of the examples in the corpus
    targets: np.ndarray  # (n, C), 0 or 1
    multi_label: bool  # whether a text may have several labels
    has_head: bool  # whether a trained classifier gives logits, too
    text_weights: np.ndarray  # float32 (N,)
    soft_labels: np.ndarray  # (N, C): label distributions of all texts, as estimated so far
    centers: np.ndarray  # (C, D): label centroids that belong to soft_labels; (C, 0) before the first estimate
    label_name_vectors: np.ndarray | None  # (C, H): embeddings of label names; H is the size of an embedding
    is_text: np.ndarray  # bool (n,): whether an example is a text; False for a description of a label
    label_name_reliability: float  # probability that label names tell the labels apart, given the examples

    @property
    def has_documents(self) -> bool:
        """Whether there are texts without labels."""
        return len(self.corpus.ids) > len(self.rows)

    @property
    def has_many_documents(self) -> bool:
        """Whether texts without labels outnumber the examples."""
        return len(self.corpus.ids) > 2 * len(self.rows)


class Features(NamedTuple):
    """Features of N texts to be scored."""

    vectors: np.ndarray  # (N, D), of norm 1
    whitened: np.ndarray  # (N, D)
    words: sp.csr_matrix | None  # TF-IDF (N, V)
    neighbor_label_proportions: np.ndarray  # (N, C): label proportions among the votes of the nearest neighbors
    head_logits: np.ndarray | None  # (N, C) of a trained classifier
    multi_label: bool


class Sizes(NamedTuple):
    """Sizes of the arrays of a fitted ensemble."""

    labels: int
    terms: int
    dimensions: int  # of vectors: embedding and words
    embedding_dimensions: int
    has_head: bool


class ArraySpec(NamedTuple):
    """Shape of an array, and the range of its numbers."""

    shape: tuple[int, ...]
    least: float
    largest: float


class Expert:
    """Member of the ensemble. Its arrays are saved with the datastore.

    A subclass states its needs by flags, and implements ``prior``, ``score``, and, if it learns arrays, ``fit`` and
    ``arrays``.
    """

    name: ClassVar[str]
    needs_words: ClassVar[bool] = False  # of texts that the datastore keeps
    needs_single_label: ClassVar[bool] = False  # texts may not have several labels
    needs_label_names: ClassVar[bool] = False  # their embeddings
    uses_head: ClassVar[bool] = False  # scores by a trained classifier where there is one
    learns_from_documents: ClassVar[bool] = False  # is fitted again when the soft labels of documents improve
    tunes_example_weight: ClassVar[bool] = False  # the weight of examples is chosen by its accuracy on folds
    refines_propagated_labels: ClassVar[bool] = False  # its scores multiply the labels propagated to documents
    saved_names: ClassVar[Mapping[str, str]] = {}  # of arrays in saved folders, if not the default

    def unmet_need(self, has_words: bool, multi_label: bool, has_label_names: bool) -> str | None:
        """What is missing to fit this expert; None if nothing is."""
        if self.needs_words and not has_words:
            return "texts with words in the datastore"
        if self.needs_single_label and multi_label:
            return "one label per text"
        if self.needs_label_names and not has_label_names:
            return "an encoder for the names of the labels"
        return None

    def prior(self, data: TrainingData) -> float:
        """Unnormalized weight in the ensemble before any example is held out."""
        raise NotImplementedError

    def reliability(self, data: TrainingData) -> float:
        """Probability that the expert is informative; it is not compared with others where it is below 0.5."""
        return 1.0

    def fit(self, data: TrainingData) -> dict[str, np.ndarray]:
        """Arrays by name, float32."""
        return {}

    def score(self, learned: Mapping[str, np.ndarray], features: Features) -> np.ndarray:
        """Logits ``(N, C)``; log odds where a text may have several labels."""
        raise NotImplementedError

    def arrays(self, sizes: Sizes) -> dict[str, ArraySpec]:
        """Specification of each array that ``fit`` returns, to check saved folders."""
        return {}

    def saved_name(self, array: str) -> str:
        """Name of an array in a saved folder."""
        return self.saved_names.get(array, f"{self.name}.{array}")

    def word_contributions(
        self, learned: Mapping[str, np.ndarray], weight: float, words: sp.csr_matrix, label: int, against: int | None
    ) -> np.ndarray | None:
        """Contribution of each stored word of one text ``(1, V)`` to the weighted logit of a label; None: not by words.

        ``against``: the label whose contributions are subtracted.
        """
        return None

    def word_regression(self, learned: Mapping[str, np.ndarray]) -> np.ndarray | None:
        """Weights of ``fit_vocabulary``, if the expert has learned them: the baseline "word counts" uses them, too."""
        return None
