"""Settings of fitted experts, and their form in a saved folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from .report import FitReport

# Names in saved folders that differ from those of the fields.
SAVED_MULTI_LABEL = "several"
SUGGESTED_SETTING = "suggested"  # setting of the fitted state with the ids of suggested documents
SAVED_COMPARES_WITH_DOCUMENTS = "beside_documents"


@dataclass(frozen=True)
class FitSettings:
    """Everything that ``fit`` chose and measured, except arrays.

    Attributes:
        weights: The weight of each expert's logits, by its name.
        multi_label: Whether a text may have several labels.
        has_head: Whether a trained classification head also gives logits.
        temperature: The temperature of the neighbors' votes (equation 2).
        document_vote: The weight of a document's vote as a neighbor, relative to that of an example.
        compares_with_documents: Whether familiarity compares closeness to examples with closeness to documents, because
            some documents are out of scope.
        log_likelihood: The log likelihood of the labels of the held-out texts, without a shift for label proportions.
        thresholds: The probability from which a text gets each label, if it may have several; None if it has one.
        report: The report that ``fit`` returns; its fields are saved beside the others.
    """

    weights: dict[str, float]
    multi_label: bool
    has_head: bool
    temperature: float
    document_vote: float
    compares_with_documents: bool
    log_likelihood: float
    thresholds: list[float] | None
    report: FitReport

    @property
    def labels(self) -> list[str]:
        """Names of the labels that have examples, in the order of all arrays."""
        return self.report.labels

    def label_thresholds(self, label_names: Sequence[str]) -> np.ndarray | None:
        """Thresholds of all L labels, ``(L,)``; 0.5 for labels added after ``fit``. None if texts have one label."""
        if self.thresholds is None:
            return None
        own = dict(zip(self.labels, self.thresholds, strict=True))
        return np.array([own.get(name, 0.5) for name in label_names])

    def to_json(self) -> dict[str, Any]:
        """Convert to the settings of a ``FittedState``."""
        report = {field.name: getattr(self.report, field.name) for field in fields(self.report)}
        saved = {
            "labels": self.labels,
            SAVED_MULTI_LABEL: self.multi_label,
            "weights": self.weights,
            "has_head": self.has_head,
            "temperature": self.temperature,
            "document_vote": self.document_vote,
            SAVED_COMPARES_WITH_DOCUMENTS: self.compares_with_documents,
            "log_likelihood": self.log_likelihood,
        }
        if self.thresholds is not None:
            saved["thresholds"] = self.thresholds
        return saved | report

    @classmethod
    def from_json(cls, saved: dict[str, Any]) -> FitSettings:
        """Restore settings that ``check_state`` has accepted; those missing in the first version get defaults."""
        multi_label = saved[SAVED_MULTI_LABEL]
        return cls(
            weights=saved["weights"],
            multi_label=multi_label,
            has_head=saved["has_head"],
            temperature=saved["temperature"],
            document_vote=saved.get("document_vote", 1.0),
            compares_with_documents=saved.get(SAVED_COMPARES_WITH_DOCUMENTS, False),
            log_likelihood=saved.get("log_likelihood", 0.0),
            thresholds=saved.get("thresholds", [0.5] * len(saved["labels"])) if multi_label else None,
            report=FitReport.of(saved),
        )
