"""Metrics: what the server did, in Prometheus' format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

if TYPE_CHECKING:
    from .batching import Batcher

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


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
