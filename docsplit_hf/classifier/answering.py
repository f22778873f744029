"""From texts to answers: what the pipeline and a classifier without torch share."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from ..arrays.duplicates import rows_of_texts
from ..arrays.passages import Predictions
from ..fitting.ensemble.content import have_no_content, warn_of_no_content
from ..fitting.ensemble.predicting import predict_with_experts
from ..fitting.interpolation import predict_with_neighbors
from ..fitting.prediction import RequestedParts, make_answer, text_inputs, with_unreadable
from ..reading.inputs import InputRow, joined_texts, read_inputs, rows_of
from .call_options import check_label_sets, check_method, check_rejection

if TYPE_CHECKING:
    from ..arrays.store import Store, View
    from ..fitting.ensemble.scoring import PreparedExperts
    from ..fitting.prediction import Prediction
    from ..reading.files.failures import FailedFile
    from ..reading.origins import Origin
    from .call_options import CallOptions

Result = TypeVar("Result")

logger = logging.getLogger(__name__)

ATTEMPTS = 3  # to read one state of a store while others change it
WINDOW_TEXTS = 1024  # the most texts that are read together
PROGRESS_WINDOW_TEXTS = 256  # the most with a progress bar, so that it moves
WINDOW_CHARACTERS = 2**24  # of all texts in a window, to bound memory
# Above this many documents per text, looking texts up is slower than embedding them.
MAX_DOCUMENTS_PER_TEXT = 100


class NeighborVote(NamedTuple):
    """How neighbors are mixed with the head where no experts answer (equation 3)."""

    k: int = 64
    temperature: float = 10.0
    weight: float = 0.5


class PredictedTexts(NamedTuple):
    """Predictions of N texts, and the options that their answers are made with."""

    prediction: Prediction
    shown: RequestedParts
    options: CallOptions

    def answer(self, row: int) -> Any:
        """Make the answer to one text: a dictionary, or a list of them with ``top_k``."""
        return make_answer(
            self.prediction,
            row,
            top_k=self.options.get("top_k"),
            shown=self.shown,
            best_only="top_k" not in self.options,
        )


@dataclass(frozen=True)
class Answering:
    """Answers texts from a store, for the options of one call.

    Args:
        open_store: Returns the store with the examples; raises if it has none.
        prepare_experts: Returns the experts that were fitted on a view, or None.
        embed: Embeds texts and their pairs.
        vote: How neighbors vote where no experts answer.
        options: The options of the call.
        can_reuse: Whether stored embeddings of documents equal those of this call.
    """

    open_store: Callable[[], Store]
    prepare_experts: Callable[[View], PreparedExperts | None]
    embed: Callable[[Sequence[str], Sequence[str | None]], Predictions]
    vote: NeighborVote
    options: CallOptions
    can_reuse: bool = False

    def answers(self, stream: Iterator[Any], total: int | None, first_size: int | None = None) -> Iterator[Any]:
        """Answer a stream of ``total`` texts and files, at first ``first_size`` together; None: as many as possible."""
        from tqdm.auto import tqdm

        store = self.open_store()
        view = store.view()
        shown = self.checked_parts(view)
        show_progress = self.options.get("show_progress", False)
        most = PROGRESS_WINDOW_TEXTS if show_progress else WINDOW_TEXTS
        size = WINDOW_TEXTS if first_size is None else min(first_size, WINDOW_TEXTS)
        done = 0
        # With fewer texts the embedder's own bar suffices.
        is_shown = show_progress and (total is None or total > PROGRESS_WINDOW_TEXTS)
        with (
            closing(read_inputs(stream)) as inputs,
            tqdm(total=total, desc="Classifying", unit="text", disable=not is_shown) as progress,
        ):
            while window := _next_inputs(inputs, min(size, most)):
                if done:  # the store may have changed since the last window
                    store = self.open_store()
                    view = store.view()
                answers = self._answers_to(rows_of(window), store, view, shown, done)
                yield from with_unreadable(window, answers, best_only="top_k" not in self.options)
                progress.update(len(window))
                done += len(window)
                size = min(2 * size, WINDOW_TEXTS)

    def _answers_to(
        self, rows: list[InputRow], store: Store, view: View, shown: RequestedParts, done: int
    ) -> list[Any]:
        """Answer the texts of a window; ``done``: the number of inputs before it."""
        if not rows:
            return []
        texts = [row.text for row in rows]
        pairs = [row.pair for row in rows]
        if view.fitted is not None and self.can_reuse:
            embedded = self._embed_or_reuse(view, texts, pairs)
        else:
            embedded = self.embed(texts, pairs)
        joined = joined_texts(texts, pairs)
        if view.fitted is not None and "reject" not in self.options:
            warn_of_no_content(have_no_content(view, joined), joined, done)
        origins = [row.origin for row in rows]
        predict = partial(self.predict, embedded=embedded, texts=joined, origins=origins, shown=shown)
        predicted = read_consistently(store, view, predict)
        return [predicted.answer(row) for row in range(len(rows))]

    def checked_parts(self, view: View) -> RequestedParts:
        """Check options that depend on what was fitted, and return the parts of an answer that they request."""
        options = self.options
        experts = self.prepare_experts(view)
        check_method(options, experts)
        if "reject" in options:
            check_rejection(options, experts)
        if "labels_at" in options:
            check_label_sets(options, experts, view.label_names)
        return RequestedParts(
            neighbors=options.get("return_neighbors", 0),
            documents=options.get("return_documents", 0),
            explanation=options.get("explain", False),
            novelty=options.get("return_novelty", False),
            read=options.get("return_read", False),
        )

    def predict(
        self,
        view: View,
        embedded: Predictions,
        texts: list[str],
        origins: list[Origin | None] | None,
        shown: RequestedParts,
    ) -> PredictedTexts:
        """Predict with the fitted experts; otherwise, or with ``method="knn"``, with head and neighbors."""
        options = self.options
        limits = options.get("reject")
        labels_at = options.get("labels_at")
        experts = None if options.get("method") == "knn" else self.prepare_experts(view)
        inputs = text_inputs(texts, embedded, view, shown, origins)
        if experts is not None:
            prediction = predict_with_experts(experts, inputs, shown, limits, labels_at)
            return PredictedTexts(prediction, shown, options)
        if shown.explanation or shown.novelty or limits is not None or labels_at is not None:
            raise ValueError(
                "Only fitted experts can explain, measure novelty, reject, and choose sets of labels: call fit(), and "
                "leave out method='knn'. A trained classifier is fitted on held-out texts: fit(texts, labels)."
            )
        k = options.get("k", self.vote.k)
        prediction = predict_with_neighbors(inputs, view, k, self.vote.temperature, self.vote.weight, shown)
        return PredictedTexts(prediction, shown, options)

    def _embed_or_reuse(self, view: View, texts: Sequence[str], text_pairs: Sequence[str | None]) -> Predictions:
        """Embed N texts by an encoder without a head; texts among the documents keep their stored embeddings."""
        if not 0 < view.count("documents") <= MAX_DOCUMENTS_PER_TEXT * len(texts):
            return self.embed(texts, text_pairs)
        documents = view.get(texts, text_pairs).documents
        rows = rows_of_texts(documents.rows, texts, text_pairs)
        is_stored = rows >= 0
        if not is_stored.any():
            return self.embed(texts, text_pairs)
        embeddings = np.empty((len(texts), documents.keys.shape[1]), dtype=np.float32)
        embeddings[is_stored] = documents.keys[rows[is_stored]]
        new = np.flatnonzero(~is_stored)
        if len(new):
            embedded = self.embed([texts[i] for i in new], [text_pairs[i] for i in new])
            embeddings[new] = embedded.retrieval_embeddings
        return Predictions(logits=np.empty((len(texts), 0), dtype=np.float32), retrieval_embeddings=embeddings)


def read_consistently(store: Store, view: View, read: Callable[[View], Result]) -> Result:
    """Read from a view; if the store has changed meanwhile, read again from a new one, at most three times."""
    result = read(view)
    for _ in range(ATTEMPTS - 1):
        if view.is_current():
            return result
        view = store.view()
        result = read(view)
    if not view.is_current():
        logger.warning("%r changed each of %d times that it was read: the results may mix two states.", store, ATTEMPTS)
    return result


def _next_inputs(given: Iterator[InputRow | FailedFile], max_inputs: int) -> list[InputRow | FailedFile]:
    """The next ``max_inputs`` inputs; fewer if they are long, so that memory is bounded."""
    inputs = []
    characters = 0
    for one in itertools.islice(given, max_inputs):
        inputs.append(one)
        if isinstance(one, InputRow):
            characters += len(one.text) + len(one.pair or "")
        if characters >= WINDOW_CHARACTERS:
            break
    return inputs
