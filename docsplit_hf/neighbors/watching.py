"""Watching: the texts of a period against what the store knows, measured once, and the report on them."""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from tqdm.auto import tqdm

from .experts.corpus import id_numbers, texts_in, unit
from .experts.fitted_experts import ask_experts
from .experts.words import words_of
from .rejection import check_error, closeness, confidence, familiarity
from .store.row_table import rows_at
from .texts_and_labels import as_list, joined_texts, texts_and_pairs
from .watch_report import MEASURES, Change, WatchReport, change_of

if TYPE_CHECKING:
    from ..models.inference.reader import Reader
    from .experts.fitted_experts import ReadyExperts
    from .store.snapshot import Snapshot

WINDOW = 1024  # texts at a time, so that memory is bounded by what is kept of each
MOST_OF_STORE = 2_000  # of its texts stand for it: the difference of means hardly gets more certain with more
MOST_NEW_WORDS, MOST_NOVEL = 20, 5


class KnownWords(NamedTuple):
    """The words of all texts of a store, examples and documents; the experts leave out rare ones."""

    texts_with: Counter[str]  # how many different texts have a word
    texts: set[str]

    def unknown(self, text: str) -> tuple[float, set[str]]:
        """The share of a text's running words that no other text has, and these words; 0 for a text without words."""
        words, own = words_of(text), int(text in self.texts)
        unknown = [word for word in words if self.texts_with[word] <= own]
        return len(unknown) / max(len(words), 1), set(unknown)


def known_words(snapshot: Snapshot) -> KnownWords | None:
    """The words of a store; None where it keeps no texts."""
    tables = [snapshot.rows] if snapshot.documents is None else [snapshot.rows, snapshot.documents.rows]
    texts = {text for table in tables for text in texts_in(table) if text}
    return KnownWords(Counter(word for text in texts for word in set(words_of(text))), texts) if texts else None


class Period(NamedTuple):
    """What is measured of n texts, each ``(n,)``; empty where it is not known."""

    probabilities: np.ndarray  # (n, L), over all labels of the datastore
    closeness: np.ndarray  # the mean cosine of the 5 nearest examples
    novelty: np.ndarray
    unknown_words: np.ndarray  # the share of the words of a text that no text of the store has


def period_of(
    ready: ReadyExperts, known: KnownWords | None, embeddings: np.ndarray, texts: list[str], logits: np.ndarray | None
) -> Period:
    """Measure embedded texts; one that the store has as if it had not, or nothing new could be told."""
    answers = ask_experts(ready, embeddings, texts, logits, without_equal=True)
    near = closeness_to_others(ready, embeddings)
    familiar = familiarity(answers.probabilities, answers.shares, near)
    novel = ready.fitted.novelty(familiar) if len(ready.fitted.held_out.ids) else np.zeros(0)
    return Period(answers.probabilities, near, novel, _unknown(known, texts))


def period_of_examples(ready: ReadyExperts, known: KnownWords | None) -> Period:
    """Measure the examples that were held out; not their novelty, as fewer examples were there in their folds."""
    snapshot, fitted, held_out = ready.snapshot, ready.fitted, ready.fitted.held_out
    probabilities = np.zeros((len(held_out.ids), len(snapshot.label_names)))
    probabilities[:, [snapshot.label_names.index(name) for name in fitted.labels]] = held_out.probabilities
    rows = sample(np.flatnonzero(np.isin(id_numbers(snapshot.rows, snapshot.keys), held_out.ids)))
    near, texts = closeness_to_others(ready, snapshot.keys[rows]), texts_in(rows_at(snapshot.rows, rows))
    return Period(probabilities, near, np.zeros(0), _unknown(known, texts))


def _period_of_documents(reader: Reader, ready: ReadyExperts, known: KnownWords | None) -> Period | None:
    """Measure a sample of the documents, if there are any; a head has to read their texts again."""
    documents, has_head = ready.snapshot.documents, reader.model.config.num_labels > 0
    if documents is None or not len(documents.keys):
        return None
    rows = sample(np.arange(len(documents.keys)))
    table = rows_at(documents.rows, rows)
    texts, pairs = table["text"].to_pylist(), table["text_pair"].to_pylist()
    if not has_head:
        return period_of(ready, known, documents.keys[rows], joined_texts(texts, pairs), None)
    if None in texts:
        return None
    read = reader.read(texts, pairs)
    return period_of(ready, known, read.retrieval_embeddings, joined_texts(texts, pairs), read.logits)


def closeness_to_others(ready: ReadyExperts, embeddings: np.ndarray) -> np.ndarray:
    """The mean cosine of the 5 nearest examples, ``(Q,)``, without the text itself and its copies."""
    mean, keys = ready.fitted.document_vectors.mean, ready.snapshot.keys
    embeddings = embeddings.astype(keys.dtype, copy=False)  # or a text would not be equal to itself in half precision
    queries, examples = (unit(vectors.astype(np.float32, copy=False) - mean) for vectors in (embeddings, keys))
    return closeness(queries, examples, without_equal=True)


def sample(rows: np.ndarray) -> np.ndarray:
    """At most 2,000 of some rows, in order; always the same."""
    return np.sort(np.random.default_rng(0).permutation(rows)[:MOST_OF_STORE])


def _unknown(known: KnownWords | None, texts: list[str]) -> np.ndarray:
    return np.array([] if known is None else [known.unknown(text)[0] for text in texts])


class Novel(NamedTuple):
    """A text that is among the most novel so far, its embedding ``(D,)``, and the probabilities ``(L,)``."""

    novelty: float
    row: int
    text: str
    text_pair: str | None
    embedding: np.ndarray
    probabilities: np.ndarray


def watch(
    reader: Reader, ready: ReadyExperts, texts: Any, earlier: Any, reject: float, show_progress: bool
) -> WatchReport:
    """Report as ``KNNClassifierPipeline.report`` says."""
    check_error(reject)
    fitted, known = ready.fitted, known_words(ready.snapshot)
    now, empty, new_words, novel = _read(reader, ready, known, texts, "texts", show_progress)
    if earlier is not None:
        then = _read(reader, ready, known, earlier, "earlier texts", show_progress)[0]
        against = "texts of an earlier period"
    elif (documents := _period_of_documents(reader, ready, known)) is not None:
        then, against = documents, "documents without labels"
    else:
        then, against = period_of_examples(ready, known), "held-out examples"
    level, rejected = None, None
    if not fitted.several and len(fitted.held_out.ids):
        level = fitted.answer_level(reject)
        sure = confidence(now.probabilities, now.novelty)
        # No interval: in folds there were fewer examples to be sure from.
        rejected = Change(float(np.mean(sure < level)), 1 - fitted.share_answered(reject))
    answered = [_answered(ready, period.probabilities) for period in (now, then)]
    return WatchReport(
        texts=len(now.closeness),
        empty=empty,
        against=against,
        earlier=len(then.probabilities),
        reject=reject,
        level=level,
        rejected=rejected,
        labels={name: change_of(*(a[:, i] for a in answered)) for i, name in enumerate(ready.snapshot.label_names)},
        drift={name: change_of(getattr(now, name), getattr(then, name)) for name in MEASURES},
        new_words=dict(sorted(new_words.items(), key=lambda item: (-item[1], item[0]))[:MOST_NEW_WORDS]),
        most_novel=_shown(ready, novel),
    )


def _read(
    reader: Reader, ready: ReadyExperts, known: KnownWords | None, given: Any, what: str, show_progress: bool
) -> tuple[Period, int, Counter[str], list[Novel]]:
    """Measure the texts of a period, count the empty ones and the new words, and find the most novel texts."""
    if isinstance(given, (str, Path, dict)):
        raise TypeError(f"Expected a list of {what}, got {str(given)[:60]!r}: pass [text].")
    given = as_list(given)
    stream, total = iter(given), len(given) if hasattr(given, "__len__") else None
    parts, count, words, novel = [], 0, Counter(), []
    with tqdm(total=total, desc=f"Reading {what}", unit="text", disable=not show_progress) as progress:
        while window := list(itertools.islice(stream, WINDOW)):
            texts, pairs = texts_and_pairs(window, count)
            rows = [i for i, text in enumerate(texts) if text.strip()]
            if rows:
                texts, pairs = [texts[i] for i in rows], [pairs[i] for i in rows]
                read, joined = reader.read(texts, pairs), joined_texts(texts, pairs)
                part = period_of(ready, known, read.retrieval_embeddings, joined, read.logits)
                columns = (part.novelty.tolist(), (count + i for i in rows), texts, pairs)
                columns += (read.retrieval_embeddings, part.probabilities)
                # Where the novelty is not known, map() gives none.
                different = {(text.text, text.text_pair): text for text in (*map(Novel, *columns), *novel)}.values()
                novel = heapq.nlargest(MOST_NOVEL, different, key=lambda n: (n.novelty, -n.row))
                if known is not None:
                    words.update(word for text in joined for word in known.unknown(text)[1])
                parts.append(part)
            count += len(window)
            progress.update(len(window))
    if not parts:
        raise ValueError(f"All {count} {what} are empty." if count else f"There are no {what}: nothing came in.")
    period = Period(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))
    return period, count - len(period.closeness), words, novel


def _answered(ready: ReadyExperts, probabilities: np.ndarray) -> np.ndarray:
    """Which labels texts are answered by, bool ``(n, L)``."""
    thresholds = ready.fitted.thresholds(ready.snapshot.label_names)
    if thresholds is not None:
        return probabilities >= thresholds
    return np.arange(probabilities.shape[1]) == probabilities.argmax(1)[:, None]


def _shown(ready: ReadyExperts, novel: list[Novel]) -> list[dict[str, Any]]:
    """The most novel texts with their answers and nearest examples."""
    if not novel:
        return []
    neighbors = ready.snapshot.search(np.stack([text.embedding for text in novel]), 1)
    names, shown = ready.snapshot.label_names, []
    for i, text in enumerate(novel):
        labels = [names[n] for n in np.flatnonzero(_answered(ready, text.probabilities[None])[0])]
        answer = {"labels": labels} if ready.fitted.several else {"label": labels[0]}
        entry = {"row": text.row, "text": text.text, "text_pair": text.text_pair, "novelty": text.novelty}
        shown.append({**entry, **answer, "score": float(text.probabilities.max()), "nearest": neighbors.example(i, 0)})
    return shown
