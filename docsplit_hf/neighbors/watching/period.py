"""Period: what is measured of the texts of one period, of new ones and of those that the store has."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..experts.corpus import id_numbers, rows_of, texts_in
from ..experts.document_vectors import unit
from ..experts.fitted_experts import ask_experts
from ..rejection.familiarity import closeness, familiarity

if TYPE_CHECKING:
    from ..experts.fitted_experts import ReadyExperts
    from .known_words import KnownWords

MOST_OF_STORE = 2_000  # of its texts stand for it: the difference of means hardly gets more certain with more


class Period(NamedTuple):
    """What is measured of n texts, each ``(n,)``; of no texts where it is not known."""

    probabilities: np.ndarray  # (n, L), over all labels of the datastore
    closeness: np.ndarray  # the mean cosine of the 5 nearest examples
    novelty: np.ndarray
    unknown_words: np.ndarray  # the share of the words of a text that no text of the store has

    @classmethod
    def joined(cls, parts: list[Period]) -> Period:
        """One of several parts."""
        return cls(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def period_of(
    ready: ReadyExperts, known: KnownWords | None, embeddings: np.ndarray, texts: list[str], logits: np.ndarray | None
) -> Period:
    """Of embedded texts. One that the store has is measured as if it had not, or what is new could not be told."""
    answers = ask_experts(ready, embeddings, texts, logits, without_equal=True)
    near = closeness_to_others(ready, embeddings)
    familiar = familiarity(answers.probabilities, answers.shares, near)
    is_known = len(ready.fitted.held_out.ids) > 0
    novel = ready.fitted.novelty(familiar) if is_known else np.zeros(0)
    return Period(answers.probabilities, near, novel, _unknown(known, texts))


def period_of_examples(ready: ReadyExperts, known: KnownWords | None) -> Period:
    """Of those that were held out: what is said of them, and how near they are to the other examples.

    Not their novelty: in their folds there were fewer examples to be familiar from, so new texts would seem less novel.
    """
    snapshot, fitted, held_out = ready.snapshot, ready.fitted, ready.fitted.held_out
    probabilities = np.zeros((len(held_out.ids), len(snapshot.label_names)))
    probabilities[:, [snapshot.label_names.index(name) for name in fitted.labels]] = held_out.probabilities
    rows = sample(np.flatnonzero(np.isin(id_numbers(snapshot.rows, snapshot.keys), held_out.ids)))
    near, texts = closeness_to_others(ready, snapshot.keys[rows]), texts_in(rows_of(snapshot.rows, rows))
    return Period(probabilities, near, np.zeros(0), _unknown(known, texts))


def closeness_to_others(ready: ReadyExperts, embeddings: np.ndarray) -> np.ndarray:
    """The mean cosine of the 5 nearest examples, ``(Q,)``, of which a text itself, or a copy, is none."""
    mean, keys = ready.fitted.document_vectors.mean, ready.snapshot.keys
    embeddings = embeddings.astype(keys.dtype, copy=False)  # or a text would not be equal to itself in half precision
    queries, examples = (unit(vectors.astype(np.float32, copy=False) - mean) for vectors in (embeddings, keys))
    return closeness(queries, examples, without_equal=True)


def sample(rows: np.ndarray) -> np.ndarray:
    """At most 2,000 of some rows, in order; always the same."""
    return np.sort(np.random.default_rng(0).permutation(rows)[:MOST_OF_STORE])


def _unknown(known: KnownWords | None, texts: list[str]) -> np.ndarray:
    return np.array([] if known is None else [known.unknown(text)[0] for text in texts])
