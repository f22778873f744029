"""Measurement of drift: texts of a period, compared with an earlier period or with the texts of the datastore."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from tqdm.auto import tqdm

from ...arrays.passages import Predictions
from ...arrays.row_table import rows_at
from ...arrays.snapshot import Snapshot
from ...reading.characters import words_of
from ...reading.inputs import as_list, joined_texts, texts_and_pairs
from ..ensemble.scoring import PreparedExperts, score_texts
from ..experts.corpus import id_numbers, texts_in
from ..experts.text_vectors import unit
from ..label_tree import NO_LEVEL
from ..rejection import check_error, closeness, familiarity
from .report import MEASURES, Change, DriftReport, mean_change

# From N texts and their pairs to embeddings and logits, as TextEmbedder.embed.
Embed: TypeAlias = "Callable[[Sequence[str], Sequence[str | None]], Predictions]"

TEXTS_PER_WINDOW = 1024  # texts read at a time, to bound memory
MAX_STORE_TEXTS = 2_000  # of the datastore; a larger sample barely narrows the intervals
MAX_NEW_WORDS = 20


class KnownWords(NamedTuple):
    """Words of all examples and documents of a datastore, including rare words that the experts ignore."""

    document_frequency: Counter[str]  # number of different texts with each word
    texts: set[str]  # of the datastore

    def unknown(self, text: str) -> tuple[float, set[str]]:
        """Fraction of the words of a text that no other text has (0 without words), and the set of these words."""
        words = words_of(text)
        own = int(text in self.texts)
        unknown = [word for word in words if self.document_frequency[word] <= own]
        return len(unknown) / max(len(words), 1), set(unknown)


def known_words(snapshot: Snapshot) -> KnownWords | None:
    """Collect the words of a datastore; None if it keeps no texts."""
    states = [state for state in (snapshot, snapshot.documents) if state is not None]
    texts = {text for state in states for text in texts_in(state.rows) if text}
    if not texts:
        return None
    return KnownWords(Counter(word for text in texts for word in set(words_of(text))), texts)


class DriftPeriod(NamedTuple):
    """Measures of n texts; an array is empty if its measure is unknown."""

    probabilities: np.ndarray  # (n, L), over all labels of the datastore
    closeness: np.ndarray  # (n,): mean cosine to the 5 nearest examples
    novelty: np.ndarray  # (n,), from 0 to 1
    unknown_words: np.ndarray  # (n,): fraction of the words of a text that no other text of the datastore has
    without_content: np.ndarray  # bool (n,)


def measure_period(
    ready: PreparedExperts,
    known: KnownWords | None,
    embeddings: np.ndarray,
    texts: list[str],
    logits: np.ndarray | None,
) -> DriftPeriod:
    """Measure n embedded texts; neighbors that are copies of a text are ignored, as they would hide novelty."""
    answers = score_texts(ready, embeddings, texts, logits, exclude_copies=True, with_closeness=True)
    near = closeness_to_others(ready, embeddings)
    familiar = familiarity(
        answers.probabilities, answers.neighbor_label_proportions, near, answers.closeness_to_documents
    )
    novelty = ready.fitted.guarantees.novelty(familiar) if len(ready.fitted.held_out.ids) else np.zeros(0)
    return DriftPeriod(
        probabilities=answers.probabilities,
        closeness=near,
        novelty=novelty,
        unknown_words=_unknown_fractions(known, texts),
        without_content=np.array([ready.content.is_missing(text) for text in texts], bool),
    )


def measure_examples(ready: PreparedExperts, known: KnownWords | None) -> DriftPeriod:
    """Measure the held-out examples, without novelty, since their folds had fewer examples to compare with."""
    snapshot = ready.snapshot
    held_out = ready.fitted.held_out
    probabilities = np.zeros((len(held_out.ids), len(snapshot.label_names)))
    probabilities[:, ready.ensemble.label_columns(snapshot.label_names)] = held_out.probabilities
    rows = sample(np.flatnonzero(np.isin(id_numbers(snapshot.rows, snapshot.keys), held_out.ids)))
    return DriftPeriod(
        probabilities=probabilities,
        closeness=closeness_to_others(ready, snapshot.keys[rows]),
        novelty=np.zeros(0),
        unknown_words=_unknown_fractions(known, texts_in(rows_at(snapshot.rows, rows))),
        without_content=np.zeros(0, bool),
    )


def _measure_documents(
    embed: Embed, has_head: bool, ready: PreparedExperts, known: KnownWords | None
) -> DriftPeriod | None:
    """Measure a sample of the documents.

    None if there are none, or if the model has a head and the texts are not stored (it cannot be run).
    """
    documents = ready.snapshot.documents
    if documents is None or not len(documents.keys):
        return None
    rows = sample(np.arange(len(documents.keys)))
    table = rows_at(documents.rows, rows)
    texts = table["text"].to_pylist()
    pairs = table["text_pair"].to_pylist()
    if has_head and None in texts:
        return None
    read = embed(texts, pairs) if has_head else Predictions(np.zeros((len(rows), 0), np.float32), documents.keys[rows])
    return measure_period(ready, known, read.retrieval_embeddings, joined_texts(texts, pairs), read.logits)


def closeness_to_others(ready: PreparedExperts, embeddings: np.ndarray) -> np.ndarray:
    """Mean cosine to the 5 nearest examples, ``(Q,)``, without the text itself and its copies."""
    mean = ready.fitted.ensemble.document_vectors.mean
    keys = ready.snapshot.keys
    embeddings = embeddings.astype(keys.dtype, copy=False)  # otherwise a text differs from itself in half precision
    queries = unit(embeddings.astype(np.float32, copy=False) - mean)
    examples = unit(keys.astype(np.float32, copy=False) - mean)
    return closeness(queries, examples, exclude_copies=True)


def sample(rows: np.ndarray) -> np.ndarray:
    """Sample at most 2,000 rows, always the same ones, in ascending order."""
    return np.sort(np.random.default_rng(0).permutation(rows)[:MAX_STORE_TEXTS])


def _unknown_fractions(known: KnownWords | None, texts: list[str]) -> np.ndarray:
    return np.array([] if known is None else [known.unknown(text)[0] for text in texts])


def measure_drift(
    embed: Embed,
    has_head: bool,
    ready: PreparedExperts,
    texts: Any,
    earlier: Any,
    reject: float,
    show_progress: bool,
) -> DriftReport:
    """Measure the drift of texts, as ``KNNClassifierPipeline.measure_drift`` describes."""
    check_error(reject)
    known = known_words(ready.snapshot)
    current, empty, new_words = _measure(embed, ready, known, texts, "texts", show_progress)
    reference: DriftPeriod | None
    if earlier is not None:
        reference, _, _ = _measure(embed, ready, known, earlier, "earlier texts", show_progress)
        reference_name = "texts of an earlier period"
    else:
        reference = _measure_documents(embed, has_head, ready, known)
        reference_name = "documents without labels"
    if reference is None:
        reference = measure_examples(ready, known)
        reference_name = "held-out examples"
    threshold = None
    rejected = None
    if not ready.ensemble.multi_label and len(ready.fitted.held_out.ids):
        threshold = ready.fitted.guarantees.confidence_threshold(reject)
        rejected = _rejected(ready, current, reject)
    answered_current = _answered(ready, current.probabilities)
    answered_reference = _answered(ready, reference.probabilities)
    by_label = zip(ready.snapshot.label_names, answered_current.T, answered_reference.T, strict=True)
    frequent_first = sorted(new_words.items(), key=lambda item: (-item[1], item[0]))
    return DriftReport(
        texts=len(current.closeness),
        empty=empty,
        against=reference_name,
        earlier=len(reference.probabilities),
        reject=reject,
        level=threshold,
        rejected=rejected,
        labels={name: mean_change(now, then) for name, now, then in by_label},
        drift={name: mean_change(getattr(current, name), getattr(reference, name)) for name in MEASURES},
        new_words=dict(frequent_first[:MAX_NEW_WORDS]),
    )


def _rejected(ready: PreparedExperts, current: DriftPeriod, reject: float) -> Change:
    """Change of the fraction of rejected texts.

    No interval: confidences from cross-validation are biased low, so an interval would mislead.
    """
    guarantees = ready.fitted.guarantees
    tree = ready.fitted.tree_of(ready.snapshot.label_names)
    levels = guarantees.answered_levels(current.probabilities, current.novelty, reject, tree=tree)
    is_rejected = (levels == NO_LEVEL) | current.without_content
    return Change(now=float(np.mean(is_rejected)), then=1 - guarantees.answered_fraction(reject))


def _measure(
    embed: Embed, ready: PreparedExperts, known: KnownWords | None, given: Any, what: str, show_progress: bool
) -> tuple[DriftPeriod, int, Counter[str]]:
    """Measure the texts of a period, window by window; also the number of empty texts, and of texts by new word."""
    if isinstance(given, (str, Path, dict)):
        raise TypeError(f"Expected a list of {what}, got {str(given)[:60]!r}: pass [text].")
    given = as_list(given)
    stream = iter(given)
    total = len(given) if hasattr(given, "__len__") else None
    parts: list[DriftPeriod] = []
    count = 0
    new_words: Counter[str] = Counter()
    with tqdm(total=total, desc=f"Reading {what}", unit="text", disable=not show_progress) as progress:
        while window := list(itertools.islice(stream, TEXTS_PER_WINDOW)):
            texts, pairs = texts_and_pairs(window, count)
            rows = [row for row, text in enumerate(texts) if text.strip()]
            if rows:
                texts = [texts[row] for row in rows]
                pairs = [pairs[row] for row in rows]
                joined = joined_texts(texts, pairs)
                predictions = embed(texts, pairs)
                parts.append(measure_period(ready, known, predictions.retrieval_embeddings, joined, predictions.logits))
                for text in joined if known is not None else ():
                    new_words.update(known.unknown(text)[1])
            count += len(window)
            progress.update(len(window))
    if not parts:
        raise ValueError(f"All {count} {what} are empty." if count else f"There are no {what}: give at least one.")
    period = DriftPeriod(*(np.concatenate(values) for values in zip(*parts, strict=True)))
    return period, count - len(period.closeness), new_words


def _answered(ready: PreparedExperts, probabilities: np.ndarray) -> np.ndarray:
    """Whether each text is answered with each label, bool ``(n, L)``."""
    thresholds = ready.fitted.label_thresholds(ready.snapshot.label_names)
    if thresholds is not None:
        return probabilities >= thresholds
    return np.arange(probabilities.shape[1]) == probabilities.argmax(1)[:, None]
