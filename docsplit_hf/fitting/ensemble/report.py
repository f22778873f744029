"""Report of a fit: weights, held-out metrics and guarantees, printed as a table."""

from __future__ import annotations

import math
from dataclasses import MISSING, dataclass, field, fields
from typing import Annotated, Any, TypedDict

import numpy as np

from ..experts.saved_types import Count, ErrorRate, Fraction, NotNegative, Range, has_length, is_possible, types_of
from ..rejection import DEFAULT_LOST_FRACTION, AccuracyInterval, min_held_out_texts
from .guarantees import LabelOutcome, SurestError, describe_surest_error

HELD_OUT_TEXTS = "held-out texts"
MAX_PRINTED_PROPORTIONS = 5
MAX_PRINTED_LABELS = 5
LABEL_ERROR = 0.1  # error rate at which answers are counted by label
# Values of ``expert`` in ``FitReport.measured``, beside the names of the experts.
ENSEMBLE = "ensemble"
WORD_COUNTS = "word counts"  # baseline: logistic regression on TF-IDF of words
LARGEST_CLASS = "largest class"
# Values of ``FitReport.measured_for``, beside those of ``class_proportions``.
SAMPLE_PROPORTIONS = "the sample"
UNKNOWN_PROPORTIONS = "unknown"
# Metrics in the printed table, fields of ``Measurement``, with their formats.
PRINTED_METRICS = {"accuracy": "{:.1%}", "macro_f1": "{:.1%}", "log_loss": "{:.3f}"}
SIGNIFICANT_DEVIATIONS = 1.645  # standard deviations of a one-sided test at 5 %
# Fraction of texts that are versions of another one. With 400 texts, 75 public data sets have at most 0.39, or at least
# 0.59; ordinary ones lose where they are treated as versions.
MANY_VERSIONS = 0.45


class Measurement(TypedDict):
    """Metrics on held-out texts, computed by ``measure_predictions``."""

    expert: str  # name of an expert, or one of the three names above
    accuracy: Fraction
    macro_f1: Fraction
    log_loss: NotNegative


class LevelMeasurement(TypedDict):
    """Metrics of the ensemble at a level of the tree of labels, computed by ``measure_level``."""

    nodes: Count  # number of labels of this level
    accuracy: Fraction
    macro_f1: Fraction
    answered: dict[ErrorRate, Fraction]  # fraction of texts that get an answer at this level, by the error rate


def versions_mislead(version_fraction: float, agreeing: int) -> bool:
    """Whether documents may follow texts, not labels: many are versions, and not known to share labels.

    ``version_fraction``, ``agreeing``: as in the report.
    """
    return version_fraction >= MANY_VERSIONS and not agreeing


@dataclass(frozen=True, repr=False)
class FitReport:
    """Result of ``pipe.fit()``; printed, it is a table.

    Attributes:
        examples: The number of labeled examples.
        documents: The number of documents without labels that were used.
        left_out: The number of documents that were left out: held-out examples are answered better without them; or
            many texts are versions of others (``versions_mislead``) and they are not answered clearly better with them;
            or these documents lack a label, and there are too few examples to measure the harm.
        lacking: The labels that these documents lack, with their fraction of the documents by the examples alone.
        labels: The names of the labels that have examples.
        measured_on: What the experts were measured on: folds of the examples, or held-out texts.
        texts: The number of these texts; versions of one text count once.
        single: The labels with only one example, which is never held out.
        shares: The relative weight of each expert, from 0 to 1, by its name.
        proportions: The proportion of each label among all texts, examples and documents, by its name.
        class_proportions: The source of ``proportions``: ``"estimated"``, ``"uniform"`` or ``"given"``.
        measured: Records with the ``accuracy``, ``macro_f1`` and ``log_loss`` of each ``expert``. Three more have other
            values of ``expert``: ``"ensemble"``, the whole; ``"word counts"``, a logistic regression on TF-IDF
            of words, with at most 10,000 examples, only with the expert ``"word_regression"``; and ``"largest class"``,
            always the most frequent label. The metrics of the ensemble are slightly optimistic, as its weights were
            chosen on the same texts. If a text may have several labels, it gets those with a probability of at least
            0.5; calls use the chosen thresholds instead.
        answered: The fraction of these texts that get an answer with ``reject=error``, by the error: ``"0.01"``,
            ``"0.05"`` and ``"0.1"``. Empty if a text may have several labels.
        needed: About how many measured texts some answers would take, for each error at which none are given now, if as
            many of them were right. An error is missing if too many of the most confident answers are wrong.
        by_label: For each ``label`` the number of these texts that are ``answered`` with it at ``reject=0.1``, and how
            many of these answers are ``wrong``. Empty if labels are a tree, or a text may have several.
        least_error: The lowest error rate that this number of texts can guarantee.
        surest_error: The most confident wrong answer to one of these texts, if many more would be answered without it:
            its ``id``, its label (``labeled``), its answer (``answered``) and ``score``; and for an error rate
            ``error``, the fraction of answered texts with it (``share``) and without it (``share_without``). Its label
            may be wrong.
        measured_for: The label proportions for which everything is measured: ``"estimated"``, ``"uniform"`` or
            ``"given"``; ``"the sample"``, those of the measured texts; or ``"unknown"``, the same, if examples were
            drawn label by label and no documents show how frequent each label is.
        accuracy_interval: The 95 % interval of the accuracy of the ensemble, wider if the proportions are uncertain.
            Empty if a text may have several labels.
        out_of_scope: The estimated fraction of out-of-scope documents: those of labels without examples. 0 if chance
            may explain it.
        novelty: The default of ``novelty`` in calls with ``reject``: the fraction of texts of known labels that may be
            rejected as out-of-scope. 0 if ``out_of_scope`` is 0.
        lost: The fraction of the measured texts that this limit rejects.
        versions: The number of examples that are versions of another one, such as drafts of one text
            (``group_versions``). All versions of a text are held out together, and none is a neighbor of another.
        version_groups: The number of texts that these are versions of.
        contradictory: The number of these texts whose versions have different labels. 0 if versions do not have
            different labels significantly more often than any two examples.
        agreeing: The number of these texts whose versions have one label. 0 if versions do not have the same label
            significantly more often than any two examples.
        version_fraction: The fraction of all texts, examples and documents, that are versions of another one.
        paths: The path of each label, from the top to the label, if labels are a tree.
        levels: Records with the metrics of the ensemble at each level of the tree, from the top to the labels
            themselves: the number of its labels (``nodes``), ``accuracy``, ``macro_f1``, and the fraction ``answered``
            of the texts that get an answer at this level with ``reject=error``, by the error. Empty for flat labels.
        styles: How the examples of each label are written, by its name. Empty if style has little weight.
    """

    examples: Count
    documents: Count
    left_out: Count
    labels: list[str]
    measured_on: str
    texts: Count
    single: list[str]
    shares: dict[str, Fraction]
    proportions: dict[str, Fraction]
    class_proportions: str
    measured: list[Measurement]
    answered: dict[ErrorRate, Fraction]
    least_error: Fraction
    needed: dict[ErrorRate, Count] = field(default_factory=dict)
    by_label: list[LabelOutcome] = field(default_factory=list)
    surest_error: SurestError | None = None
    measured_for: str = SAMPLE_PROPORTIONS
    accuracy_interval: Annotated[list[Fraction], has_length((0, 2))] = field(default_factory=list)
    out_of_scope: Fraction = 0.0
    novelty: Annotated[float, Range(0, math.nextafter(1, 0))] = 0.0
    lost: Fraction = 0.0
    versions: Count = 0
    version_groups: Count = 0
    contradictory: Count = 0
    agreeing: Count = 0
    version_fraction: Fraction = 0.0
    paths: list[Annotated[list[str], has_length(range(1, 1_000))]] = field(default_factory=list)
    levels: list[LevelMeasurement] = field(default_factory=list)
    styles: dict[str, list[str]] = field(default_factory=dict)
    lacking: dict[str, Fraction] = field(default_factory=dict)

    @classmethod
    def of(cls, settings: dict[str, Any]) -> FitReport:
        """Restore a report from the settings of a fitted state, which may be from an untrusted folder."""
        kinds = types_of(cls)
        found = {name: settings[name] for name in kinds if name in settings}
        for name, value in found.items():
            if not is_possible(value, kinds[name]):
                raise ValueError(f"The fitted state has {name}={value!r}, which is impossible. Call fit() again.")
        return cls(**found)

    @property
    def versions_mislead(self) -> bool:
        """Whether many texts are versions of others, and examples do not show that these have the same label."""
        return versions_mislead(self.version_fraction, self.agreeing)

    def __repr__(self) -> str:  # shown in a notebook if ``pipe.fit()`` is the last line of a cell
        accuracy = {record["expert"]: record["accuracy"] for record in self.measured}
        chance = at_chance(accuracy.get(ENSEMBLE, 0), accuracy.get(LARGEST_CLASS), self.texts)
        parts = self._table(), self._interval(), chance, self._answered(), self._by_level(), self._styles()
        return f"{self._summary()}\n{''.join(parts)}"

    def _summary(self) -> str:
        """Sentences on the examples, the measured texts and the label proportions."""
        sentences = [
            f"Fitted on {self.examples:,} examples of {len(self.labels)} label{'s' * (len(self.labels) != 1)} and "
            f"{self.documents:,} document{'s' * (self.documents != 1)} without labels."
        ]
        if self.left_out:
            sentences.append(self.describe_left_out())
        if self.measured:
            sentences.append(
                f"Measured on {self.measured_on}: {self.texts:,} text{'s' * (self.texts != 1)}. With more examples, "
                "weights rely less on the defaults."
            )
            sentences.append(self._versions())
            sentences.append(self._measured_for())
        else:
            sentences.append(f"The weights are the defaults: there was {self.measured_on}.")
        is_estimated = self.class_proportions == "estimated" and not self.out_of_scope
        if self.documents and is_estimated and self.measured_on != HELD_OUT_TEXTS:
            ranked = sorted(self.proportions.items(), key=lambda pair: -pair[1])
            shown = ", ".join(f"{share:.0%} {name}" for name, share in ranked[:MAX_PRINTED_PROPORTIONS])
            more = ", and others" if len(ranked) > MAX_PRINTED_PROPORTIONS else ""
            sentences.append(f"All texts, estimated: {shown}{more}.")
        if self.single:
            sentences.append(f"Only one example: {', '.join(map(repr, self.single))}.")
        return " ".join(sentence for sentence in sentences if sentence)

    def _table(self) -> str:
        """Table of the weights and metrics of the experts, the ensemble and the baselines."""
        import pandas as pd

        weights = {name: f"{share:.2f}" for name, share in self.shares.items()}
        table = pd.DataFrame({"weight": weights}, dtype=object)
        if self.measured:
            measured = pd.DataFrame(self.measured).set_index("expert").reindex(columns=list(PRINTED_METRICS))
            for name, number_format in PRINTED_METRICS.items():
                measured[name] = measured[name].map(number_format.format, na_action="ignore")
            table = table.reindex(measured.index).join(measured.astype(object)).fillna("")
        return table.rename_axis(None).to_string()

    def _measured_for(self) -> str:
        """Sentences on the label proportions of the measurements; empty if the measured texts are a sample."""
        if self.measured_for == SAMPLE_PROPORTIONS:
            return ""
        if self.measured_for != UNKNOWN_PROPORTIONS:
            return f"Your examples are balanced; measured for {self.measured_for} proportions."
        if self.out_of_scope:
            return (
                "Your examples are balanced, and some documents are of other labels, so the frequency of each label is "
                "unknown: measured for equal frequencies. Give class_proportions if you know them."
            )
        advice = "if you know them" if self.left_out else "or add documents"
        return (
            "Your examples are balanced, and there are no documents to estimate the frequency of each label: "
            f"measured for equal frequencies. Give class_proportions, {advice}."
        )

    def describe_left_out(self) -> str:
        """Sentences on the documents that were left out."""
        return (
            f"{self.left_out:,} documents were left out: {self._reason_to_leave_out()}. If they should help, give some "
            "of them a label: suggest() names the most useful ones."
        )

    def _reason_to_leave_out(self) -> str:
        """Reason why documents were left out."""
        if self.lacking:
            shares = ", ".join(f"{share:.0%} {label!r}" for label, share in self.lacking.items())
            return (
                f"by the examples alone they have only {shares}, so others would be taken for it, and {self.texts:,} "
                "measured texts are too few to notice. Add documents of the kind that you will classify"
            )
        if not self.versions_mislead:
            return "held-out examples are answered better without them"
        return (
            f"{self.version_fraction:.0%} of all texts are versions of another one, so documents show which texts "
            "belong together, not which label they have, and held-out examples do not clearly show that they help. Few "
            "examples are still compared with their versions among them"
        )

    def _versions(self) -> str:
        """Sentences on examples that are versions of one text; empty if there are none."""
        if not self.versions:
            return ""
        found = (
            f"{self.versions:,} of {self.examples:,} examples are versions of another; they were measured with all "
            "versions held out together, and count once."
        )
        if not self.contradictory:
            return found
        return (
            f"{found} The versions of {self.contradictory:,} of {self.version_groups:,} texts have different labels, "
            "more than by chance: the nearest neighbor of a text is often a version with another label, so what a text "
            "is about does not show its label here. Give examples of as many different texts as you can."
        )

    def ensemble_accuracy(self) -> AccuracyInterval | None:
        """The accuracy of the ensemble with its 95 % interval; None if nothing was measured.

        Without ``accuracy_interval``, as with several labels per text, the interval is Wilson's.
        """
        accuracy = next((record["accuracy"] for record in self.measured if record["expert"] == ENSEMBLE), None)
        if accuracy is None:
            return None
        if self.accuracy_interval:
            low, high = self.accuracy_interval
            return AccuracyInterval(accuracy, low, high)
        from scipy.stats import binomtest  # here, as it takes a third of a second to import

        interval = binomtest(round(accuracy * self.texts), self.texts).proportion_ci(0.95, method="wilson")
        return AccuracyInterval(accuracy, interval.low, interval.high)

    def _interval(self) -> str:
        """Line with the accuracy of the ensemble and its interval."""
        found = self.ensemble_accuracy() if self.accuracy_interval else None
        if found is None:
            return ""
        return f"\nThe ensemble is right in {found.accuracy:.1%} (95% interval: {found.low:.1%} to {found.high:.1%})."

    def describe_out_of_scope(self) -> str:
        """Sentence on the out-of-scope documents that the fit found, and on the effect of ``reject``."""
        found = f"About {self.out_of_scope:.0%} of the documents seem to be of labels without examples (out-of-scope). "
        if not self.novelty:
            return (
                f"{found}Many such texts get an answer even with reject: {self.texts:,} measured texts are too few to "
                f"guarantee novelty={DEFAULT_LOST_FRACTION:g} ({min_held_out_texts(DEFAULT_LOST_FRACTION)} are needed)."
            )
        return (
            f"{found}With reject, texts as unfamiliar as these get no label (novelty={self.novelty:g}), nor do at "
            f"most {self.novelty:.0%} of the texts of your labels: {self.lost:.1%} of the {self.texts:,} measured ones."
        )

    def _answered(self) -> str:
        """Lines on the fraction of answered texts, the most confident error and out-of-scope documents."""
        if not (self.answered and self.texts):
            return ""
        needed = {error: f" (takes about {count:,} texts)" for error, count in self.needed.items()}
        shares = [f"{share:.0%} at {float(error):.0%}{needed.get(error, '')}" for error, share in self.answered.items()]
        return (
            f"\nShare answered at a given error limit (reject): {', '.join(shares)}. The lowest error that "
            f"{self.texts:,} texts can guarantee is {max(self.least_error, 0.001):.1%}."
            + self._worse_labels()
            + describe_surest_error(self.surest_error)
            + (f"\n{self.describe_out_of_scope()}" if self.out_of_scope else "")
        )

    def _worse_labels(self) -> str:
        """Line on the labels with more wrong answers than the error rate; empty if there are none."""
        worse = [found for found in self.by_label if found["wrong"] > LABEL_ERROR * found["answered"]]
        worse.sort(key=lambda found: -found["wrong"] / found["answered"])
        if not worse:
            return ""
        shown = [f"{found['label']} {found['wrong']} of {found['answered']}" for found in worse[:MAX_PRINTED_LABELS]]
        more = ", and others" if len(worse) > MAX_PRINTED_LABELS else ""
        return (
            f"\nWrong at {LABEL_ERROR:.0%}, by label of the answer: {', '.join(shown)}{more}. The limit is for all "
            "answers together; RejectionLimits(0.1, each_label=True) keeps it for each label."
        )

    def _by_level(self) -> str:
        """Lines on the levels of the tree of labels; empty for flat labels."""
        lines = ""
        for number, level in enumerate(self.levels, start=1):
            answered = ", ".join(f"{share:.0%} at {float(error):.0%}" for error, share in level["answered"].items())
            lines += (
                f"\nLevel {number} of the tree, {level['nodes']:,} labels: {level['accuracy']:.1%} right, macro F1 "
                f"{level['macro_f1']:.1%}. Share answered at this level: {answered}."
            )
        return lines

    def _styles(self) -> str:
        """Lines on how the examples of some labels are written."""
        shown = [(name, described) for name, described in self.styles.items() if described][:MAX_PRINTED_LABELS]
        return "".join(f"\nHow {name!r} is written: {'; '.join(described)}." for name, described in shown)


# Fields that states of the first version lack.
LATER_FIELDS = {one.name for one in fields(FitReport) if (one.default, one.default_factory) != (MISSING, MISSING)}


def at_chance(accuracy: float, largest: float | None, texts: int) -> str:
    """Line if an accuracy is not significantly better than ``largest``, that of the largest class; otherwise empty."""
    if largest is None or texts == 0:
        return ""
    standard_error = np.sqrt(largest * (1 - largest) / texts)
    if accuracy - largest > SIGNIFICANT_DEVIATIONS * standard_error:
        return ""
    return (
        f"\nNot reliably better than always the largest class: {accuracy:.1%} right against {largest:.1%}, on "
        f"{texts:,} texts. Nothing shows yet that these labels can be told apart: add examples, or check the labels."
    )
