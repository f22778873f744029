"""The table of data sets in a report, with the papers' row beside each data set of theirs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ...training.markdown import table
from .paper_results import paper_task
from .tables import MISSING, escape

# Documents, classes, and mean, median and maximum of the words of a document.
PAPER_DATA = {
    "FakeNews": (8_558_957, 15, 467, 299, 33_936),
    "20News": (18_846, 20, 258, 153, 11_554),
    "arXiv": (2_162_833, 38, 138, 131, 925),
    "NYT": (13_081, 5, 650, 683, 5_503),
    "BBCNews": (2_225, 5, 133, 130, 445),
}
SIZES = ("train", "test", "documents", "classes")
HEADER = ("Task", "Kind", "Train", "Test", "Documents", "Classes", "Mean words", "Median words", "Max words")
NOISE = (
    "Noise is half the 95 % confidence interval of an accuracy of 50 % on so many test examples: a smaller difference "
    "between two systems may be one of this test set only."
)
WORDS = "Words are those of a document, of training and test together; of Chinese, characters."
PAPER = "In italics the papers' data (DocSplit, section 4.2; medians from SimDE and SimLTE, table 1)."
NEWSGROUPS = (
    "20News is without headers, signatures and quotations; 20News (body) without headers; 20News (raw) as it was sent."
)
LENGTH = "`max_length` is the longest input of encoders, in tokens; word counts and endpoints do not know it."


def task_table(fingerprints: Mapping[str, str], tasks: Mapping[str, Mapping[str, Any]]) -> str:
    """What was evaluated on: tasks by name and fingerprint, and their descriptions by fingerprint.

    Descriptions from before words were counted in the training set have none: their numbers are left open.
    """
    rows, theirs = [], {name: paper_task(name) for name in fingerprints}
    for name, fingerprint in fingerprints.items():
        task = tasks[fingerprint]
        sizes = [f"{task[field]:,}" if field in task else MISSING for field in SIZES]
        words = [f"{task['words'][key]:,.0f}" if "words" in task else MISSING for key in ("mean", "median", "max")]
        noise = f"{196 * math.sqrt(0.25 / task['test']):.1f}"
        rows.append((escape(name), task["kind"], *sizes, *words, noise, fingerprint[:8]))
        if theirs[name] in PAPER_DATA:
            numbers = (f"*{number:,}*" for number in PAPER_DATA[theirs[name]])
            rows.append((f"*{theirs[name]}, paper*", *(MISSING,) * 3, *numbers, *(MISSING,) * 2))
    notes = [WORDS, *[PAPER] * bool(set(theirs.values()) & set(PAPER_DATA)), NOISE]
    notes += [NEWSGROUPS] * ("20News" in theirs.values())
    return "\n\n".join([table((*HEADER, "Noise (points)", "SHA-256"), rows), " ".join(notes), LENGTH])
