"""Base class of the ensemble members (experts), and their inputs. ``ALL_EXPERTS`` in ``registry.py`` lists them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from .log_linear_pool import expit, log_softmax

if TYPE_CHECKING:
    import scipy.sparse as sp

    from ...reading.versions import VersionPairs
    from .saved_types import Array
    from .text_vectors import DocumentVectors, WordRows


class Guess(NamedTuple):
    """Source of labels that needs no examples: label names, or a teacher."""

    vectors: np.ndarray  # float32: embeddings of the label names (C, H), or the teacher's probe (C, D + 1)
    log_likelihoods: np.ndarray  # (n,): of the label of each example, by logits with a standard deviation of 1
    prior_evidence: float = 0.0  # log odds that it predicts the labels, before the examples are compared

    def reliability(self, is_text: np.ndarray, labels: int) -> float:
        """Probability that it predicts the labels better than chance; examples that are not ``is_text`` are ignored."""
        likelihoods = self.log_likelihoods[is_text]
        return float(expit(float(likelihoods.sum() + len(likelihoods) * np.log(labels)) + self.prior_evidence))


def log_likelihoods_by(scores: np.ndarray, rows: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Log likelihoods of the examples at ``rows`` ``(n,)``, of ``targets`` ``(n, C)``, by scores ``(N, C)`` of all."""
    scale = max(np.sqrt(np.square(scores - scores.mean(1, keepdims=True)).mean()), 1e-9)
    return log_softmax(scores[rows] / scale, axis=1)[targets > 0]


class Corpus(NamedTuple):
    """N texts in a canonical order; n of them are examples."""

    rows: np.ndarray  # int64 (n,): places of the examples, in their own order
    documents: np.ndarray  # int64 (m,): places of the documents; -1 if left out
    contents: np.ndarray  # int64 (N,): hashes of each text and its key
    ids: np.ndarray  # int64 (N,): hashes of each id and key in the datastore
    terms: Sequence[str]  # (V,); none if no texts are kept, or they have no words
    idf: np.ndarray  # (V,)
    words: sp.csr_matrix | None  # TF-IDF (N, V); None without terms
    document_vectors: DocumentVectors
    vectors: np.ndarray  # (N, D + r), of norm 1
    whitened: np.ndarray  # (N, D + r), of norm 1
    graph: sp.csr_array  # (N, N)
    text_numbers: np.ndarray  # int64 (N,): equal for equal texts
    first_places: np.ndarray  # int64 (T,): of the first copy of each different text
    versions: VersionPairs  # pairs of these numbers, of texts that share much
    same: sp.csr_array  # float32 (T, T) by these numbers: 1 for versions that share much, or are close; 0 for others
    sample: np.ndarray  # int64 (s,): places of documents on which experts are compared without labels
    described: np.ndarray  # int64: places of the examples, of their versions and of this sample, ascending
    style: np.ndarray  # float32 (N, S): how these are written; 0 for other texts

    def sampled_documents(self) -> np.ndarray:
        """Rows of the sample among the documents, in the order of the corpus."""
        rows = np.argsort(self.documents, kind="stable")
        return rows[np.isin(self.documents[rows], self.sample)]


class TrainingData(NamedTuple):
    """N texts that experts are fitted on; n of them are examples with labels."""

    corpus: Corpus
    experts: list[str]  # names of the experts
    rows: np.ndarray  # int64 (n,): places of the examples in the corpus
    compared: Corpus | None  # with the documents that were left out, among which few examples have versions
    compared_rows: np.ndarray  # int64 (n,): places of the examples in it
    targets: np.ndarray  # (n, C), 0 or 1
    is_text: np.ndarray  # bool (n,): False for examples that are descriptions of labels
    multi_label: bool  # whether a text may have several labels
    has_head: bool  # whether a trained classification head also gives logits
    example_weight: float  # of an example when experts are fitted; that of a document is 1
    proportions: np.ndarray | None  # (C,): of the labels among all texts; None: estimate them
    misleading_versions: float  # fraction of texts that are versions; 0 if examples show that these agree
    names: Guess | None  # the label names, if the encoder embedded them
    teacher: Guess | None  # a teacher's answers
    soft_labels: np.ndarray  # (N, C): current estimate of the label distribution of each text
    centers: np.ndarray  # (C, D): label centroids by soft_labels; (C, 0) before the first estimate

    def of(self, chosen: np.ndarray) -> TrainingData:
        """The same with some of the examples, int64 ``(k,)``; the others count as documents."""
        names = self.names and self.names._replace(log_likelihoods=self.names.log_likelihoods[chosen])
        teacher = self.teacher and self.teacher._replace(log_likelihoods=self.teacher.log_likelihoods[chosen])
        return self._replace(
            rows=self.rows[chosen],
            targets=self.targets[chosen],
            is_text=self.is_text[chosen],
            compared_rows=self.compared_rows[chosen],
            names=names,
            teacher=teacher,
        )

    @property
    def text_weights(self) -> np.ndarray:
        """Weight of each text when experts are fitted, float32 ``(N,)``."""
        weights = np.ones(len(self.corpus.vectors), np.float32)
        weights[self.rows] = self.example_weight
        return weights

    @property
    def has_documents(self) -> bool:
        """Whether there are texts without labels."""
        return len(self.corpus.ids) > len(self.rows)

    @property
    def has_many_documents(self) -> bool:
        """Whether texts without labels outnumber the examples."""
        return len(self.corpus.ids) > 2 * len(self.rows)

    def differences(self, values: np.ndarray, typical: np.ndarray | float) -> np.ndarray:
        """Differences of the examples' values from the mean of their versions, or else from typical ones, ``(n, F)``.

        Versions are about the same, so only what tells them apart can show different labels. ``values``: ``(N, F)``, of
        the compared texts.
        """
        own = values[self.compared_rows]
        versions = self.compared.same[self.compared.text_numbers[self.compared_rows]]
        counts = np.diff(versions.indptr)[:, None]
        mean = (own + versions @ values[self.compared.first_places]) / np.float32(1 + counts)
        return own - np.where(counts > 0, mean, typical)

    def reliability(self, guess: Guess | None) -> float:
        """Probability that label names, or a teacher, predict the labels, given the examples; 0 without them."""
        return 0.0 if guess is None else guess.reliability(self.is_text, self.targets.shape[1])


class Features(NamedTuple):
    """Features of N texts to be scored."""

    vectors: np.ndarray  # (N, D), of norm 1
    whitened: np.ndarray  # (N, D)
    words: sp.csr_matrix | WordRows | None  # TF-IDF (N, V)
    style: np.ndarray | None  # (N, S): how the texts are written; None if no expert reads it
    neighbor_label_proportions: np.ndarray  # (N, C): label proportions in the votes of the nearest neighbors
    head_logits: np.ndarray | None  # (N, C), of a trained classification head
    multi_label: bool


class Expert:
    """Member of the ensemble. Its fitted arrays are saved with the datastore.

    A subclass declares its requirements by flags, and implements ``prior`` and ``score``; if it has fitted arrays, also
    ``arrays`` and ``fit``.
    """

    name: ClassVar[str]
    needs_words: ClassVar[bool] = False  # requires a datastore that keeps texts
    needs_single_label: ClassVar[bool] = False  # requires one label per text
    needs_label_names: ClassVar[bool] = False  # requires embeddings of the label names
    needs_teacher: ClassVar[bool] = False  # requires a decision model's answers about documents
    uses_head: ClassVar[bool] = False  # returns the logits of a trained classification head, if there is one
    learns_from_documents: ClassVar[bool] = False  # is fitted again in each round of self-training
    joins_self_training: ClassVar[bool] = True  # the experts also learn from its predictions
    reads_style: ClassVar[bool] = False  # requires the numbers of ``style_expert.py``
    arrays: ClassVar[Mapping[str, Array]] = {}  # that ``fit`` returns; saved folders are checked against them

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

    def saved_arrays(self, has_head: bool) -> Mapping[str, Array]:
        """The arrays; none of an expert that returns the logits of a head."""
        return {} if self.uses_head and has_head else self.arrays

    def word_contributions(
        self, learned: Mapping[str, np.ndarray], weight: float, words: WordRows, label: int, against: int | None
    ) -> np.ndarray | None:
        """Contribution of each word of one text ``(1, V)`` to the weighted logit of a label, less that of ``against``.

        None if the logits are no sums over words.
        """
        return None

    def described(
        self, learned: Mapping[str, np.ndarray], style: np.ndarray, label: int, against: int | None
    ) -> list[str]:
        """Describe what speaks for a label in how a text is written, ``(S,)``; nothing if the expert does not read it.

        The label is compared with ``against``; None: with all texts.
        """
        return []
