"""Batcher: texts of several requests are tokenized in one thread, and read together in others."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from ..arrays.passages import Passages
from ..classification.call_options import READING_OPTIONS, CallOptions, ReadingOptions
from ..classification.texts_and_labels import joined_texts
from ..encoders.classifier_embedder import ClassifierEmbedder, CutTexts
from ..encoders.text_embedder import Predictions
from ..text.text_warnings import unlogged
from .errors import TOO_MANY, UNAVAILABLE, Refused
from .settings import Batching, Limits

if TYPE_CHECKING:
    from ..classification.pipeline import PredictedTexts
    from .classifiers import State

logger = logging.getLogger(__name__)

CHARACTERS_PER_TOKEN = 4  # an estimate, for the time before texts are tokenized
SLICE_TEXTS = 64  # texts of a request that wait together; others' requests are read between them
SLICE_CHARACTERS = 65_536
TOKENIZED_JOBS = 16  # the most that are tokenized together: a call of the tokenizer costs as much as 100 words
# Options whose answers depend on the other texts of a call: how many neighbors are shown.
OPTIONS_OF_WHOLE_CALLS = ("return_neighbors", "return_documents", "explain")
FIRST_TOKENS_PER_SECOND = 20_000.0  # until some were measured
SMOOTHING = 0.9  # weight of the past in the measured speed


class ReadTexts(NamedTuple):
    """What a job returns: embeddings and, if they were asked for, predictions of its texts."""

    embedded: Predictions
    predicted: PredictedTexts | None
    first_row: int  # of the job's texts in ``predicted``
    token_count: int


@dataclass
class Job:
    """Texts of a request that are read together."""

    state: State
    texts: list[str]
    pairs: list[str | None]
    options: CallOptions | None  # None: embeddings only
    loop: asyncio.AbstractEventLoop
    result: asyncio.Future[ReadTexts]
    tokens: int  # an estimate, then their number
    cut: CutTexts | None = None  # also None for an encoder behind an endpoint
    is_tokenized: bool = False
    is_dropped: bool = False

    @property
    def reading(self) -> ReadingOptions:
        """The options that say how texts are read."""
        given = self.options or {}
        return {name: given[name] for name in READING_OPTIONS if name in given}

    def reading_key(self) -> tuple[object, ...]:
        """What jobs must have in common for their texts to be read together."""
        is_paired = any(pair is not None for pair in self.pairs)
        return (*self.state.reading_key(), is_paired, *sorted(self.reading.items()))

    def prediction_key(self) -> tuple[object, ...]:
        """What jobs must have in common for their texts to be predicted together."""
        if any(self.options.get(name) for name in OPTIONS_OF_WHOLE_CALLS):
            return (id(self),)
        return (id(self.state), *sorted(self.options.items()))

    def finish(self, result: ReadTexts | None, error: BaseException | None = None) -> None:
        """Hand the result to the event loop that waits for it."""

        def hand_over() -> None:
            if self.result.done():  # the client has gone, or waited too long
                return
            if error is not None:
                self.result.set_exception(error)
            else:
                self.result.set_result(result)

        self.loop.call_soon_threadsafe(hand_over)


class Batch(NamedTuple):
    """Jobs that are read together."""

    jobs: list[Job]
    tokens: int
    threads: int  # of torch


class Batcher:
    """Reads the texts of all requests: those that come together are read together.

    One thread tokenizes texts, and workers run encoders and predict, so that texts are tokenized while others are
    computed. There is a worker for each thread of torch. Two batches on one core each take less time than one after the
    other on two cores, since a small encoder gains little from a second core; a job that comes alone gets all cores.
    Each job keeps the state that it began with, so an edit meanwhile does not change its answers.
    """

    def __init__(self, batching: Batching, limits: Limits) -> None:
        self._batching = batching
        self._limits = limits
        self._workers = torch.get_num_threads()
        self._busy_workers = 0
        self._changed = threading.Condition()
        self._arrived: deque[Job] = deque()
        self._ready: deque[Job] = deque()
        self._waiting_tokens = 0
        self._tokenizing = 0  # jobs that the first thread has in hand
        self._tokens_per_second = FIRST_TOKENS_PER_SECOND
        self._is_stopping = False
        self._last_batch_jobs = 1
        self.batch_sizes: deque[tuple[int, int]] = deque(maxlen=1_000)  # jobs and tokens of the last batches
        self._threads = [threading.Thread(target=self._tokenize_all, name="docsplit-tokenize", daemon=True)]
        for number in range(self._workers):
            name = f"docsplit-compute-{number}"
            self._threads.append(threading.Thread(target=self._compute_all, name=name, daemon=True))
        for thread in self._threads:
            thread.start()

    @property
    def waiting_tokens(self) -> int:
        """The tokens of texts that wait or are computed."""
        return self._waiting_tokens

    def stop(self) -> None:
        """Finish the jobs that wait, and stop."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    async def read(
        self, state: State, texts: Sequence[str], pairs: Sequence[str | None], options: CallOptions | None
    ) -> list[ReadTexts]:
        """Read the texts of a request, in slices, by one state.

        Raises:
            Refused: If too much work waits, or it takes too long.
            ValueError: If options do not fit the classifier.
        """
        slices = sliced(texts, pairs, is_whole=_is_whole(options))
        jobs: list[Job] = []
        results: list[ReadTexts] = []
        estimate = sum(estimated_tokens(text) for text in texts)
        self._refuse_if_full(estimate)
        try:
            async with asyncio.timeout(self._limits.seconds):
                for number, part in enumerate(slices):
                    jobs.append(self._submit(state, part, options))
                    if number:  # two slices at a time: one is tokenized while the other is computed
                        results.append(await jobs[number - 1].result)
                results.append(await jobs[-1].result)
        except TimeoutError:
            raise Refused(
                UNAVAILABLE,
                "timeout",
                f"There was no answer within {self._limits.seconds:g} seconds: send fewer texts, or try again later.",
                retry_after=self._retry_after(),
            ) from None
        finally:
            for job in jobs:
                if not job.result.done():
                    job.is_dropped = True
                    job.result.cancel()
        return results

    def _refuse_if_full(self, tokens: int) -> None:
        """Refuse texts for which there is no room; one request is always taken."""
        most = self._limits.waiting_tokens
        if self._is_stopping:
            raise Refused(UNAVAILABLE, "stopping", "The server is stopping: try again later.", retry_after=5)
        if self._waiting_tokens and self._waiting_tokens + tokens > most:
            raise Refused(
                TOO_MANY,
                "overloaded",
                "Too many texts are waiting: try again later.",
                retry_after=self._retry_after(),
            )

    def _retry_after(self) -> int:
        """Seconds after which half of the waiting texts will have been read."""
        return max(1, round(self._waiting_tokens / self._tokens_per_second / 2))

    def _submit(self, state: State, part: TextSlice, options: CallOptions | None) -> Job:
        loop = asyncio.get_running_loop()
        tokens = sum(estimated_tokens(text) for text in part.texts)
        job = Job(state, part.texts, part.pairs, options, loop, loop.create_future(), tokens)
        with self._changed:
            self._arrived.append(job)
            self._waiting_tokens += job.tokens
            self._changed.notify_all()
        return job

    def _tokenize_all(self) -> None:
        """Tokenize jobs until the server stops."""
        while True:
            with self._changed:
                while not self._arrived and not self._is_stopping:
                    self._changed.wait()
                if not self._arrived:
                    return
                jobs = [self._arrived.popleft() for _ in range(min(len(self._arrived), TOKENIZED_JOBS))]
                self._tokenizing = len(jobs)
            by_reading: dict[tuple[object, ...], list[Job]] = {}
            for job in jobs:
                by_reading.setdefault(job.reading_key(), []).append(job)
            for group in by_reading.values():
                self._tokenize([job for job in group if not job.is_dropped])
            with self._changed:
                self._tokenizing = 0
                self._waiting_tokens -= sum(job.tokens for job in jobs)
                for job in jobs:
                    if job.is_tokenized and not job.is_dropped:
                        if job.cut is not None:
                            job.tokens = job.cut.token_count
                        self._waiting_tokens += job.tokens
                        self._ready.append(job)
                self._changed.notify_all()

    def _tokenize(self, jobs: list[Job]) -> None:
        """Tokenize jobs together; if that fails, one by one, so that an error is the answer to one request alone."""
        try:
            _cut(jobs)
        except Exception as error:  # of any type
            if len(jobs) == 1:
                jobs[0].finish(None, error)
                return
            for job in jobs:
                self._tokenize([job])

    def _compute_all(self) -> None:
        """Compute batches of jobs until the server stops."""
        while True:
            batch = self._next_batch()
            if batch is None:
                return
            torch.set_num_threads(batch.threads)  # of this thread alone
            begun = time.perf_counter()
            by_reading: dict[tuple[object, ...], list[Job]] = {}
            for job in batch.jobs:
                by_reading.setdefault(job.reading_key(), []).append(job)
            for group in by_reading.values():
                try:
                    _compute(group)
                except Exception as error:  # of any type: the other groups are computed
                    for job in group:
                        job.finish(None, error)
            seconds = max(time.perf_counter() - begun, 1e-6)
            with self._changed:
                speed = batch.tokens * self._busy_workers / seconds
                self._tokens_per_second += (1 - SMOOTHING) * (speed - self._tokens_per_second)
                self._busy_workers -= 1
                self._waiting_tokens -= batch.tokens
                self.batch_sizes.append((len(batch.jobs), batch.tokens))

    def _next_batch(self) -> Batch | None:
        """Wait for jobs, and take those that are read together; None: the server stops."""
        with self._changed:
            while True:
                while not self._ready:
                    if self._is_stopping and not self._arrived and not self._tokenizing:
                        return None
                    self._changed.wait(timeout=0.1 if self._is_stopping else None)
                if self._last_batch_jobs > 1 or self._arrived or self._tokenizing:  # several clients are active
                    deadline = time.monotonic() + self._batching.wait_seconds
                    while not self._is_full() and (left := deadline - time.monotonic()) > 0:
                        self._changed.wait(timeout=left)
                jobs = self._take_jobs()
                if jobs:
                    break
            is_alone = len(jobs) == 1 and not (self._busy_workers or self._ready or self._arrived or self._tokenizing)
            self._busy_workers += 1
            self._last_batch_jobs = len(jobs)
            return Batch(jobs, sum(job.tokens for job in jobs), threads=self._workers if is_alone else 1)

    def _take_jobs(self) -> list[Job]:
        """Take the jobs of a batch, an equal share for each idle worker; none, if all were dropped meanwhile."""
        share = sum(job.tokens for job in self._ready) / (self._workers - self._busy_workers)
        most = min(self._batching.tokens, share)
        jobs: list[Job] = []
        tokens = 0
        while self._ready and (not jobs or tokens + self._ready[0].tokens <= most):
            job = self._ready.popleft()
            if job.is_dropped:
                self._waiting_tokens -= job.tokens
                continue
            jobs.append(job)
            tokens += job.tokens
        return jobs

    def _is_full(self) -> bool:
        """Whether the jobs that are ready fill a batch."""
        return sum(job.tokens for job in self._ready) >= self._batching.tokens


def estimated_tokens(text: str) -> int:
    """An estimate of the number of tokens of a text."""
    return len(text) // CHARACTERS_PER_TOKEN + 2


class TextSlice(NamedTuple):
    """Texts of a request, or pairs, that wait together."""

    texts: list[str]
    pairs: list[str | None]


def sliced(texts: Sequence[str], pairs: Sequence[str | None], is_whole: bool) -> list[TextSlice]:
    """Divide the texts of a request into slices; one, if its answers depend on all of them."""
    if is_whole:
        return [TextSlice(list(texts), list(pairs))]
    slices: list[TextSlice] = []
    characters = 0
    for text, pair in zip(texts, pairs, strict=True):
        is_full = bool(slices) and (len(slices[-1].texts) >= SLICE_TEXTS or characters + len(text) > SLICE_CHARACTERS)
        if not slices or is_full:
            slices.append(TextSlice([], []))
            characters = 0
        slices[-1].texts.append(text)
        slices[-1].pairs.append(pair)
        characters += len(text)
    return slices


def _is_whole(options: CallOptions | None) -> bool:
    """Whether answers depend on the other texts of a call."""
    return options is not None and any(options.get(name) for name in OPTIONS_OF_WHOLE_CALLS)


def _cut(jobs: list[Job]) -> None:
    """Tokenize the texts of jobs that are read in the same way; there is nothing to do for an endpoint."""
    if not jobs:
        return
    embedder = jobs[0].state.pipe.embedder.with_options(**jobs[0].reading)
    if isinstance(embedder, ClassifierEmbedder):
        texts = [text for job in jobs for text in job.texts]
        pairs = [pair for job in jobs for pair in job.pairs]
        with unlogged():
            parts = embedder.cut(texts, pairs).parts([len(job.texts) for job in jobs])
        for job, part in zip(jobs, parts, strict=True):
            job.cut = part
    for job in jobs:
        job.is_tokenized = True


def _compute(jobs: list[Job]) -> None:
    """Read the texts of jobs together, and predict those of equal options together."""
    first = jobs[0]
    pipe = first.state.pipe
    embedder = pipe.embedder.with_options(**first.reading)
    with unlogged(), pipe.device_placement():
        if first.cut is not None:
            embedded = embedder.embed_cut(CutTexts.joined([job.cut for job in jobs]))
        else:
            texts = [text for job in jobs for text in job.texts]
            embedded = embedder.embed(texts, [pair for job in jobs for pair in job.pairs])
    by_options: dict[tuple[object, ...], list[Job]] = {}
    rows_of_jobs: dict[int, np.ndarray] = {}
    first_row = 0
    for job in jobs:
        rows_of_jobs[id(job)] = np.arange(first_row, first_row + len(job.texts))
        first_row += len(job.texts)
        if job.options is None:
            job.finish(ReadTexts(rows_of(embedded, rows_of_jobs[id(job)]), None, 0, job.tokens))
        else:
            by_options.setdefault(job.prediction_key(), []).append(job)
    for group in by_options.values():
        try:
            _predict(group, embedded, rows_of_jobs)
        except Exception as error:  # of any type: the other groups are predicted
            for job in group:
                job.finish(None, error)


def _predict(jobs: list[Job], embedded: Predictions, rows_of_jobs: dict[int, np.ndarray]) -> None:
    """Predict the texts of jobs with the same state and options."""
    rows = np.concatenate([rows_of_jobs[id(job)] for job in jobs])
    texts = [text for job in jobs for text in job.texts]
    pairs = [pair for job in jobs for pair in job.pairs]
    own = rows_of(embedded, rows)
    predicted = jobs[0].state.pipe.predict_embedded(own, joined_texts(texts, pairs), jobs[0].options)
    first_row = 0
    for job in jobs:
        part = np.arange(first_row, first_row + len(job.texts))
        job.finish(ReadTexts(rows_of(own, part), predicted, first_row, job.tokens))
        first_row += len(job.texts)


def rows_of(embedded: Predictions, rows: np.ndarray) -> Predictions:
    """The predictions of some texts."""
    if len(rows) == len(embedded.retrieval_embeddings):
        return embedded
    passages = embedded.passages
    read = embedded.read_fraction
    return Predictions(
        logits=embedded.logits[rows],
        retrieval_embeddings=embedded.retrieval_embeddings[rows],
        read_fraction=None if read is None else read[rows],
        passages=None if passages is None else _passages_of(passages, rows),
    )


def _passages_of(passages: Passages, rows: np.ndarray) -> Passages | None:
    """The passages of some texts, ``rows`` ascending; None if each has one, as a call with these texts would."""
    counts = passages.counts[rows]
    if (counts == 1).all():
        return None
    chosen = np.isin(np.repeat(np.arange(len(passages.counts)), passages.counts), rows)
    return Passages(passages.embeddings[chosen], counts, passages.spans[chosen])
