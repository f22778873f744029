"""The papers' own numbers, as printed in their tables; percentages unless said otherwise.

The papers are DocSplit and its two earlier submissions, SimDE and SimLTE, which share their numbers: the system called
"DocSplit" here is named SimDE and SimLTE there. Since data sizes, splits and hardware of the papers differ from ours,
their numbers are printed beside ours but not compared to the digit. Results that the papers show only in a picture
(DocSplit's figures 2 and 3, SimLTE's figure 3) are missing here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from ..tasks.known_tasks import NEWSGROUPS

DATA_SETS = ("FakeNews", "20News", "arXiv", "NYT", "BBCNews")
CHINESE_TASKS = ("OCNLI", "TNEWS", "AFQMC", "IFLYTEK", "WSC", "CSL")
ENGLISH_TASKS = ("CoLA", "SST-2", "MRPC", "QQP", "MNLI", "QNLI")
# The papers' names of tasks, by our names in lower case.
PAPER_NAMES = {name.lower(): name for name in (*DATA_SETS, "AAN", *CHINESE_TASKS, *ENGLISH_TASKS)} | {"bbc": "BBCNews"}
PAPER_NAMES |= {f"20news{kept}": "20News" for kept in NEWSGROUPS.values()}


@dataclass(frozen=True)
class PaperTable:
    """A table of a paper."""

    source: str
    metrics: tuple[str, ...]  # of each task, in order
    tasks: tuple[str, ...]  # the papers' names, in order
    rows: Mapping[str, tuple[float | None, ...]]  # the numbers of all tasks by system, None where the paper has none
    note: str = ""

    def of(self, system: str, task: str) -> dict[str, float]:
        """The metrics of a system on a task, both by the papers' names; missing ones are left out."""
        start = self.tasks.index(task) * len(self.metrics)
        values = self.rows[system][start : start + len(self.metrics)]
        return {name: value for name, value in zip(self.metrics, values, strict=True) if value is not None}

    def numbers(self, tasks: Sequence[str]) -> pd.DataFrame:
        """The papers' numbers for our tasks of these names, a row for each system and metric; None where missing."""
        known = {task: paper_task(task) for task in dict.fromkeys(tasks) if paper_task(task) in self.tasks}
        rows = [
            (system, task, name, metric, self.of(system, name).get(metric))
            for system in self.rows
            for task, name in known.items()
            for metric in self.metrics
        ]
        return pd.DataFrame(rows, columns=["system", "task", "known", "metric", "value"], dtype=object)


def paper_task(name: str) -> str | None:
    """The papers' name of one of our tasks; None if the papers lack it."""
    return PAPER_NAMES.get(name.lower())


ACCURACY_AND_F1 = ("accuracy", "macro_f1")
# fmt: off
FULL = PaperTable(
    "the EMNLP submission of DocSplit, table 1; the same numbers in SimDE, table 2, and SimLTE, table 2",
    ACCURACY_AND_F1,
    DATA_SETS,
    {
        "BERT": (54.98, 42.17, 62.34, 54.19, 68.52, 20.46, 95.11, 92.65, 91.06, 90.34),
        "CT-BERT": (55.19, 42.53, 65.76, 63.37, 71.61, 26.09, 95.69, 91.59, 90.32, 88.87),
        "SimCSE": (58.48, 47.46, 74.02, 72.57, 74.46, 30.01, 97.17, 94.69, 94.12, 93.86),
        "SimCSE_long": (58.37, 47.56, 73.51, 72.05, 73.16, 29.41, 97.25, 93.83, 94.22, 94.30),
        "Contriever": (58.21, 47.25, 75.86, 74.28, 75.35, 28.24, 96.94, 92.71, 94.66, 94.57),
        "INSTRUCTOR": (59.26, 47.92, None, None, 75.52, 30.46, 97.06, 93.66, 95.19, 95.16),
        "DocSplit_bert": (60.04, 50.14, 76.89, 74.85, 76.66, 32.24, 98.20, 96.05, 95.56, 95.58),
        "LongFormer": (65.72, 57.66, 73.69, 72.47, 71.66, 25.92, 94.36, 88.39, 96.33, 94.75),
        "BigBird": (57.44, 47.87, 70.35, 68.91, 71.58, 25.05, 97.13, 94.33, 94.11, 94.62),
        "DocSplit_long": (71.60, 61.66, 75.44, 74.38, 77.68, 33.26, 97.90, 95.43, 96.67, 95.91),
    },
    "DocSplit leaves INSTRUCTOR on 20News out, because INSTRUCTOR was trained on it; SimDE has 80.62 and 78.72 there.",
)
FEW_SHOT = PaperTable(
    "DocSplit, table 2; the same numbers in SimDE, table 2, and SimLTE, table 2",
    ACCURACY_AND_F1,
    DATA_SETS,
    {
        "BERT": (23.96, 23.73, 19.94, 18.71, 24.08, 10.14, 51.85, 43.90, 54.22, 52.73),
        "CT-BERT": (23.71, 23.06, 24.11, 23.53, 27.02, 13.53, 47.23, 36.83, 59.56, 58.95),
        "SimCSE": (25.04, 22.68, 42.63, 41.42, 32.61, 17.19, 86.51, 78.41, 83.56, 83.75),
        "SimCSE_long": (26.39, 23.26, 48.65, 47.81, 23.42, 12.66, 85.36, 75.90, 84.44, 83.96),
        "Contriever": (24.17, 22.35, 54.27, 54.87, 33.19, 17.23, 84.73, 77.62, 77.71, 79.19),
        "INSTRUCTOR": (26.11, 23.97, None, None, 33.51, 17.12, 32.38, 27.60, 52.67, 48.78),
        "DocSplit_bert": (27.79, 24.65, 55.79, 55.43, 35.79, 18.52, 90.52, 83.71, 86.86, 86.31),
        "LongFormer": (26.56, 25.12, 44.42, 42.41, 25.04, 13.36, 73.06, 54.87, 84.89, 85.47),
        "BigBird": (25.36, 23.28, 39.14, 39.06, 23.62, 10.18, 86.66, 78.96, 79.11, 76.63),
        "DocSplit_long": (29.17, 27.13, 51.18, 50.96, 34.33, 18.80, 89.78, 82.88, 86.78, 86.66),
    },
    "10 examples per class for FakeNews and arXiv, 5 for the others; means of 10 draws, whose spread is not printed.",
)
CITATION = PaperTable(
    "SimDE, table 3",
    ("accuracy",),
    ("AAN",),
    {
        "BERT": (53.56,),
        "CT-BERT": (54.23,),
        "SimCSE": (54.78,),
        "SimCSE_long": (55.23,),
        "DocSplit_bert": (58.29,),
        "LongFormer": (56.89,),
        "BigBird": (59.29,),
        "DocSplit_long": (59.89,),
    },
    "On the 17,437 test pairs of the Long Range Arena. The table has rows for cpt-text and INSTRUCTOR, both empty.",
)
# Not percentages: nouns and verbs over distinct nouns and verbs, and cosine similarities.
REDUNDANCY = PaperTable(
    "SimDE, table 4; the same numbers in SimLTE, table 3",
    ("0-50", "51-100", "101-200", "201-300", "more than 300", "all"),
    DATA_SETS,
    {
        "R": (
            1.06, 1.21, None, 1.35, 1.52, 1.37,
            1.12, 1.18, 1.24, 1.31, 1.50, 1.28,
            1.12, 1.25, 1.36, 1.49, 1.62, 1.34,
            1.00, 1.14, 1.21, 1.31, 1.48, 1.45,
            1.05, 1.14, 1.20, 1.29, 1.46, 1.19,
        ),
    },
    'For FakeNews texts of 101 to 200 words both papers print "29", which says nothing for certain.',
)
SENTENCE_SIMILARITY = PaperTable(
    "SimDE, table 5",
    ("within", "between"),
    DATA_SETS,
    {"SimCSE": (0.28, 0.06, 0.21, 0.07, 0.51, 0.35, 0.30, 0.11, 0.32, 0.09)},
)
# In the metric of each task: accuracy, but for CoLA, where it is Matthews correlation.
DECOUPLED = PaperTable(
    "Retrieval-Augmented Classification with Decoupled Representation, table 1",
    ("task_metric",),
    (*CHINESE_TASKS, *ENGLISH_TASKS),
    {
        "base": (78.71, 58.76, 75.49, 61.45, 87.17, 83.97, 67.49, 96.44, 90.69, 92.18, 90.15, 94.76),
        "base, KNN": (78.20, 58.87, 75.60, 61.60, 86.84, 83.40, 67.86, 96.44, 90.44, 92.16, 90.31, 94.64),
        "base, KNN best": (78.71, 58.97, 75.63, 61.91, 87.17, 83.97, 68.53, 96.44, 90.69, 92.19, 90.33, 94.76),
        "TL": (78.07, 58.83, 74.95, 61.60, 89.80, 83.87, 67.70, 96.10, 90.20, 92.00, 90.27, 94.58),
        "TL, KNN": (77.83, 58.33, 75.53, 62.14, 90.13, 83.40, 66.85, 96.22, 89.95, 92.05, 90.38, 94.45),
        "TL, KNN best": (78.07, 58.83, 75.53, 62.14, 90.13, 83.87, 67.70, 96.22, 90.20, 92.05, 90.41, 94.58),
        "TL + D": (78.61, 59.18, 76.18, 61.83, 91.12, 84.10, 69.06, 96.56, 90.93, 92.07, 90.33, 95.06),
        "TL + D, KNN": (78.85, 59.36, 75.74, 61.68, 90.79, 84.00, 70.27, 96.44, 90.93, 92.07, 90.15, 95.08),
        "TL + D, KNN best": (78.98, 59.37, 76.18, 62.25, 91.12, 84.30, 70.49, 96.56, 90.93, 92.08, 90.33, 95.15),
    },
    "MacBERT-large for the Chinese tasks, RoBERTa-large for the English. TL: triplet loss; D: decoupling layer; KNN: "
    'neighbors alone; KNN best: mixed, with the lambda that is best on the split that is reported ("oracle" here).',
)
RETRIEVAL_VECTORS = PaperTable(
    "Retrieval-Augmented Classification with Decoupled Representation, table 2",
    ("task_metric",),
    (*CHINESE_TASKS, *ENGLISH_TASKS),
    {
        "CLS": (78.98, 59.37, 76.18, 62.25, 91.12, 84.30, 70.49, 95.56, 90.93, 92.08, 90.50, 95.15),
        "MEAN": (77.96, 59.17, 76.34, 61.87, 91.12, 84.57, 69.24, 95.99, 90.69, 92.15, 90.64, 94.85),
        "MAX": (77.01, 57.89, 76.04, 61.31, 90.28, 83.96, 68.79, 94.98, 89.84, 91.39, 89.74, 94.17),
    },
    "Mixed, lambda as in table 1. CLS on SST-2 and MNLI is another number there: 96.56 and 90.33.",
)
# fmt: on
