"""Batcher: texts of several requests are read together, in several threads."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...arrays.passages import Predictions, several_passages, take_passages
from ...classifier.answering import CallOptions, reading_options
from ...classifier.exported_classifier import ExportedClassifier
from ...cores import thread_count, use_threads
from ...encoding.chunking import token_counts
from ...reading.inputs import joined_texts
from ...reading.text_warnings import unlogged
from .errors import Refused
from .settings import ServerSettings

if TYPE_CHECKING:
    from ...fitting.prediction import Prediction
    from .states import State

BYTES_PER_TOKEN = 4  # an estimate, for the time before texts are tokenized
LONG_JOBS_PER_BATCH = 4  # a job of more than this part of a batch is long
RETRY_SECONDS = 5  # after which a client may ask again


class ReadTexts(NamedTuple):
    """What a job returns: the predictions of its texts, and their tokens."""

    predicted: Prediction
    token_count: int

    def answers(self) -> list[Any]:
        """The answer to each text."""
        return [self.predicted.answer(row) for row in range(len(self.predicted.probabilities))]


@dataclass
class Job:
    """Texts of a request that are read together."""

    state: State
    texts: Sequence[str]
    pairs: Sequence[str | None]
    options: CallOptions
    tokens: int  # an estimate
    is_long: bool  # by the estimate
    result: Future[ReadTexts] = field(default_factory=Future)  # cancelled if nobody waits for it any more

    def reading_key(self) -> tuple[object, ...]:
        """What jobs must have in common for their texts to be read together."""
        is_paired = any(pair is not None for pair in self.pairs)
        return (id(self.state), is_paired, *sorted(reading_options(self.options).items()))

    def predict(self, embedded: Predictions, token_count: int) -> None:
        """Finish the job, whose texts were embedded."""
        try:
            texts = joined_texts(self.texts, self.pairs)
            predicted = self.state.pipe.predict_embedded(embedded, texts, **self.options)
            self.result.set_result(ReadTexts(predicted, token_count))
        except Exception as error:  # of any type: it is the answer to this request alone
            self.result.set_exception(error)


class Batcher:
    """Reads the texts of all requests: those that come together are read together.

    Workers tokenize texts, one at a time, run encoders and predict, so that texts are tokenized while others are
    computed. There is a worker for each thread. Two batches on one core each take less time than one after the
    other on two cores, since a small encoder gains little from a second core; a job that comes alone gets all cores.
    Long jobs have a worker of their own, beside which the others go on. Each job keeps the state that it began with,
    so an edit meanwhile does not change its answers.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        self._limits = settings.limits
        self._most_short_tokens = max(settings.batch_tokens // LONG_JOBS_PER_BATCH, 1)
        self._workers = settings.threads or thread_count()
        self._busy_workers = 0
        self._changed = threading.Condition()
        self._tokenizing = threading.Lock()  # a tokenizer that cuts texts is changed, and used by one thread at a time
        self._waiting: dict[bool, deque[Job]] = {False: deque(), True: deque()}  # short and long jobs
        self._waiting_tokens = {False: 0, True: 0}
        self._is_stopping = False
        self._threads = []
        for is_long in [True, *[False] * self._workers]:
            self._threads.append(threading.Thread(target=self._compute_all, args=[is_long], daemon=True))
        for thread in self._threads:
            thread.start()

    @property
    def waiting_tokens(self) -> int:
        """The tokens of texts that wait or are computed."""
        return sum(self._waiting_tokens.values())

    def stop(self) -> None:
        """Finish the jobs that wait, and stop."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    async def read(
        self, state: State, texts: Sequence[str], pairs: Sequence[str | None], options: CallOptions
    ) -> ReadTexts:
        """Read the texts of a request by one state.

        Raises:
            Refused: If too much work waits, or it takes too long.
            ValueError: If options do not fit the classifier.
        """
        tokens = self._estimated_tokens(state, texts, pairs, options)
        self._refuse_if_too_long(tokens)
        job = Job(state, texts, pairs, options, tokens, is_long=tokens > self._most_short_tokens)
        self._refuse_if_full(job)
        with self._changed:
            self._waiting[job.is_long].append(job)
            self._waiting_tokens[job.is_long] += tokens
            self._changed.notify_all()
        try:
            async with asyncio.timeout(self._limits.seconds):
                return await asyncio.wrap_future(job.result)
        except TimeoutError:
            raise Refused(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "timeout",
                f"There was no answer within {self._limits.seconds:g} seconds: send fewer texts, or try again later.",
                retry_after=RETRY_SECONDS,
            ) from None

    def _refuse_if_too_long(self, tokens: int) -> None:
        """Refuse texts that would take more than their share of the time."""
        most = self._limits.tokens
        if tokens > most:
            raise Refused(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                "too_many_tokens",
                f"The texts have about {tokens:,} tokens, and a request may have {most:,} (--max_tokens): send fewer "
                "texts, shorter ones, or max_passages.",
            )

    def _refuse_if_full(self, job: Job) -> None:
        """Refuse a job for which there is no room; one short and one long request are always taken."""
        waiting = self._waiting_tokens[job.is_long]
        if self._is_stopping:
            raise Refused(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "stopping",
                "The server is stopping: try again later.",
                retry_after=RETRY_SECONDS,
            )
        if waiting and waiting + job.tokens > self._limits.waiting_tokens:
            raise Refused(
                HTTPStatus.TOO_MANY_REQUESTS,
                "overloaded",
                "Too many texts are waiting: try again later.",
                retry_after=RETRY_SECONDS,
            )

    def _estimated_tokens(
        self, state: State, texts: Sequence[str], pairs: Sequence[str | None], options: CallOptions
    ) -> int:
        """An estimate of the tokens that are read of some texts."""
        embedder = state.pipe.embedder.with_options(**reading_options(options))
        is_paired = any(pair is not None for pair in pairs)
        most = embedder.most_tokens(is_paired) if embedder.is_local else None
        estimates = [estimated_tokens(text) for text in joined_texts(texts, pairs)]
        return sum(estimates) if most is None else sum(min(estimate, most) for estimate in estimates)

    def _compute_all(self, is_long: bool) -> None:
        """Compute batches of short or of long jobs until the server stops."""
        while (jobs := self._next_batch(is_long)) is not None:
            for group in _grouped(jobs):
                self._compute(group)
            with self._changed:
                self._busy_workers -= 1
                self._waiting_tokens[is_long] -= sum(job.tokens for job in jobs)

    def _compute(self, jobs: list[Job]) -> None:
        """Read jobs together; if that fails, one by one, so that an error is the answer to one request alone."""
        try:
            embedded, tokens_of_texts = self._embed(jobs)
        except Exception as error:  # of any type
            if len(jobs) == 1:
                jobs[0].result.set_exception(error)
                return
            for job in jobs:
                self._compute([job])
            return
        first_row = 0
        for job in jobs:
            rows = np.arange(first_row, first_row + len(job.texts))
            job.predict(predictions_at(embedded, rows), sum(tokens_of_texts[row] for row in rows))
            first_row += len(rows)

    def _embed(self, jobs: list[Job]) -> tuple[Predictions, list[int]]:
        """Embed the texts of jobs together; return the tokens of each text, too."""
        first = jobs[0]
        embedder = first.state.pipe.embedder.with_options(**reading_options(first.options))
        texts = [text for job in jobs for text in job.texts]
        pairs = [pair for job in jobs for pair in job.pairs]
        pipe = first.state.pipe
        device = nullcontext() if isinstance(pipe, ExportedClassifier) else pipe.device_placement()
        with unlogged(), device:
            if not embedder.is_local:  # behind an endpoint
                counts = [estimated_tokens(text) for text in joined_texts(texts, pairs)]
                return embedder.embed(texts, pairs), counts
            with self._tokenizing:
                chunks = list(embedder.chunks(texts, pairs))
            return embedder.embed_chunks_of(texts, chunks), token_counts(chunks, len(texts))

    def _next_batch(self, is_long: bool) -> list[Job] | None:
        """Wait for jobs, and take those that are read together; None: the server stops."""
        queue = self._waiting[is_long]
        jobs: list[Job] = []
        with self._changed:
            while not jobs:
                while not queue:
                    if self._is_stopping:
                        return None
                    self._changed.wait()
                jobs = self._take_jobs(is_long)
            is_alone = len(jobs) == 1 and not (self._busy_workers or any(self._waiting.values()))
            self._busy_workers += 1
        use_threads(self._workers if is_alone else 1)  # of this thread alone
        return jobs

    def _take_jobs(self, is_long: bool) -> list[Job]:
        """Take a long job, or short ones, an equal share for each idle worker; none, if all were dropped meanwhile."""
        queue = self._waiting[is_long]
        share = sum(job.tokens for job in queue) / max(self._workers - self._busy_workers, 1)
        most = 0 if is_long else min(self._settings.batch_tokens, share)
        jobs: list[Job] = []
        tokens = 0
        while queue and (not jobs or tokens + queue[0].tokens <= most):
            job = queue.popleft()
            if not job.result.set_running_or_notify_cancel():  # nobody waits for it
                self._waiting_tokens[is_long] -= job.tokens
                continue
            jobs.append(job)
            tokens += job.tokens
        return jobs


def _grouped(jobs: list[Job]) -> list[list[Job]]:
    """Jobs whose texts are read together."""
    groups: dict[tuple[object, ...], list[Job]] = {}
    for job in jobs:
        groups.setdefault(job.reading_key(), []).append(job)
    return list(groups.values())


def predictions_at(embedded: Predictions, rows: np.ndarray) -> Predictions:
    """The predictions of some texts; without passages if each has one, as a call with these texts would give them."""
    if len(rows) == len(embedded.retrieval_embeddings):
        return embedded
    passages = take_passages(embedded.passages, rows)
    read = embedded.read_fraction
    return Predictions(
        logits=embedded.logits[rows],
        retrieval_embeddings=embedded.retrieval_embeddings[rows],
        read_fraction=None if read is None else read[rows],
        passages=None if passages is None else several_passages(passages),
    )


def estimated_tokens(text: str) -> int:
    """An estimate of the number of tokens of a text."""
    return len(text.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN + 2
