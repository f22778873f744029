"""From texts to answers: what the pipeline and a classifier without torch share, with the options of a call."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from ..arrays.passages import Predictions
from ..arrays.snapshot import Snapshot, rows_of_texts
from ..fitting.ensemble.content import warn_of_no_content
from ..fitting.ensemble.guarantees import Guarantees
from ..fitting.ensemble.predicting import predict_with_experts
from ..fitting.ensemble.scoring import PreparedExperts
from ..fitting.interpolation import predict_with_neighbors
from ..fitting.label_sets import NO_LIMIT, check_level
from ..fitting.prediction import CallOptions, Prediction, ReadingOptions, TextInputs, with_unreadable
from ..fitting.rejection import HIGHEST_NOVELTY, RejectionLimits, min_held_out_texts
from ..reading.files.failures import FailedFile
from ..reading.inputs import InputRow, joined_texts, read_inputs
from ..reading.origins import Origin

logger = logging.getLogger(__name__)

WINDOW_TEXTS = 1024  # the most texts that are read together
PROGRESS_WINDOW_TEXTS = 256  # the most with a progress bar, so that it moves
WINDOW_CHARACTERS = 2**24  # of all texts in a window, to bound memory
# Above this many documents per text, looking texts up is slower than embedding them.
MAX_DOCUMENTS_PER_TEXT = 100

READING_OPTIONS = tuple(ReadingOptions.__annotations__)
METHODS = ("experts", "knn")
MINIMUMS = {
    "top_k": 1,
    "k": 1,
    "max_length": 1,
    "max_passages": 1,
    "return_neighbors": 0,
    "return_documents": 0,
}
FLAGS = ("explain", "return_novelty", "return_read", "show_progress")
IGNORED_OPTIONS = ("truncation", "padding")  # of other pipelines of transformers; accepted for compatibility
# What to write instead of options of earlier versions: of a call, and of the pipeline.
REMOVED = {
    "knn_temperature": "set pipe.model.config.knn_temperature",
    "knn_weight": "set pipe.model.config.knn_weight",
    "novelty": "write reject=RejectionLimits(0.05, novelty=0.05), from docsplit_hf",
    "reject_each_label": "write reject=RejectionLimits(0.05, each_label=True), from docsplit_hf",
    "reject_label": "a rejected text has the label None: write answer['label'] or 'unknown'",
    "max_tokens_per_batch": "batch_size limits the texts of a batch",
    "datastore_token": "open the datastore with its token, by KNNDatastore.from_pretrained",
    "packing": "it is chosen by the encoder",
    "calibration_texts": "call pipe.embedder.use_precision('int8', calibration_texts)",
    "backend": "precision='int8' is by OpenVINO, all else by torch",
}
# Instead of a collection of Milvus, by its address.
INSTEAD_OF_MILVUS = (
    "a datastore is a folder, which can be larger than the memory, and which several processes can read: write "
    "KNNDatastore.from_pretrained(folder, memory_map=True)"
)


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
                rows = [one for one in window if isinstance(one, InputRow)]
                answers = self._answers_to(rows, snapshot, done)
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
        embedded = self._embed_or_reuse(snapshot, texts, pairs)
        joined = joined_texts(texts, pairs)
        experts = self.prepare_experts(snapshot)
        if experts is not None and "reject" not in self.options:
            warn_of_no_content(experts.content, joined, done)
        prediction = self._predict(snapshot, joined, embedded, origins=[row.origin for row in rows])
        return [prediction.answer(row) for row in range(len(rows))]

    def predict_embedded(self, embedded: Predictions, texts: list[str]) -> Prediction:
        """Predict texts that were embedded before."""
        snapshot = self.take_snapshot()
        self._check(snapshot)
        return self._predict(snapshot, texts, embedded, origins=[None] * len(texts))

    def _check(self, snapshot: Snapshot) -> None:
        """Check options that depend on what was fitted."""
        options = self.options
        experts = self.prepare_experts(snapshot)
        if experts is None and options.get("method") == "experts":
            raise ValueError("method='experts': nothing was fitted, so call fit(), or leave method out.")
        if experts is not None and options.get("method") != "knn" and "k" in options:
            raise ValueError(
                f"k={options['k']} is for the vote of the nearest examples (equation 3), and after fit() the experts "
                "answer: pass method='knn' as well, or leave out k."
            )
        if "reject" in options:
            _check_rejection(options, experts)
        if "labels_at" in options:
            _check_label_sets(options, experts, snapshot.label_names)

    def _predict(
        self, snapshot: Snapshot, texts: list[str], embedded: Predictions, origins: list[Origin | None]
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
                "leave out method='knn'. A trained classifier is fitted on held-out texts: "
                "fit(held_out_texts=texts, held_out_labels=labels)."
            )
        k = options.get("k", self.vote.k)
        return predict_with_neighbors(inputs, snapshot, options, k, self.vote.temperature, self.vote.weight)

    def _embed_or_reuse(
        self, snapshot: Snapshot, texts: Sequence[str], text_pairs: Sequence[str | None]
    ) -> Predictions:
        """Embed N texts; where stored embeddings equal those of this call, texts among the documents keep theirs."""
        documents = snapshot.documents
        if (
            not self.can_reuse
            or snapshot.fitted is None
            or documents is None
            or len(documents.keys) > MAX_DOCUMENTS_PER_TEXT * len(texts)
        ):
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


def checked_options(**options: Any) -> CallOptions:
    """Check each option, and remove those that are ignored or None, except ``top_k``: None asks for all labels.

    Raises:
        TypeError: If an option is unknown.
        ValueError: If an option is out of its range.
    """
    given = {name: value for name, value in options.items() if value is not None or name == "top_k"}
    unknown = given.keys() - {*CallOptions.__annotations__, *IGNORED_OPTIONS}
    if unknown:
        name = min(unknown)
        instead = f" any more: {REMOVED[name]}" if name in REMOVED else ""
        raise TypeError(f"pipeline('docsplit-knn') has no argument {name!r}{instead}.")
    if given.get("truncation", True) not in (True, "longest_first"):
        raise ValueError(f"truncation={given['truncation']!r}: long texts are always cut, and counted.")
    for name, least in MINIMUMS.items():
        value = given.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, Integral) or value < least):
            none = ", or None (null in JSON) for all labels" if name == "top_k" else ""
            raise ValueError(f"{name} must be a whole number from {least}{none}, got {value!r}.")
    for name in FLAGS:
        if given.get(name, True) not in (True, False):
            raise ValueError(f"{name} must be True or False, got {given[name]!r}.")
    if given.get("method", METHODS[0]) not in METHODS:
        raise ValueError(f"method must be one of {', '.join(map(repr, METHODS))}, got {given['method']!r}.")
    if "reject" in given and not isinstance(given["reject"], RejectionLimits):
        given["reject"] = RejectionLimits(given["reject"])
    if "labels_at" in given:
        check_level(given["labels_at"])
    return {name: value for name, value in given.items() if name not in IGNORED_OPTIONS}


def reading_options(options: CallOptions) -> ReadingOptions:
    """The options that say how texts are read."""
    return {name: options[name] for name in READING_OPTIONS if name in options}


def _check_rejection(options: CallOptions, experts: PreparedExperts | None) -> None:
    """Raise ValueError for options that exclude each other, and warn about limits that cannot be guaranteed."""
    limits = options["reject"]
    if "top_k" in options:
        raise ValueError(f"reject gives a text one answer or none: leave out top_k={options['top_k']!r}.")
    if experts is None:
        return
    guarantees = experts.fitted.guarantees
    if limits.each_label:
        _check_each_label(guarantees, experts.ensemble.labels, limits)
    elif np.isinf(guarantees.level_thresholds(limits.error, limits.novelty)).all():
        logger.warning(
            "No text gets an answer: reject=%g cannot be guaranteed. %s",
            limits.error,
            guarantees.describe(limits.error),
        )
    if limits.novelty and guarantees.novelty_limit(limits.novelty) == HIGHEST_NOVELTY:
        logger.warning(
            "novelty=%g has no effect: to guarantee that so few texts are lost takes %d held-out texts, not %d. "
            "Add examples and fit() again, or allow more.",
            limits.novelty,
            min_held_out_texts(limits.novelty),
            len(guarantees.held_out.ids),
        )


def _check_each_label(guarantees: Guarantees, labels: Sequence[str], limits: RejectionLimits) -> None:
    """Raise ValueError for a tree of labels, and warn about labels that no text gets."""
    if guarantees.multi_label or guarantees.tree:
        raise ValueError("each_label is for one label per text, and for labels that are no tree: leave it out.")
    thresholds = guarantees.label_thresholds(limits.error, limits.novelty)
    without = [name for name, threshold in zip(labels, thresholds, strict=True) if np.isinf(threshold)]
    if without:
        logger.warning(
            "No text gets the label %s: reject=%g cannot be guaranteed among the answers with it. That takes %d "
            "held-out texts that are answered with a label, if all are right.",
            ", ".join(map(repr, without)),
            limits.error,
            min_held_out_texts(limits.error),
        )


def _check_label_sets(options: CallOptions, experts: PreparedExperts | None, label_names: Sequence[str]) -> None:
    """Raise ValueError for options that exclude each other, and warn about sets that nothing can be guaranteed for."""
    level = options["labels_at"]
    if "top_k" in options:
        raise ValueError(f"labels_at chooses the number of labels: leave out top_k={options['top_k']!r}.")
    if experts is None:
        return
    guarantees = experts.fitted.guarantees
    if (guarantees.label_set_limits(level).by_label == NO_LIMIT).all():
        logger.warning(
            "labels_at=%g: every set has all labels. To guarantee that fewer labels hold the right one takes %d "
            "held-out texts; the %d here count as %.0f. Add examples and fit() again, or choose a lower level.",
            level,
            min_held_out_texts(1 - level),
            len(guarantees.held_out.ids),
            guarantees.effective_size(),
        )
    new = [name for name in label_names if name not in set(experts.ensemble.labels)]
    if new:
        logger.warning(
            "labels_at=%g is not guaranteed for texts of %s: no example had these labels at the last fit(). Add "
            "examples, and fit() again.",
            level,
            ", ".join(map(repr, new)),
        )
