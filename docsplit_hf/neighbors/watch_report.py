"""WatchReport: what came in against what a store knows, as a table and as JSON."""

from __future__ import annotations

import json
import textwrap
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..text.characters import on_one_line

CERTAINTY = 1 - 0.05 / 3  # of three intervals: by chance, at most 5 % of reports have one off 0
WIDTH, MOST_LABELS, MOST_CHARACTERS = 100, 20, 60  # of what is printed: of a line, labels, of a text
# What is said of each where it rose, and where it fell.
MEASURES = {
    "closeness": ("nearer to the examples", "farther from the examples"),
    "novelty": ("more novel", "less novel"),
    "unknown_words": ("with more unknown words", "with fewer unknown words"),
}


@dataclass(frozen=True)
class Change:
    """A mean over the texts of two periods; None of a period where it is not known.

    Attributes:
        now, then: The means.
        low, high: The 98.3 % interval of now less then. None: a period has fewer than two texts, or no spread.
    """

    now: float | None
    then: float | None
    low: float | None = None
    high: float | None = None

    @property
    def is_certain(self) -> bool:
        """Whether the interval is off 0."""
        return self.low is not None and not self.low <= 0 <= self.high


def change_of(now: np.ndarray, then: np.ndarray) -> Change:
    """The change of a measure, ``(n,)`` now and ``(m,)`` then; the interval is Welch's, by which spreads may differ."""
    from scipy.stats import ttest_ind

    now, then = now.astype(np.float64), then.astype(np.float64)
    means = [float(values.mean()) if len(values) else None for values in (now, then)]
    if min(len(now), len(then)) < 2 or np.ptp(now) == np.ptp(then) == 0:
        return Change(*means)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # that one of the two has no spread
        interval = ttest_ind(now, then, equal_var=False).confidence_interval(CERTAINTY)
    return Change(*means, float(interval.low), float(interval.high))


@dataclass(frozen=True)
class WatchReport:
    """What ``pipe.report(texts)`` found; printed, it is a table.

    A text that the store has already is measured as if it had not.

    Attributes:
        texts: How many texts came in, without empty ones.
        empty: How many more were empty: they are left out of everything.
        against: What they are compared with, "then": ``"texts of an earlier period"``, ``"documents without
            labels"`` or ``"held-out examples"``, whose novelty is not told, as fewer examples were there for them.
        earlier: How many texts these are; at most 2,000 of those in the store.
        reject: The error limit of the answers that are given.
        level: The confidence below which texts are rejected, as by ``pipe(texts, reject=...)``: infinite where all are.
            None: a text may have several labels, or no example could be held out, and no error limit can be guaranteed.
        rejected: The share of texts below that level, ``now`` and among the held-out examples, ``then``; or None.
        labels: For each label the share of texts that were answered by it, ``now`` and ``then``, rejected or not.
        drift: ``closeness``: the mean cosine of the 5 nearest examples. ``novelty``: from 0 to 1, the share of held-out
            examples that are more familiar. ``unknown_words``: the share of a text's running words that no other text
            of the store has. Each with its mean ``now`` and ``then``, and the 98.3 % interval of the difference: 95 %
            for the three together.
        new_words: How many texts have each of the words that the store does not have, the 20 most frequent ones.
        most_novel: The most novel texts: ``row`` among those that were given, ``text``, ``text_pair``, ``novelty``,
            the present answer, ``label`` (``labels``, where there may be several) and ``score``, and the ``nearest``
            example.
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
    most_novel: list[dict[str, Any]]

    @property
    def verdict(self) -> str:
        """Whether something changed, as a sentence."""
        known = {name: change for name, change in self.drift.items() if change.low is not None}
        if not known:
            return "Whether something changed cannot be said: an interval takes two texts of each period."
        changed = [MEASURES[name][change.now < change.then] for name, change in known.items() if change.is_certain]
        if not changed:
            measured = ", ".join(name.replace("_", " ") for name in known)
            return f"Nothing changed that {self.texts:,} texts could show in {measured}: every interval includes 0."
        return f"Something changed: the texts are {', '.join(changed)}."

    def to_json(self, path: str | Path) -> None:
        """Write the report, and its ``verdict``; a level that is infinite is null.

        Args:
            path: The file, which is replaced.
        """
        content = asdict(self) | {"verdict": self.verdict}
        if self.level == float("inf"):  # which JSON does not have
            content["level"] = None
        Path(path).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")

    def __str__(self) -> str:
        import pandas as pd

        empty = f" ({self.empty:,} empty left out)" if self.empty else ""
        head = f"{self.texts:,} text{'s' * (self.texts != 1)}{empty} against {self.earlier:,} {self.against}."
        rows = {f"rejected for {100 * self.reject:g} % error": self.rejected} if self.rejected else {}
        shown = sorted(self.labels.items(), key=lambda item: -abs((item[1].now or 0) - (item[1].then or 0)))
        # Without intervals: of many labels some would be off 0 by chance.
        rows |= {f"label {_cut(name)}": Change(change.now, change.then) for name, change in shown[:MOST_LABELS]}
        rows |= {name.replace("_", " "): change for name, change in self.drift.items() if change.now is not None}
        table = pd.DataFrame.from_dict({name: _cells(change) for name, change in rows.items()}, orient="index")
        lines = [textwrap.fill(f"{head} {self.verdict}", WIDTH), table.to_string()]
        if len(shown) > MOST_LABELS:
            lines.append(f"Of {len(shown)} labels those are shown that changed most.")
        if self.rejected is None:
            lines.append("No error can be guaranteed: texts may have several labels, or no example was held out.")
        elif self.level == float("inf"):
            lines.append(f"All are rejected: held-out examples cannot guarantee {100 * self.reject:g} % error.")
        if self.new_words:
            words = ", ".join(f"{word} ({count:,})" for word, count in self.new_words.items())
            lines.append(textwrap.fill(f"New words, and how many texts have them: {words}.", WIDTH))
        lines += ["Most novel:"] if self.most_novel else []
        for text in self.most_novel:
            answer, nearest = f"{_answer(text)} ({text['score']:.2f})", text["nearest"]
            lines.append(f"  {text['novelty']:.3f}  row {text['row']}, {answer}: {_cut(text['text'])}")
            lines.append(f"         nearest, {_answer(nearest)}: {_cut(nearest['text'] or nearest['id'])}")
        return "\n".join(lines)


def _cells(change: Change) -> dict[str, str]:
    difference = None if None in (change.now, change.then) else change.now - change.then
    cells = {"now": (change.now, ".3f"), "then": (change.then, ".3f"), "difference": (difference, "+.3f")}
    shown = {name: "" if value is None else format(value, form) for name, (value, form) in cells.items()}
    return shown | {"98.3 % interval": "" if change.low is None else f"{change.low:+.3f} to {change.high:+.3f}"}


def _answer(entry: dict[str, Any]) -> str:
    return entry["label"] if "label" in entry else ", ".join(entry["labels"]) or "no label"


def _cut(text: str) -> str:
    text = on_one_line(text[: 4 * MOST_CHARACTERS])
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 3]}..."
