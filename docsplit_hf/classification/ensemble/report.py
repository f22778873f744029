"""FitReport: what fit chose, and why, as a table."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..rejection import LOST, least_held_out
from .state_values import is_possible
from .surest_error import describe_surest_error

HELD_OUT = "held-out texts"
MOST_SHOWN = 5  # labels whose proportions are printed
WORD_COUNTS, LARGEST_CLASS = "word counts", "largest class"
OF_SAMPLE, UNKNOWN = "the sample", "unknown"  # what is measured for, beside the three of class_proportions
BY_CHANCE = 1.645  # standard deviations that chance alone exceeds once in twenty times


@dataclass(frozen=True, repr=False)
class FitReport:
    """What ``pipe.fit()`` found; printed, it is a table.

    Attributes:
        examples: The number of labeled examples.
        documents: The number of documents without labels that were used.
        left_out: The number of those that were not, as folds of the examples are answered better without any.
        labels: The names of the labels that have examples.
        measured_on: What the experts were measured on: folds of the examples, or held-out texts.
        texts: How many these are.
        single: The labels that have one example, which is never held out.
        shares: What each expert counts, from 0 to 1, by its name.
        proportions: How often each label is among all texts, examples and documents, by its name.
        class_proportions: Where these come from: ``"estimated"``, ``"uniform"`` or ``"given"``.
        measured: The ``accuracy``, ``macro_f1`` and ``log_loss`` there of each ``expert``, of the mixture, of word
            counts (TF-IDF with logistic regression, on at most 10,000 examples), and of always the largest class. The
            mixture's own are a little too good, as its weights were chosen there. Where a text may have several labels,
            a probability of 0.5 is a yes, not the thresholds by which calls give ``labels``.
        answered: The share of these texts that gets an answer with ``reject=error``, by the error: ``"0.01"``,
            ``"0.05"`` and ``"0.1"``. Empty where a text may have several labels.
        least_error: The lowest error that so many texts can guarantee.
        surest_error: The surest wrong answer to one of these texts, where many more would be answered without it: its
            ``id``, what it is ``labeled`` and ``answered``, the ``score``, and at an ``error`` the ``share`` that is
            answered, and ``share_without`` it. Its label may be wrong.
        measured_for: Which proportions of the labels all this is measured for: ``"estimated"``, ``"uniform"`` or
            ``"given"``; ``"the sample"``, those of the texts that it is measured on; or ``"unknown"``, the same where
            examples were drawn label by label and no document shows how often each label is.
        accuracy_interval: The 95 % interval of the accuracy of the mixture, which is wider where the proportions are
            uncertain. Empty where a text may have several labels.
        foreign: The share of the documents that seem to be of labels without examples; 0 where chance may explain it.
        novelty: What calls with ``reject`` take for ``novelty``: the share of texts of the known labels that may be
            lost. 0 where ``foreign`` is 0.
        lost: The share of the measured texts that it loses.
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
    measured: list[dict[str, Any]]
    answered: dict[str, float]
    least_error: float
    surest_error: dict[str, Any] | None = None
    measured_for: str = OF_SAMPLE
    accuracy_interval: list[float] = field(default_factory=list)
    foreign: float = 0.0
    novelty: float = 0.0
    lost: float = 0.0

    @classmethod
    def of(cls, settings: dict[str, Any]) -> FitReport:
        """The report of fitted experts, whose settings may come from a stranger's folder."""
        found = {name: settings[name] for name in cls.__dataclass_fields__ if name in settings}
        for name, value in found.items():
            if not is_possible(name, value):
                raise ValueError(f"What was fitted says {name}={value!r}, which cannot be. Call fit() again.")
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
            shown = ", ".join(f"{share:.0%} {name}" for name, share in ranked[:MOST_SHOWN])
            head += f" All texts, estimated: {shown}{', and others' if len(ranked) > MOST_SHOWN else ''}."
        if self.single:
            head += f" Only one example: {', '.join(map(repr, self.single))}."
        accuracy = {record["expert"]: record["accuracy"] for record in self.measured}
        chance = at_chance(accuracy.get("mixture", 0), accuracy.get(LARGEST_CLASS), self.texts)
        shares = {name: f"{share:.2f}" for name, share in self.shares.items()}
        table = pd.DataFrame({"weight": shares}, dtype=object)
        if self.measured:
            measured = pd.DataFrame(self.measured).set_index("expert")
            for name, digits in (("accuracy", "{:.1%}"), ("macro_f1", "{:.1%}"), ("log_loss", "{:.3f}")):
                measured[name] = measured[name].map(digits.format)
            table = table.reindex(measured.index).fillna("").join(measured)
        return f"{head}\n{table.rename_axis(None).to_string()}{self._interval()}{chance}{self._answered()}"

    def _measured_for(self) -> str:
        """Which proportions of the labels the figures are for, as a sentence, where it is not those of a sample."""
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
        """The interval of the accuracy of the mixture, as a line."""
        if not (self.accuracy_interval and self.measured):
            return ""
        accuracy = next(record["accuracy"] for record in self.measured if record["expert"] == "mixture")
        low, high = self.accuracy_interval
        return f"\nThe mixture is right in {accuracy:.1%} (95% interval: {low:.1%} to {high:.1%})."

    def foreign_documents(self) -> str:
        """What ``reject`` does as documents are of other labels, as a sentence; empty where they are not."""
        if not self.foreign:
            return ""
        found = f"About {self.foreign:.0%} of the documents seem to be of labels without examples: with reject, "
        if not self.novelty:
            return (
                f"{found}many such texts get an answer all the same, as {self.texts:,} measured texts are too few to "
                f"guarantee what novelty={LOST:g} promises ({least_held_out(LOST)} are needed)."
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


def largest_class(targets: np.ndarray, count: int, several: bool) -> np.ndarray:
    """The same for each of ``count`` texts: the shares of the labels; of several, the most frequent set is likely."""
    shares = targets.mean(0)
    if several:
        sets, counts = np.unique(targets, axis=0, return_counts=True)
        shares = np.where(sets[counts.argmax()] > 0, np.maximum(shares, 0.5), np.minimum(shares, 0.49))
    return np.tile(shares, (count, 1))


def at_chance(accuracy: float, largest: float | None, texts: int) -> str:
    """A line where an accuracy on so many texts is, but for chance, no better than that of the largest class."""
    if largest is None or texts == 0 or accuracy - largest > BY_CHANCE * np.sqrt(largest * (1 - largest) / texts):
        return ""
    return (
        f"\nNot reliably better than always the largest class: {accuracy:.1%} right against {largest:.1%}, on "
        f"{texts:,} texts. Nothing shows yet that these labels can be told apart: add examples, or check the labels."
    )
