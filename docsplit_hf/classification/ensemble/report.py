"""Report of a fit: weights, held-out accuracy and guarantees, printed as a table."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypedDict

import numpy as np

from ..rejection import LOST, least_held_out
from .state_values import is_possible
from .surest_error import SurestError, describe_surest_error

HELD_OUT = "held-out texts"
MAX_PRINTED_PROPORTIONS = 5
# Names in ``FitReport.measured``, beside those of the experts.
ENSEMBLE = "mixture"
WORD_COUNTS = "word counts"
LARGEST_CLASS = "largest class"
# Values of ``FitReport.measured_for``, beside the three of class_proportions.
OF_SAMPLE = "the sample"
UNKNOWN = "unknown"
BY_CHANCE = 1.645  # standard deviations that chance alone exceeds once in twenty times


class Measurement(TypedDict):
    """Metrics on held-out texts."""

    expert: str  # or one of the names above
    accuracy: float
    macro_f1: float
    log_loss: float


@dataclass(frozen=True, repr=False)
class FitReport:
    """Result of ``pipe.fit()``; printed, it is a table.

    Attributes:
        examples: The number of labeled examples.
        documents: The number of documents without labels that were used.
        left_out: The number of documents that were left out, as held-out examples are answered better without them.
        labels: The names of the labels that have examples.
        measured_on: What the experts were measured on: folds of the examples, or held-out texts.
        texts: The number of these texts.
        single: The labels with one example, which is never held out.
        shares: The relative weight of each expert, from 0 to 1, by its name.
        proportions: The proportion of each label among all texts, examples and documents, by its name.
        class_proportions: The source of these: ``"estimated"``, ``"uniform"`` or ``"given"``.
        measured: The ``accuracy``, ``macro_f1`` and ``log_loss`` of each ``expert``, of the ensemble (``"mixture"``),
            of word counts (TF-IDF with logistic regression, on at most 10,000 examples), and of always the largest
            class. Those of the ensemble are slightly optimistic, as its weights were chosen on the same texts. If a
            text may have several labels, a probability of 0.5 is a yes, not the thresholds by which calls give
            ``labels``.
        answered: The fraction of these texts that gets an answer with ``reject=error``, by the error: ``"0.01"``,
            ``"0.05"`` and ``"0.1"``. Empty if a text may have several labels.
        least_error: The lowest error that so many texts can guarantee.
        surest_error: The most confident wrong answer to one of these texts, if many more would be answered without it:
            its ``id``, its label (``labeled``), its answer (``answered``) and ``score``, and at an ``error`` the
            fraction that is answered, ``share``, and ``share_without`` it. Its label may be wrong.
        measured_for: The label proportions for which all this is measured: ``"estimated"``, ``"uniform"`` or
            ``"given"``; ``"the sample"``, those of the measured texts; or ``"unknown"``, the same if examples were
            drawn label by label and no document shows how often each label is.
        accuracy_interval: The 95 % interval of the accuracy of the ensemble, wider if the proportions are uncertain.
            Empty if a text may have several labels.
        foreign: The fraction of the documents that seem to be of labels without examples; 0 if chance may explain it.
        novelty: The default of ``novelty`` in calls with ``reject``: the fraction of texts of known labels that may be
            lost. 0 if ``foreign`` is 0.
        lost: The fraction of the measured texts that it loses.
    """

    examples: int
    documents: int
    left_out: int
    labels: list[str]
    measured_on: str
    texts: int
    single: list[str]
    shares: dict[str, float]
    proportions: dict[str, float]
    class_proportions: str
    measured: list[Measurement]
    answered: dict[str, float]
    least_error: float
    surest_error: SurestError | None = None
    measured_for: str = OF_SAMPLE
    accuracy_interval: list[float] = field(default_factory=list)
    foreign: float = 0.0
    novelty: float = 0.0
    lost: float = 0.0

    @classmethod
    def of(cls, settings: dict[str, Any]) -> FitReport:
        """Restore a report from the settings of a fitted state, which may come from a stranger's folder."""
        found = {name: settings[name] for name in cls.__dataclass_fields__ if name in settings}
        for name, value in found.items():
            if not is_possible(name, value):
                raise ValueError(f"The fitted state has {name}={value!r}, which is impossible. Call fit() again.")
        return cls(**found)

    def __repr__(self) -> str:  # in a notebook, ``pipe.fit()`` as the last line shows it
        import pandas as pd

        head = (
            f"Fitted on {self.examples:,} examples of {len(self.labels)} label{'s' * (len(self.labels) != 1)} and "
            f"{self.documents:,} document{'s' * (self.documents != 1)} without labels."
        )
        if self.left_out:
            head += f" {self.left_out:,} documents were left out: held-out examples are answered better without them."
        if self.measured:
            head += (
                f" Measured on {self.measured_on}: {self.texts:,} text{'s' * (self.texts != 1)}. With more examples, "
                "weights rely less on the defaults."
            )
            head += self._measured_for()
        else:
            head += f" The weights are the defaults: there was {self.measured_on}."
        is_estimated = self.class_proportions == "estimated" and not self.foreign
        if self.documents and is_estimated and self.measured_on != HELD_OUT:
            ranked = sorted(self.proportions.items(), key=lambda pair: -pair[1])
            shown = ", ".join(f"{share:.0%} {name}" for name, share in ranked[:MAX_PRINTED_PROPORTIONS])
            head += f" All texts, estimated: {shown}{', and others' if len(ranked) > MAX_PRINTED_PROPORTIONS else ''}."
        if self.single:
            head += f" Only one example: {', '.join(map(repr, self.single))}."
        accuracy = {record["expert"]: record["accuracy"] for record in self.measured}
        chance = at_chance(accuracy.get(ENSEMBLE, 0), accuracy.get(LARGEST_CLASS), self.texts)
        shares = {name: f"{share:.2f}" for name, share in self.shares.items()}
        table = pd.DataFrame({"weight": shares}, dtype=object)
        if self.measured:
            measured = pd.DataFrame(self.measured).set_index("expert")
            for name, digits in (("accuracy", "{:.1%}"), ("macro_f1", "{:.1%}"), ("log_loss", "{:.3f}")):
                measured[name] = measured[name].map(digits.format)
            table = table.reindex(measured.index).fillna("").join(measured)
        return f"{head}\n{table.rename_axis(None).to_string()}{self._interval()}{chance}{self._answered()}"

    def _measured_for(self) -> str:
        """Sentence on the label proportions that the figures are for; empty if they are those of a sample."""
        if self.measured_for == OF_SAMPLE:
            return ""
        if self.measured_for == UNKNOWN and self.foreign:
            return (
                " Your labels are balanced, and documents that are of other labels, too, do not show how often each "
                "is: measured as if equally often. Give class_proportions if you know them."
            )
        if self.measured_for == UNKNOWN:
            advice = "if you know them" if self.left_out else "or add documents"
            return (
                " Your labels are balanced, and no documents show how often each label is: measured as if equally "
                f"often. Give class_proportions, {advice}."
            )
        return f" Your labels are balanced; measured for the proportions {self.measured_for}."

    def _interval(self) -> str:
        """Line with the interval of the ensemble's accuracy."""
        if not (self.accuracy_interval and self.measured):
            return ""
        accuracy = next(record["accuracy"] for record in self.measured if record["expert"] == ENSEMBLE)
        low, high = self.accuracy_interval
        return f"\nThe mixture is right in {accuracy:.1%} (95% interval: {low:.1%} to {high:.1%})."

    def foreign_documents(self) -> str:
        """Sentence on out-of-scope documents and what ``reject`` does about them; empty if there are none."""
        if not self.foreign:
            return ""
        found = f"About {self.foreign:.0%} of the documents seem to be of labels without examples: with reject, "
        if not self.novelty:
            return (
                f"{found}many such texts get an answer all the same, as {self.texts:,} measured texts are too few to "
                f"guarantee novelty={LOST:g} ({least_held_out(LOST)} are needed)."
            )
        return (
            f"{found}texts that are as unfamiliar get no label (novelty={self.novelty:g}), which loses at most "
            f"{self.novelty:.0%} of the texts of your labels, and {self.lost:.1%} of the {self.texts:,} measured ones."
        )

    def _answered(self) -> str:
        if not (self.answered and self.texts):
            return ""
        shares = [f"{share:.0%} at {float(error):.0%}" for error, share in self.answered.items()]
        return (
            f"\nShare answered at a given error limit (reject): {', '.join(shares)}. The lowest error that "
            f"{self.texts:,} texts can guarantee is {max(self.least_error, 0.001):.1%}."
            + describe_surest_error(self.surest_error)
            + (f"\n{self.foreign_documents()}" if self.foreign else "")
        )


def largest_class(targets: np.ndarray, count: int, multi_label: bool) -> np.ndarray:
    """Constant predictions ``(count, C)``: label proportions; with several labels, the most frequent set."""
    proportions = targets.mean(0)
    if multi_label:
        sets, counts = np.unique(targets, axis=0, return_counts=True)
        is_in_set = sets[counts.argmax()] > 0
        proportions = np.where(is_in_set, np.maximum(proportions, 0.5), np.minimum(proportions, 0.49))
    return np.tile(proportions, (count, 1))


def at_chance(accuracy: float, largest: float | None, texts: int) -> str:
    """Line if an accuracy on so many texts is not significantly better than that of the largest class; else empty."""
    if largest is None or texts == 0 or accuracy - largest > BY_CHANCE * np.sqrt(largest * (1 - largest) / texts):
        return ""
    return (
        f"\nNot reliably better than always the largest class: {accuracy:.1%} right against {largest:.1%}, on "
        f"{texts:,} texts. Nothing shows yet that these labels can be told apart: add examples, or check the labels."
    )
