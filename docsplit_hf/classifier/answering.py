"""From texts to answers: what the pipeline and a classifier without torch share."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..arrays.duplicates import rows_of_texts
from ..arrays.passages import Predictions
from ..arrays.snapshot import Snapshot
from ..fitting.ensemble.content import have_no_content, warn_of_no_content
from ..fitting.ensemble.predicting import predict_with_experts
from ..fitting.ensemble.scoring import PreparedExperts
from ..fitting.interpolation import predict_with_neighbors
from ..fitting.prediction import CallOptions, Prediction, TextInputs, with_unreadable
from ..reading.files.failures import FailedFile
from ..reading.inputs import InputRow, joined_texts, read_inputs, rows_of
from ..reading.origins import Origin
from .call_options import check_label_sets, check_method, check_rejection

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


@dataclass(frozen=True)
class Answering:
    """Answers texts from a datastore, for the options of one call.

    Args:
        take_snapshot: Returns the present state of the datastore; raises if it has no examples.
        prepare_experts: Returns the experts that were fitted on a snapshot, or None.
        embed: Embeds texts and their pairs.
        vote: How neighbors vote where no experts answer.
        options: The options of the call.
        can_reuse: Whether stored embeddings of documents equal those of this call.
    """

    take_snapshot: Callable[[], Snapshot]
    prepare_experts: Callable[[Snapshot], PreparedExperts | None]
    embed: Callable[[Sequence[str], Sequence[str | None]], Predictions]
    vote: NeighborVote
    options: CallOptions
    can_reuse: bool = False

    def answers(self, stream: Iterator[Any], total: int | None, first_size: int | None = None) -> Iterator[Any]:
        """Answer a stream of ``total`` texts and files, at first ``first_size`` together; None: as many as possible."""
        from tqdm.auto import tqdm

        show_progress = self.options.get("show_progress", False)
        most = PROGRESS_WINDOW_TEXTS if show_progress else WINDOW_TEXTS
        size = WINDOW_TEXTS if first_size is None else min(first_size, WINDOW_TEXTS)
        done = 0
        self._check(self.take_snapshot())  # before files are read, which may take minutes
        # With fewer texts the embedder's own bar suffices.
        is_shown = show_progress and (total is None or total > PROGRESS_WINDOW_TEXTS)
        with (
            closing(read_inputs(stream)) as inputs,
            tqdm(total=total, desc="Classifying", unit="text", disable=not is_shown) as progress,
        ):
            while window := _next_inputs(inputs, min(size, most)):
                snapshot = self.take_snapshot()  # the datastore may have changed since the last window
                answers = self._answers_to(rows_of(window), snapshot, done)
                yield from with_unreadable(window, answers, best_only="top_k" not in self.options)
                progress.update(len(window))
                done += len(window)
                size = min(2 * size, WINDOW_TEXTS)

    def _answers_to(self, rows: list[InputRow], snapshot: Snapshot, done: int) -> list[Any]:
        """Answer the texts of a window; ``done``: the number of inputs before it."""
        if not rows:
            return []
        texts = [row.text for row in rows]
        pairs = [row.pair for row in rows]
        if snapshot.fitted is not None and self.can_reuse:
            embedded = self._embed_or_reuse(snapshot, texts, pairs)
        else:
            embedded = self.embed(texts, pairs)
        joined = joined_texts(texts, pairs)
        if snapshot.fitted is not None and "reject" not in self.options:
            warn_of_no_content(have_no_content(snapshot, joined), joined, done)
        origins = [row.origin for row in rows]
        prediction = self._predict(snapshot, joined, embedded, origins)
        return [prediction.answer(row) for row in range(len(rows))]

    def predict_embedded(self, embedded: Predictions, texts: list[str]) -> Prediction:
        """Predict texts that were embedded before."""
        snapshot = self.take_snapshot()
        self._check(snapshot)
        return self._predict(snapshot, texts, embedded, origins=None)

    def _check(self, snapshot: Snapshot) -> None:
        """Check options that depend on what was fitted."""
        options = self.options
        experts = self.prepare_experts(snapshot)
        check_method(options, experts)
        if "reject" in options:
            check_rejection(options, experts)
        if "labels_at" in options:
            check_label_sets(options, experts, snapshot.label_names)

    def _predict(
        self, snapshot: Snapshot, texts: list[str], embedded: Predictions, origins: list[Origin | None] | None
    ) -> Prediction:
        """Predict with the fitted experts; otherwise, or with ``method="knn"``, with head and neighbors."""
        options = self.options
        experts = None if options.get("method") == "knn" else self.prepare_experts(snapshot)
        documents = None
        if wanted := options.get("return_documents"):
            if not snapshot.document_count:
                raise ValueError(f"return_documents={wanted}: there are no documents without labels.")
            documents = snapshot.documents.search(embedded.retrieval_embeddings, wanted, embedded.passages)
        inputs = TextInputs(texts=texts, embedded=embedded, documents=documents, origins=origins)
        if experts is not None:
            return predict_with_experts(experts, inputs, options)
        if any(options.get(name) for name in ("explain", "return_novelty", "reject", "labels_at")):
            raise ValueError(
                "Only fitted experts can explain, measure novelty, reject, and choose sets of labels: call fit(), and "
                "leave out method='knn'. A trained classifier is fitted on held-out texts: fit(texts, labels)."
            )
        k = options.get("k", self.vote.k)
        return predict_with_neighbors(inputs, snapshot, options, k, self.vote.temperature, self.vote.weight)

    def _embed_or_reuse(
        self, snapshot: Snapshot, texts: Sequence[str], text_pairs: Sequence[str | None]
    ) -> Predictions:
        """Embed N texts by an encoder without a head; texts among the documents keep their stored embeddings."""
        documents = snapshot.documents
        if documents is None or len(documents.keys) > MAX_DOCUMENTS_PER_TEXT * len(texts):
            return self.embed(texts, text_pairs)
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
