"""Guaranteed error rates and novelty limits, by the answers to held-out texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple, TypedDict

import numpy as np

from ..experts.saved_types import UP_TO_ONE, Array, Count, Fraction
from ..label_sets import LabelSetLimits, label_set_limits, nonconformity_of_right_labels
from ..label_tree import (
    FLAT,
    NO_LEVEL,
    LabelTree,
    answered_levels,
    level_failure,
    level_thresholds,
    path_probabilities,
    right_by_level,
)
from ..rejection import (
    HIGHEST_NOVELTY,
    Groups,
    confidence,
    confidence_threshold,
    guaranteed_limit,
    importance_weights,
    least_error,
    novelty,
    texts_needed,
)

CANDIDATE_ERRORS = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)  # the smallest achievable one is reported
NOTHING_HELD_OUT = (
    "There are no held-out answers to measure errors and novelty by: each label has one example, or its description "
    "alone. Add examples, and fit() again; or fit(held_out_texts=texts, held_out_labels=labels)."
)


class HeldOutAnswers(NamedTuple):
    """Answers to m held-out texts: examples in folds, or texts that were given to ``fit``."""

    # Hashes of the examples, as in the corpus, int64 (m,); 0 for texts that are no examples.
    ids: Annotated[np.ndarray, Array(("held out",), kind="i")]
    probabilities: Annotated[np.ndarray, Array(("held out", "labels"), UP_TO_ONE, is_distribution=True)]  # float32
    labels: Annotated[np.ndarray, Array(("held out", "labels"), kind="b")]  # at the time of the fit
    familiarity: Annotated[np.ndarray, Array(("held out",), UP_TO_ONE)]  # float32 (m,)
    # Whether the guarantees count a text, bool (m,): one of each group of versions.
    is_counted: Annotated[np.ndarray, Array(("held out",), kind="b")]

    @property
    def right(self) -> np.ndarray:
        """Whether the most probable label is right, bool ``(m,)``."""
        return np.take_along_axis(self.labels, self.probabilities.argmax(1)[:, None], 1)[:, 0]

    def rows(self, chosen: np.ndarray) -> HeldOutAnswers:
        """The answers to some of the texts, bool ``(m,)``."""
        return HeldOutAnswers(*(values[chosen] for values in self))


class LabelOutcome(TypedDict):
    """What becomes of the held-out texts that are answered with a label, at an error rate."""

    label: str
    answered: Count
    wrong: Count


class SurestError(TypedDict):
    """The most confident wrong answer to a held-out text."""

    id: str | None  # of the example; None if the text is no example
    labeled: str  # its label
    answered: str  # the wrong answer
    score: Fraction  # probability of the wrong answer
    error: Fraction  # the error rate at which the gain is largest
    share: Fraction  # of texts answered at that error rate
    share_without: Fraction  # the same fraction if this text were not held out


class Guarantees(NamedTuple):
    """Held-out answers, and the error rates that they guarantee.

    Of the versions of one text, one is held out here: a guarantee counts each group once, as its texts are right or
    wrong together.

    ``lost`` is the fraction of texts of known labels that may be rejected as novel; None: the default
    that ``fit`` chose.
    """

    held_out: HeldOutAnswers
    # (B, C): draws of the label proportions among all texts; B is 0 if the held-out texts already have these
    proportion_draws: np.ndarray
    multi_label: bool
    default_lost: float  # 0: only HIGHEST_NOVELTY limits novelty
    tree: LabelTree = FLAT  # of the C labels

    def importance_weights(self) -> np.ndarray:
        """Importance weights of the held-out texts, ``(B, m)``; the mean is 1."""
        return importance_weights(self.held_out.labels, self.proportion_draws)

    def novelty(self, familiarity: np.ndarray) -> np.ndarray:
        """Novelty of texts ``(N,)`` by their familiarity, relative to the held-out texts."""
        self._require_held_out()
        return novelty(familiarity, self.held_out.familiarity)

    def confidence(self, probabilities: np.ndarray, novelty: np.ndarray, lost: float | None = None) -> np.ndarray:
        """Confidence of answers, ``(N,)``; 0 of texts above the novelty limit."""
        return confidence(probabilities, novelty, self.novelty_limit(lost))

    def novelty_limit(self, lost: float | None = None) -> float:
        """Highest novelty at which a text still gets an answer."""
        lost = self.default_lost if lost is None else lost
        values = self.novelty(self.held_out.familiarity)
        return min(HIGHEST_NOVELTY, guaranteed_limit(values, lost, self.importance_weights()) if lost else 1.0)

    def lost_fraction(self) -> float:
        """Fraction of the held-out texts above the novelty limit."""
        return self._fraction(self.novelty(self.held_out.familiarity) > self.novelty_limit())

    def confidence_threshold(self, error: float, lost: float | None = None) -> float:
        """Lowest confidence at which the error rate is guaranteed to be at most ``error``; infinity if there is none.

        With labels that are a tree, this is the threshold of the labels themselves.
        """
        return float(self.level_thresholds(error, lost)[-1])

    def level_thresholds(self, error: float, lost: float | None = None) -> np.ndarray:
        """Threshold of each level, ``(D,)``, from the top; flat labels have one level.

        With a novelty limit a threshold is at least as high as without, if that one is finite. Novel held-out texts
        are often answered wrongly; without them, less confident answers to other novel texts would be accepted.
        """
        if self.multi_label:
            raise ValueError("reject is for one label per text: here a text has those that reach their thresholds.")
        return _not_lowered(self._tested_thresholds(error, lost), self._tested_thresholds(error, lost=0.0))

    def _tested_thresholds(self, error: float, lost: float | None) -> np.ndarray:
        held_out = self.held_out
        sure = self._path_confidence(held_out.probabilities, self.novelty(held_out.familiarity), lost, self.tree)
        right = right_by_level(held_out.probabilities, held_out.labels, self.tree)
        return level_thresholds(sure, right, error, self.importance_weights(), level_failure(len(self.tree) + 1))

    def label_thresholds(self, error: float, lost: float | None = None) -> np.ndarray:
        """Threshold of each label, ``(C,)``, by the held-out texts that are answered with it; infinity if too few are.

        The error rate holds among the answers with a label, for each label in 9 of 10 draws (Mondrian).
        """
        return _not_lowered(self._tested_by_label(error, lost), self._tested_by_label(error, lost=0.0))

    def _tested_by_label(self, error: float, lost: float | None) -> np.ndarray:
        held_out = self.held_out
        is_answer = np.eye(held_out.probabilities.shape[1], dtype=bool)[held_out.probabilities.argmax(1)]
        sure = np.where(is_answer, self.held_out_confidence(lost)[:, None], 0)
        importance = self.importance_weights()
        return np.array([confidence_threshold(of_label, held_out.right, error, importance) for of_label in sure.T])

    def outcomes_by_label(self, error: float, names: Sequence[str]) -> list[LabelOutcome]:
        """Count the held-out texts that are answered with each label, and the wrong answers among them."""
        is_answered, is_right = self.held_out_outcomes(error)
        answers = self.held_out.probabilities.argmax(1)
        answered = np.bincount(answers[is_answered], minlength=len(names)).tolist()
        right = np.bincount(answers[is_right], minlength=len(names)).tolist()
        rows = zip(names, answered, right, strict=True)
        return [LabelOutcome(label=name, answered=count, wrong=count - kept) for name, count, kept in rows if count]

    def texts_needed(self, error: float) -> int | None:
        """About how many held-out texts would guarantee an error rate for some.

        None if too many answers are wrong, or none is held out.
        """
        if not len(self.held_out.ids):
            return None
        return texts_needed(self.held_out_confidence(), self.held_out.right, error, self.importance_weights())

    def answered_levels(
        self,
        probabilities: np.ndarray,
        novelty: np.ndarray,
        error: float,
        lost: float | None = None,
        tree: LabelTree | None = None,
    ) -> np.ndarray:
        """Number of the level at which each text gets an answer, int64 ``(N,)``; NO_LEVEL for a rejected text.

        ``tree`` is of all labels of ``probabilities`` ``(N, L)``; None: of those that were fitted.
        """
        sure = self._path_confidence(probabilities, novelty, lost, self.tree if tree is None else tree)
        return answered_levels(sure, self.level_thresholds(error, lost))

    def _path_confidence(
        self, probabilities: np.ndarray, novelty: np.ndarray, lost: float | None, tree: LabelTree
    ) -> np.ndarray:
        """Confidence of the answers at each level, ``(N, D)``; 0 of texts above the novelty limit."""
        limit = self.novelty_limit(lost)
        of_levels = path_probabilities(probabilities, tree).T
        return np.stack([confidence(of_level[:, None], novelty, limit) for of_level in of_levels], axis=1)

    def held_out_levels(self, error: float) -> np.ndarray:
        """Number of the level at which each held-out text gets an answer, ``(m,)``; NO_LEVEL for a rejected text."""
        held_out = self.held_out
        return self.answered_levels(held_out.probabilities, self.novelty(held_out.familiarity), error)

    def held_out_outcomes(self, error: float) -> tuple[np.ndarray, np.ndarray]:
        """Whether each held-out text is answered at an error rate, and whether rightly, bool ``(m,)`` each."""
        levels = self.held_out_levels(error)
        right = right_by_level(self.held_out.probabilities, self.held_out.labels, self.tree)
        is_answered = levels != NO_LEVEL
        return is_answered, is_answered & right[np.arange(len(levels)), levels]

    def answered_fraction(self, error: float) -> float:
        """Fraction of texts that get an answer at an error rate of at most ``error``, estimated on held-out texts."""
        if not len(self.held_out.ids):
            return 0.0
        return self._fraction(self.held_out_levels(error) != NO_LEVEL)

    def answered_by_level(self, error: float) -> list[float]:
        """Fraction of texts that get an answer at each level, from the top, estimated on held-out texts."""
        levels = self.held_out_levels(error)
        return [self._fraction(levels == level) for level in range(len(self.tree) + 1)]

    def least_error(self) -> float:
        """Lowest error rate that this number of held-out texts can guarantee."""
        if not len(self.held_out.ids):
            return 1.0
        has_answer = self.held_out_confidence() > 0
        return least_error(self.importance_weights()[:, has_answer], level_failure(len(self.tree) + 1))

    def label_set_limits(self, level: float) -> LabelSetLimits:
        """Limits at which sets of labels hold the right ones of a text with the probability ``level``."""
        self._require_held_out()
        held_out = self.held_out
        return label_set_limits(
            nonconformity_of_right_labels(held_out.probabilities, held_out.labels),
            held_out.labels,
            self.importance_weights(),
            level,
            self.multi_label,
        )

    def effective_size(self) -> float:
        """Number of held-out texts with equal weights that guarantee as much as these; mean over the draws."""
        return float(Groups.of(self.held_out.right, self.importance_weights()).sizes[:, -1].mean())

    def describe(self, error: float) -> str:
        """Describe in sentences the error rates that can be guaranteed, and what ``error`` takes."""
        achievable = [rate for rate in CANDIDATE_ERRORS if np.isfinite(self.level_thresholds(rate)).any()]
        found = f"Here they guarantee {achievable[0]:g}" if achievable else "They guarantee nothing: too many are wrong"
        needed = self.texts_needed(error)
        forecast = f" {error:g} takes about {needed:,}, if their answers are as good as these." if needed else ""
        return (
            f"The lowest error that {len(self.held_out.ids):,} held-out texts can guarantee is "
            f"{self.least_error():.3g}, if all their answers are right. {found}.{forecast} More examples allow a "
            "lower one, and so do corrected labels: audit()."
        )

    def held_out_confidence(self, lost: float | None = None) -> np.ndarray:
        """Confidence of the answers to the held-out texts, ``(m,)``."""
        return self.confidence(self.held_out.probabilities, self.novelty(self.held_out.familiarity), lost)

    def _fraction(self, is_chosen: np.ndarray) -> float:
        """Fraction of all texts that the chosen held-out texts, bool ``(m,)``, represent; mean over the draws."""
        importance = self.importance_weights()
        return float(((importance * is_chosen).sum(1) / importance.sum(1)).mean())

    def _require_held_out(self) -> None:
        if not len(self.held_out.ids):
            raise ValueError(NOTHING_HELD_OUT)


def _not_lowered(thresholds: np.ndarray, without_limit: np.ndarray) -> np.ndarray:
    """Thresholds with a novelty limit, at least as high as those without it that are finite."""
    return np.where(np.isfinite(without_limit), np.maximum(thresholds, without_limit), thresholds)


def describe_surest_error(found: SurestError | None) -> str:
    """Describe the error in a line for the report; empty if there is none."""
    if found is None:
        return ""
    text = "a held-out text" if found["id"] is None else f"example {found['id']!r}"
    return (
        f"\nThe most confident wrong answer is to {text}: labeled {found['labeled']!r}, answered {found['answered']!r} "
        f"with score {found['score']:.2f}. Without it, {found['share_without']:.0%} would be answered at "
        f"{found['error']:.0%}, instead of {found['share']:.0%}: check its label."
    )
