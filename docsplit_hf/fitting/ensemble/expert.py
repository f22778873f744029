"""Base class of the ensemble members (experts), and their inputs. ``ALL_EXPERTS`` in ``registry.py`` lists them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import scipy.sparse as sp

    from .corpus import Corpus


class FittedTeacher(NamedTuple):
    """Probe fitted on a teacher's answers."""

    probe: np.ndarray  # float32 (C, D + 1): weights and biases of the logits
    agreement: float  # in standard errors above chance


class TrainingData(NamedTuple):
    """N texts that experts are fitted on; n of them are examples with labels."""

    corpus: Corpus
    rows: np.ndarray  # int64 (n,): places of the examples in the corpus
    targets: np.ndarray  # (n, C), 0 or 1
    multi_label: bool  # whether a text may have several labels
    has_head: bool  # whether a trained classification head also gives logits
    text_weights: np.ndarray  # float32 (N,): weight of each text when experts are fitted; 1 for a document
    soft_labels: np.ndarray  # (N, C): current estimate of the label distribution of each text
    centers: np.ndarray  # (C, D): label centroids by soft_labels; (C, 0) before the first estimate
    label_name_vectors: np.ndarray | None  # (C, H): embeddings of the label names, of size H
    is_text: np.ndarray  # bool (n,): False for examples that are descriptions of labels
    label_name_reliability: float  # probability that similarity to label names predicts the labels
    teacher: FittedTeacher | None  # fitted on a decision model's answers about documents
    teacher_reliability: float  # probability that these answers predict the labels; 0 without a teacher
    versions_mislead: bool  # whether most texts are versions of others, and examples do not show that these agree

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
    neighbor_label_proportions: np.ndarray  # (N, C): label proportions in the votes of the nearest neighbors
    head_logits: np.ndarray | None  # (N, C), of a trained classification head
    multi_label: bool


class Sizes(NamedTuple):
    """Sizes of the arrays of a fitted ensemble."""

    labels: int
    terms: int
    dimensions: int  # of the vectors that join an embedding and words
    embedding_dimensions: int
    has_head: bool


class ArraySpec(NamedTuple):
    """Shape of an array, and the range of its values."""

    shape: tuple[int, ...]
    least: float
    largest: float


class Expert:
    """Member of the ensemble. Its fitted arrays are saved with the datastore.

    A subclass declares its requirements by flags, and implements ``prior`` and ``score``; if it has fitted arrays, also
    ``fit`` and ``arrays``.
    """

    name: ClassVar[str]
    needs_words: ClassVar[bool] = False  # requires a datastore that keeps texts
    needs_single_label: ClassVar[bool] = False  # requires one label per text
    needs_label_names: ClassVar[bool] = False  # requires embeddings of the label names
    needs_teacher: ClassVar[bool] = False  # requires a decision model's answers about documents
    uses_head: ClassVar[bool] = False  # returns the logits of a trained classification head, if there is one
    learns_from_documents: ClassVar[bool] = False  # is fitted again in each round of self-training
    is_regression: ClassVar[bool] = False  # learns from the examples alone: replaces an ensemble that is worthless
    tunes_example_weight: ClassVar[bool] = False  # its likelihood on folds decides the weight of examples
    refines_propagated_labels: ClassVar[bool] = False  # its scores reweight the labels propagated to documents
    saved_names: ClassVar[Mapping[str, str]] = {}  # array names in saved folders that differ from the default

    def unmet_need(
        self, has_words: bool, multi_label: bool, has_label_names: bool, has_teacher: bool = False
    ) -> str | None:
        """Missing requirement of this expert; None if it can be fitted."""
        if self.needs_words and not has_words:
            return "texts with words in the datastore"
        if self.needs_single_label and multi_label:
            return "one label per text"
        if self.needs_label_names and not has_label_names:
            return "an encoder for the names of the labels"
        if self.needs_teacher and not has_teacher:
            return "a teacher"
        return None

    def prior(self, data: TrainingData) -> float:
        """Unnormalized prior weight in the ensemble."""
        raise NotImplementedError

    def reliability(self, data: TrainingData) -> float:
        """Probability that the expert is informative; below 0.5 it is not compared with other experts."""
        return 1.0

    def fit(self, data: TrainingData) -> dict[str, np.ndarray]:
        """Fit on the training data; return float32 arrays by name."""
        return {}

    def learn_from_posterior(
        self, data: TrainingData, learned: dict[str, np.ndarray], posterior: np.ndarray
    ) -> dict[str, np.ndarray]:
        """Learn from the label distributions of all texts ``(N, C)`` after self-training; return the arrays.

        Only with one label per text. By default, the arrays of ``fit`` stay.
        """
        return learned

    def score(self, learned: Mapping[str, np.ndarray], features: Features) -> np.ndarray:
        """Return logits ``(N, C)``; log odds if a text may have several labels."""
        raise NotImplementedError

    def arrays(self, sizes: Sizes) -> dict[str, ArraySpec]:
        """Shape and range of each array that ``fit`` returns; saved folders are checked against them."""
        return {}

    def saved_name(self, array: str) -> str:
        """Name of an array in a saved folder."""
        return self.saved_names.get(array, f"{self.name}.{array}")

    def word_contributions(
        self, learned: Mapping[str, np.ndarray], weight: float, words: sp.csr_matrix, label: int, against: int | None
    ) -> np.ndarray | None:
        """Contribution of each word of one text ``(1, V)`` to the weighted logit of a label, less that of ``against``.

        None if the logits are no sums over words.
        """
        return None

    def word_regression(self, learned: Mapping[str, np.ndarray]) -> np.ndarray | None:
        """Weights of ``fit_vocabulary``, if the expert has them; the baseline ``WORD_REGRESSION`` then reuses them."""
        return None
