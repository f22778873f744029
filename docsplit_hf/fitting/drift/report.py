"""DriftReport: the drift of texts, printed as a table or saved as JSON."""

from __future__ import annotations

import json
import textwrap
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from ...reading.characters import on_one_line
from ...storage.inside_folder import write_file

# Of each of three intervals, so that by chance at most 5 % of reports have one that excludes 0.
INTERVAL_CONFIDENCE = 1 - 0.05 / 3
PRINTED_WIDTH = 100  # characters per line
MAX_PRINTED_LABELS = 20  # in the printed table
MAX_PRINTED_CHARACTERS = 60  # of a printed text
# Descriptions of texts when the mean of a measure rises, and when it falls.
MEASURES = {
    "closeness": ("nearer to the examples", "farther from the examples"),
    "novelty": ("more novel", "less novel"),
    "unknown_words": ("with more unknown words", "with fewer unknown words"),
}


@dataclass(frozen=True)
class Change:
    """Means of a measure over the texts of two periods.

    Attributes:
        now, then: The means of the later and of the earlier period; None if unknown.
        low, high: The 98.3 % interval of ``now - then``. None if a period has fewer than two texts, or if all values of
            each period are equal.
    """

    now: float | None
    then: float | None
    low: float | None = None
    high: float | None = None

    @property
    def is_certain(self) -> bool:
        """Whether the interval excludes 0."""
        return self.low is not None and not self.low <= 0 <= self.high


def mean_change(now: np.ndarray, then: np.ndarray) -> Change:
    """Change of the mean of a measure, ``(n,)`` now and ``(m,)`` then, with Welch's interval for unequal variances."""
    from scipy.stats import ttest_ind

    now = now.astype(np.float64)
    then = then.astype(np.float64)
    mean_now = float(now.mean()) if len(now) else None
    mean_then = float(then.mean()) if len(then) else None
    if min(len(now), len(then)) < 2 or np.ptp(now) == np.ptp(then) == 0:
        return Change(now=mean_now, then=mean_then)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # if all values of one period are equal
        interval = ttest_ind(now, then, equal_var=False).confidence_interval(INTERVAL_CONFIDENCE)
    return Change(now=mean_now, then=mean_then, low=float(interval.low), high=float(interval.high))


@dataclass(frozen=True)
class DriftReport:
    """The drift report of ``pipe.measure_drift(texts)``; printed, it is a table.

    Copies of a text in the store are ignored when the text is measured.

    Attributes:
        texts: The number of texts, without empty ones.
        empty: The number of empty texts, which are ignored.
        against: The texts of comparison, "then": ``"texts of an earlier period"``, ``"documents without labels"`` or
            ``"held-out examples"``. Held-out examples have no novelty, since their folds had fewer examples.
        earlier: The number of texts of comparison; at most 2,000 of a datastore.
        reject: The error rate to allow.
        level: The confidence threshold below which ``pipe(texts, reject=...)`` rejects texts; infinite if it rejects
            all. None if no error rate can be guaranteed: a text may have several labels, or no example was held out.
        rejected: The fraction of rejected texts, ``now``, and of rejected held-out examples, ``then``; None if
            ``level`` is.
        labels: For each label the fraction of texts answered with it, ``now`` and ``then``, with rejected texts.
        drift: For each of three measures its mean ``now`` and ``then``, and the 98.3 % interval of the difference (95 %
            for the three together). ``closeness``: the mean cosine to the 5 nearest examples. ``novelty``: from 0 to 1,
            the fraction of held-out examples that are more familiar. ``unknown_words``: the fraction of the words of a
            text that no other text of the datastore has.
        new_words: The number of texts with each of the 20 most frequent words that the datastore does not have.
    """

    texts: int
    empty: int
    against: str
    earlier: int
    reject: float
    level: float | None
    rejected: Change | None
    labels: dict[str, Change]
    drift: dict[str, Change]
    new_words: dict[str, int]

    @property
    def verdict(self) -> str:
        """Sentence on the measures that changed."""
        known = {name: change for name, change in self.drift.items() if change.low is not None}
        if not known:
            return "Changes cannot be measured: intervals need at least two texts of each period."
        changed = [MEASURES[name][one.now < one.then] for name, one in known.items() if one.is_certain]
        if changed:
            return f"Significant change: the texts are {', '.join(changed)}."
        measured = ", ".join(known).replace("_", " ")
        return f"No significant change of {self.texts:,} texts in {measured}: every interval includes 0."

    def to_json(self, path: str | Path) -> None:
        """Write the report and its ``verdict`` as JSON; an infinite ``level`` becomes null.

        Args:
            path: The file; an existing one is replaced.
        """
        level = None if self.level == float("inf") else self.level  # JSON has no infinity
        content = asdict(self) | {"level": level, "verdict": self.verdict}
        write_file(path, json.dumps(content, indent=2) + "\n")

    def __str__(self) -> str:
        import pandas as pd

        empty = f" ({self.empty:,} empty left out)" if self.empty else ""
        head = f"{self.texts:,} text{'s' * (self.texts != 1)}{empty} against {self.earlier:,} {self.against}."
        table = pd.DataFrame.from_dict({name: _cells(change) for name, change in self._rows().items()}, orient="index")
        lines = [textwrap.fill(f"{head} {self.verdict}", PRINTED_WIDTH), table.to_string()]
        if len(self.labels) > MAX_PRINTED_LABELS:
            lines.append(
                f"Only the {MAX_PRINTED_LABELS} of {len(self.labels)} labels with the largest changes are shown."
            )
        if self.rejected is None:
            lines.append("No error rate can be guaranteed: texts may have several labels, or no example was held out.")
        elif self.level == float("inf"):
            lines.append(
                f"All texts are rejected: the held-out examples cannot guarantee {100 * self.reject:g} % error."
            )
        if self.new_words:
            words = ", ".join(f"{word} ({count:,})" for word, count in self.new_words.items())
            lines.append(textwrap.fill(f"New words, with the number of texts: {words}.", PRINTED_WIDTH))
        return "\n".join(lines)

    def _rows(self) -> dict[str, Change]:
        """Rows of the printed table."""
        rows = {}
        if self.rejected:
            rows[f"rejected for {100 * self.reject:g} % error"] = self.rejected
        labels = sorted(self.labels.items(), key=lambda item: -abs((item[1].now or 0) - (item[1].then or 0)))
        for name, change in labels[:MAX_PRINTED_LABELS]:
            # No interval: with many labels, some would exclude 0 by chance.
            rows[f"label {_cut(name)}"] = Change(change.now, change.then)
        return rows | {name.replace("_", " "): one for name, one in self.drift.items() if one.now is not None}


def _cells(change: Change) -> dict[str, str]:
    """Format the cells of one row of the printed table."""
    now, then = ("" if mean is None else f"{mean:.3f}" for mean in (change.now, change.then))
    difference = f"{change.now - change.then:+.3f}" if now and then else ""
    interval = "" if change.low is None else f"{change.low:+.3f} to {change.high:+.3f}"
    return {"now": now, "then": then, "difference": difference, "98.3 % interval": interval}


def _cut(text: str) -> str:
    """Cut a text to ``MAX_PRINTED_CHARACTERS`` on one line."""
    text = on_one_line(text[: 4 * MAX_PRINTED_CHARACTERS])
    return text if len(text) <= MAX_PRINTED_CHARACTERS else f"{text[: MAX_PRINTED_CHARACTERS - 3]}..."
