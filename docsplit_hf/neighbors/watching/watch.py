"""Watching: texts of a period through the encoder and the experts, once, and the report on them."""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from tqdm.auto import tqdm

from ...models.inference.batched_inference import Predictions, predict
from ..experts.corpus import rows_of
from ..rejection.answer_level import check_error
from ..rejection.familiarity import confidence
from ..store.row_table import joined_texts
from ..texts_and_labels import as_list, texts_and_pairs
from .change import Change, change_of
from .period import Period, period_of, period_of_examples, sample
from .watch_report import MEASURES, WatchReport

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from ...models.portable.modeling_knn_classifier import KNNClassifier
    from ..experts.fitted_experts import ReadyExperts
    from .known_words import KnownWords

WINDOW = 1024  # texts at a time, so that memory is bounded by what is kept of each
MOST_NEW_WORDS, MOST_NOVEL = 20, 5


class Watcher(NamedTuple):
    """What texts are asked of, of one moment."""

    model: KNNClassifier
    tokenizer: PreTrainedTokenizerBase
    ready: ReadyExperts
    known: KnownWords | None
    options: dict[str, Any]  # of predict

    def embed(self, texts: list[str], pairs: list[str | None]) -> Predictions:
        """Embeddings, and logits where there is a head."""
        return predict(self.model, self.tokenizer, texts, pairs, **self.options)

    def measure(self, predictions: Predictions, texts: list[str]) -> Period:
        """What is measured of embedded texts."""
        logits = predictions.logits if self.model.config.num_labels else None
        return period_of(self.ready, self.known, predictions.retrieval_embeddings, texts, logits)


class Novel(NamedTuple):
    """A text that is among the most novel so far; with what its entry in the report needs."""

    novelty: float
    row: int
    text: str
    text_pair: str | None
    embedding: np.ndarray  # (D,)
    probabilities: np.ndarray  # (L,)


class Reading(NamedTuple):
    """What was read of one period."""

    period: Period
    empty: int
    new_words: Counter[str]
    novel: list[Novel]  # the most novel first


def watch(watcher: Watcher, texts: Any, earlier: Any, reject: float, show_progress: bool) -> WatchReport:
    """Report as ``KNNClassifierPipeline.report`` says."""
    check_error(reject)
    ready, fitted = watcher.ready, watcher.ready.fitted
    now = _read(watcher, texts, "texts", show_progress)
    if earlier is not None:
        then, against = _read(watcher, earlier, "earlier texts", show_progress).period, "texts of an earlier period"
    elif (documents := _documents(watcher)) is not None:
        then, against = documents, "documents without labels"
    else:
        then, against = period_of_examples(ready, watcher.known), "held-out examples"
    level, rejected = None, None
    if not fitted.several and len(fitted.held_out.ids):
        level = fitted.answer_level(reject)
        sure = confidence(now.period.probabilities, now.period.novelty)
        # No interval: in folds there were fewer examples to be sure from.
        rejected = Change(float(np.mean(sure < level)), 1 - fitted.share_answered(reject))
    answered = [_answered(ready, period.probabilities) for period in (now.period, then)]
    return WatchReport(
        texts=len(now.period.closeness),
        empty=now.empty,
        against=against,
        earlier=len(then.probabilities),
        reject=reject,
        level=level,
        rejected=rejected,
        labels={name: change_of(*(a[:, i] for a in answered)) for i, name in enumerate(ready.snapshot.label_names)},
        drift={name: change_of(getattr(now.period, name), getattr(then, name)) for name in MEASURES},
        new_words=dict(sorted(now.new_words.items(), key=lambda item: (-item[1], item[0]))[:MOST_NEW_WORDS]),
        most_novel=_shown(ready, now.novel),
    )


def _read(watcher: Watcher, given: Any, what: str, show_progress: bool) -> Reading:
    """Embed and measure the texts of a period, 1,024 at a time, without the empty ones."""
    if isinstance(given, (str, Path, dict)):
        raise TypeError(f"Expected a list of {what}, got {str(given)[:60]!r}: pass [text].")
    given = as_list(given)
    stream, total = iter(given), len(given) if hasattr(given, "__len__") else None
    parts, count, words, novel = [], 0, Counter(), []
    with tqdm(total=total, desc=f"Reading {what}", unit="text", disable=not show_progress) as progress:
        while window := list(itertools.islice(stream, WINDOW)):
            texts, pairs = texts_and_pairs(window, count)
            rows = [i for i, text in enumerate(texts) if text.strip()]
            count += len(window)
            if rows:
                texts, pairs = [texts[i] for i in rows], [pairs[i] for i in rows]
                predictions, joined = watcher.embed(texts, pairs), joined_texts(texts, pairs)
                part = watcher.measure(predictions, joined)
                numbers = (count - len(window) + i for i in rows)
                columns = (part.novelty.tolist(), numbers, texts, pairs)
                columns += (predictions.retrieval_embeddings, part.probabilities)
                # Of no held-out texts, nothing is known to be novel: there are no columns then.
                different = {text.text: text for text in (*map(Novel, *columns), *novel)}.values()
                novel = heapq.nlargest(MOST_NOVEL, different, key=lambda n: (n.novelty, -n.row))
                if watcher.known is not None:
                    words.update(word for text in joined for word in watcher.known.unknown(text)[1])
                parts.append(part)
            progress.update(len(window))
    if not parts:
        raise ValueError(f"All {count} {what} are empty." if count else f"There are no {what}: nothing came in.")
    period = Period.joined(parts)
    return Reading(period, count - len(period.closeness), words, novel)


def _documents(watcher: Watcher) -> Period | None:
    """Of a sample of the documents without labels; only a head has to see them again, and cannot without texts."""
    documents, has_head = watcher.ready.snapshot.documents, watcher.model.config.num_labels > 0
    if documents is None or not len(documents.keys):
        return None
    rows = sample(np.arange(len(documents.keys)))
    table = rows_of(documents.rows, rows)
    texts, pairs = table["text"].to_pylist(), table["text_pair"].to_pylist()
    if has_head and None in texts:
        return None
    no_logits = np.zeros((len(rows), 0), np.float32)
    predictions = watcher.embed(texts, pairs) if has_head else Predictions(no_logits, documents.keys[rows])
    return watcher.measure(predictions, joined_texts(texts, pairs))


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
