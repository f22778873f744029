"""Metrics: what the server did, in Prometheus' format, and how much the texts differ from those it was fitted on."""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from ...reading.text_warnings import unlogged
from .states import PipelineState

if TYPE_CHECKING:
    from ...fitting.drift.report import Change, DriftReport
    from .batching import Batcher
    from .served_folders import ServedFolder

logger = logging.getLogger(__name__)

FEWEST_DRIFT_TEXTS = 30
DRIFT_TEXTS = 256  # the last ones, on which drift is measured
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
RECENT_REJECTIONS = 1_000  # texts of which the share of rejected ones is shown


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
        self.rejected_share = Gauge(
            "docsplit_rejected_share",
            f"Share of rejected texts among the last {RECENT_REJECTIONS} for which it was asked.",
            ["model"],
            registry=self.registry,
        )
        self.edits = Counter("docsplit_edits", "Acknowledged edits.", ["model", "kind"], registry=self.registry)
        self.drift = Gauge(
            "docsplit_drift",
            "Mean of a measure over the last texts (now) and the texts of the fit (then), and the 98.3 % interval of "
            "the difference (low, high).",
            ["model", "measure", "value"],
            registry=self.registry,
        )
        self.drift_certain = Gauge(
            "docsplit_drift_certain",
            "1 if the interval of a measure excludes 0.",
            ["model", "measure"],
            registry=self.registry,
        )
        self.drift_texts = Gauge(
            "docsplit_drift_texts", "Texts that drift was measured on.", ["model"], registry=self.registry
        )
        waiting = Gauge("docsplit_waiting_tokens", "Tokens of texts that wait.", registry=self.registry)
        waiting.set_function(lambda: batcher.waiting_tokens)
        batch_jobs = Gauge("docsplit_batch_jobs", "Mean of slices read together, recently.", registry=self.registry)
        batch_jobs.set_function(lambda: _mean([jobs for jobs, _ in list(batcher.batch_sizes)]))
        batch_tokens = Gauge("docsplit_batch_tokens", "Mean of tokens read together, recently.", registry=self.registry)
        batch_tokens.set_function(lambda: _mean([tokens for _, tokens in list(batcher.batch_sizes)]))
        self._recent: dict[str, deque[bool]] = {}

    def count_rejections(self, model: str, is_rejected: list[bool]) -> None:
        """Count texts for which rejection was asked."""
        self.rejectable.labels(model).inc(len(is_rejected))
        self.rejected.labels(model).inc(sum(is_rejected))
        recent = self._recent.setdefault(model, deque(maxlen=RECENT_REJECTIONS))
        recent.extend(is_rejected)
        self.rejected_share.labels(model).set(sum(recent) / len(recent))

    def set_drift(self, model: str, report: DriftReport) -> None:
        """Show a report of drift."""
        self.drift_texts.labels(model).set(report.texts)
        changes: dict[str, Change] = dict(report.drift)
        if report.rejected is not None:
            changes["rejected"] = report.rejected
        for measure, change in changes.items():
            for value in ("now", "then", "low", "high"):
                number = getattr(change, value)
                if number is not None:
                    self.drift.labels(model, measure, value).set(number)
            self.drift_certain.labels(model, measure).set(change.is_certain)


class RecentTexts:
    """The last texts that a classifier answered, in memory only, to measure drift."""

    def __init__(self, most: int = DRIFT_TEXTS) -> None:
        self._texts: deque[str | dict[str, str]] = deque(maxlen=most)
        self._new = 0

    def add(self, texts: list[str], pairs: list[str | None]) -> None:
        """Add texts, or pairs of texts."""
        for text, pair in zip(texts, pairs, strict=True):
            self._texts.append(text if pair is None else {"text": text, "text_pair": pair})
        self._new += len(texts)

    def measure(self, classifier: ServedFolder, metrics: Metrics, reject: float) -> None:
        """Measure the drift of the texts, if there are enough and some are new."""
        texts = list(self._texts)
        state = classifier.state
        if not isinstance(state, PipelineState):  # an exported classifier answers, and measures nothing
            return
        if not self._new or len(texts) < FEWEST_DRIFT_TEXTS or state.datastore.fitted is None:
            return
        self._new = 0
        try:
            with unlogged():
                report = state.pipe.measure_drift(texts, reject=reject)
        except ValueError as error:
            logger.warning("The drift of %s is unknown: %s", classifier.name, classifier.without_paths(str(error)))
            return
        metrics.set_drift(classifier.name, report)


def _mean(values: list[int]) -> float:
    return sum(values) / len(values) if values else 0.0
