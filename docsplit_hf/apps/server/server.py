"""Server: the parts of a running server, and how they read texts."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from starlette.requests import ClientDisconnect, Request

from ...classifier.answering import CallOptions
from ...cores import core_count
from ...fitting.label_tree import NO_LEVEL
from .access import Access
from .batching import Batcher, ReadTexts
from .errors import Refused, unprocessable
from .questions import Labels, LabelScores
from .served_folders import ServedFolder
from .settings import ServerSettings
from .states import State

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
# Names that clients send without having been given one: the first classifier answers.
DEFAULT_MODELS = ("jev-latest", "docsplit")


class Metrics:
    """Counters of a server, in a registry of their own."""

    def __init__(self, batcher: Batcher) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "docsplit_requests", "Requests by path and status.", ["path", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "docsplit_request_seconds", "Seconds for a request.", ["path"], buckets=SECONDS, registry=self.registry
        )
        self.texts = Counter("docsplit_texts", "Texts that were read.", ["model"], registry=self.registry)
        self.rejectable = Counter(
            "docsplit_rejectable_texts", "Texts for which rejection was asked.", ["model"], registry=self.registry
        )
        self.rejected = Counter("docsplit_rejected_texts", "Texts without a label.", ["model"], registry=self.registry)
        self.edits = Counter("docsplit_edits", "Acknowledged edits.", ["model", "kind"], registry=self.registry)
        waiting = Gauge("docsplit_waiting_tokens", "Tokens of texts that wait.", registry=self.registry)
        waiting.set_function(lambda: batcher.waiting_tokens)


class Server:
    """The parts of a running server."""

    def __init__(self, classifiers: dict[str, ServedFolder], settings: ServerSettings, access: Access) -> None:
        self.classifiers = classifiers
        self.settings = settings
        self.access = access
        self.batcher = Batcher(settings)
        self.metrics = Metrics(self.batcher)
        self.edit_thread = ThreadPoolExecutor(1, thread_name_prefix="docsplit-edit")
        # Files may take minutes: they are read in threads of their own.
        self.file_threads = ThreadPoolExecutor(core_count(), thread_name_prefix="docsplit-files")

    def close(self) -> None:
        """Finish the work under way."""
        self.edit_thread.shutdown()
        self.file_threads.shutdown(cancel_futures=True)
        self.batcher.stop()

    def classifier(self, name: str | None) -> ServedFolder:
        """The classifier that a request names; without a name, the first one."""
        if name is None or (name in DEFAULT_MODELS and name not in self.classifiers):
            return next(iter(self.classifiers.values()))
        found = self.classifiers.get(name)
        if found is None:
            message = f"There is no classifier {name[:100]!r} here: {', '.join(self.classifiers)}."
            raise Refused(HTTPStatus.NOT_FOUND, "model_not_found", message, "model")
        return found

    async def read(
        self,
        classifier: ServedFolder,
        state: State,
        texts: list[str],
        pairs: list[str | None],
        options: CallOptions,
        request: Request,
    ) -> ReadTexts:
        """Read texts by a state of a classifier, and count them.

        ``request`` has arrived completely; if its client goes, the work ends.
        """
        self.check_texts(texts, pairs)
        reading = asyncio.ensure_future(self.batcher.read(state, texts, pairs, options))
        try:
            await wait_while_connected(request, reading)
            result = await reading
        except (ValueError, TypeError) as error:
            raise unprocessable(classifier.without_paths(str(error))) from error
        self.metrics.texts.labels(classifier.name).inc(len(texts))
        if options.get("reject") is not None:
            levels = result.predicted.levels
            self.metrics.rejectable.labels(classifier.name).inc(len(levels))
            self.metrics.rejected.labels(classifier.name).inc(int((levels == NO_LEVEL).sum()))
        return result

    def check_texts(self, texts: list[str], pairs: list[str | None]) -> None:
        """Refuse too many texts, and texts that are too long."""
        limits = self.settings.limits
        if len(texts) > limits.texts:
            raise unprocessable(f"{len(texts):,} texts are too many at a time: send at most {limits.texts:,}.", "texts")
        for number, (text, pair) in enumerate(zip(texts, pairs, strict=True)):
            length = len(text) + len(pair or "")
            if length > limits.characters:
                raise unprocessable(f"Text {number} has {length:,} characters: at most {limits.characters:,}.", "texts")

    def label_scores(self, result: ReadTexts) -> LabelScores:
        """What a classifier says of one text."""
        prediction = result.predicted
        levels = prediction.levels
        # A question is about labels: a parent in a tree of labels is no answer to it.
        is_rejected = None if levels is None else bool(levels[0] < len(prediction.tree))
        return LabelScores(
            probabilities=dict(zip(prediction.label_names, prediction.probabilities[0].tolist(), strict=True)),
            is_rejected=is_rejected,
            reason="no content" if is_rejected and prediction.has_no_content[0] else None,
        )

    def labels(self, state: State) -> Labels:
        """The labels of a classifier, for questions."""
        store = state.pipe.datastore
        return Labels(store.label_names, store.multi_label, self.settings.reject_label)


async def wait_while_connected(request: Request, task: asyncio.Task[Any]) -> None:
    """Wait for a task after the whole body has arrived.

    Raises:
        ClientDisconnect: If the client closes the connection meanwhile; the task is cancelled.
    """
    leaving = asyncio.ensure_future(request.receive())
    try:
        await asyncio.wait({task, leaving}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        leaving.cancel()
    if not task.done():
        task.cancel()
        raise ClientDisconnect
