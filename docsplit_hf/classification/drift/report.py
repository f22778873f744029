"""DriftReport: drift of the texts of a period, as a table and as JSON."""

from __future__ import annotations

import json
import textwrap
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NotRequired, TypedDict

import numpy as np

from ...encoders.checkpoints.inside_folder import write_file
from ...text.characters import on_one_line

CERTAINTY = 1 - 0.05 / 3  # of each of three intervals: by chance, at most 5 % of reports have one that excludes 0
WIDTH = 100  # characters of a printed line
MOST_LABELS = 20  # in the printed table
MOST_CHARACTERS = 60  # of a printed text
# Descriptions of texts for which a measure rose, and for which it fell.
MEASURES = {
    "closeness": ("nearer to the examples", "farther from the examples"),
    "novelty": ("more novel", "less novel"),
    "unknown_words": ("with more unknown words", "with fewer unknown words"),
}


@dataclass(frozen=True)
class Change:
    """The means of a measure over the texts of two periods.

    Attributes:
        now, then: The means; None if unknown.
        low, high: The 98.3 % interval of ``now - then``. None: a period has fewer than two texts, or no spread.
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
    """The change of a measure, ``(n,)`` now and ``(m,)`` then, with Welch's interval, which allows unequal spreads."""
    from scipy.stats import ttest_ind

    now = now.astype(np.float64)
    then = then.astype(np.float64)
    mean_now = float(now.mean()) if len(now) else None
    mean_then = float(then.mean()) if len(then) else None
    if min(len(now), len(then)) < 2 or np.ptp(now) == np.ptp(then) == 0:
        return Change(now=mean_now, then=mean_then)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # if one of the two has no spread
        interval = ttest_ind(now, then, equal_var=False).confidence_interval(CERTAINTY)
    return Change(now=mean_now, then=mean_then, low=float(interval.low), high=float(interval.high))


class Labeled(TypedDict):
    """Entry with the name of a label, or with a list of names if a text may have several."""

    label: NotRequired[str]
    labels: NotRequired[list[str]]


class NearestExample(Labeled):
    """The example nearest to a text."""

    text: str | None
    text_pair: str | None
    id: str
    distance: float  # squared L2


class NovelEntry(Labeled):
    """A novel text with its answer and its nearest example."""

    row: int
    text: str
    text_pair: str | None
    novelty: float
    score: float
    nearest: NearestExample


@dataclass(frozen=True)
class DriftReport:
    """The drift report of ``pipe.measure_drift(texts)``; printed, it is a table.

    Copies of a text in the store are ignored when the text is measured.

    Attributes:
        texts: The number of texts, without empty ones.
        empty: The number of empty texts, which are left out of everything.
        against: The texts of comparison, "then": ``"texts of an earlier period"``, ``"documents without labels"`` or
            ``"held-out examples"``. Held-out examples have no novelty, since their folds had fewer examples.
        earlier: The number of texts of comparison; from the store at most 2,000.
        reject: The error limit of accepted answers.
        level: The confidence below which texts are rejected, as by ``pipe(texts, reject=...)``; infinite if all are.
            None if no error limit can be guaranteed: a text may have several labels, or no example could be held out.
        rejected: The fraction of texts below that level, ``now`` and among the held-out examples, ``then``; or None.
        labels: For each label the fraction of texts answered with it, ``now`` and ``then``, rejected or not.
        drift: For each measure its mean ``now`` and ``then``, and the 98.3 % interval of the difference: 95 % for the
            three together. ``closeness``: the mean cosine of the 5 nearest examples. ``novelty``: from 0 to 1, the
            fraction of held-out examples that are more familiar. ``unknown_words``: the fraction of a text's running
            words that no other text of the store has.
        new_words: The number of texts with each word that the store does not have, for the 20 most frequent words.
        most_novel: The most novel texts: ``row`` among the given texts, ``text``, ``text_pair``, ``novelty``, the
            answer, ``label`` (``labels``, if a text may have several) and ``score``, and the ``nearest`` example.
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
    most_novel: list[NovelEntry]

    @property
    def verdict(self) -> str:
        """Whether something changed, as a sentence."""
        known = {name: change for name, change in self.drift.items() if change.low is not None}
        if not known:
            return "Changes cannot be measured: an interval takes two texts of each period."
        changed = []
        for name, change in known.items():
            if change.is_certain:
                rose, fell = MEASURES[name]
                changed.append(fell if change.now < change.then else rose)
        if not changed:
            measured = ", ".join(name.replace("_", " ") for name in known)
            return f"Nothing changed that {self.texts:,} texts could show in {measured}: every interval includes 0."
        return f"Something changed: the texts are {', '.join(changed)}."

    def to_json(self, path: str | Path) -> None:
        """Write the report and its ``verdict`` as JSON; an infinite ``level`` becomes null.

        Args:
            path: The file; an existing one is replaced.
        """
        content = asdict(self) | {"verdict": self.verdict}
        if self.level == float("inf"):  # JSON has no infinity
            content["level"] = None
        write_file(path, json.dumps(content, indent=2) + "\n")

    def __str__(self) -> str:
        import pandas as pd

        empty = f" ({self.empty:,} empty left out)" if self.empty else ""
        noun = "text" if self.texts == 1 else "texts"
        head = f"{self.texts:,} {noun}{empty} against {self.earlier:,} {self.against}."
        table = pd.DataFrame.from_dict({name: _cells(change) for name, change in self._rows().items()}, orient="index")
        lines = [textwrap.fill(f"{head} {self.verdict}", WIDTH), table.to_string()]
        if len(self.labels) > MOST_LABELS:
            lines.append(f"Of {len(self.labels)} labels those are shown that changed most.")
        if self.rejected is None:
            lines.append("No error rate can be guaranteed: texts may have several labels, or no example was held out.")
        elif self.level == float("inf"):
            lines.append(f"All are rejected: held-out examples cannot guarantee {100 * self.reject:g} % error.")
        if self.new_words:
            words = ", ".join(f"{word} ({count:,})" for word, count in self.new_words.items())
            lines.append(textwrap.fill(f"New words, and how many texts have them: {words}.", WIDTH))
        if self.most_novel:
            lines.append("Most novel:")
        for text in self.most_novel:
            nearest = text["nearest"]
            answer = f"{_answer(text)} ({text['score']:.2f})"
            lines.append(f"  {text['novelty']:.3f}  row {text['row']}, {answer}: {_cut(text['text'])}")
            lines.append(f"         nearest, {_answer(nearest)}: {_cut(nearest['text'] or nearest['id'])}")
        return "\n".join(lines)

    def _rows(self) -> dict[str, Change]:
        """The rows of the printed table."""
        rows = {}
        if self.rejected:
            rows[f"rejected for {100 * self.reject:g} % error"] = self.rejected
        labels = sorted(self.labels.items(), key=lambda item: -abs((item[1].now or 0) - (item[1].then or 0)))
        for name, change in labels[:MOST_LABELS]:
            # Without its interval: among many labels some would exclude 0 by chance.
            rows[f"label {_cut(name)}"] = Change(change.now, change.then)
        for name, change in self.drift.items():
            if change.now is not None:
                rows[name.replace("_", " ")] = change
        return rows


def _cells(change: Change) -> dict[str, str]:
    cells = {"now": "", "then": "", "difference": "", "98.3 % interval": ""}
    if change.now is not None:
        cells["now"] = f"{change.now:.3f}"
    if change.then is not None:
        cells["then"] = f"{change.then:.3f}"
    if change.now is not None and change.then is not None:
        cells["difference"] = f"{change.now - change.then:+.3f}"
    if change.low is not None:
        cells["98.3 % interval"] = f"{change.low:+.3f} to {change.high:+.3f}"
    return cells


def _answer(entry: Labeled) -> str:
    """The label or labels of an entry, as text."""
    if "label" in entry:
        return entry["label"]
    return ", ".join(entry["labels"]) or "no label"


def _cut(text: str) -> str:
    """A text on one line, and not longer than ``MOST_CHARACTERS``."""
    text = on_one_line(text[: 4 * MOST_CHARACTERS])
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 3]}..."
