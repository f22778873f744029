"""The records of the study at the size of BERT base: a line for each run, the start and word counts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

import numpy as np

from experiments.study.base_evaluation import TEST, Score
from experiments.study.base_runs import BaseRun, Size, expected_seconds

RECORDS = "records.jsonl"
WORD_COUNTS = "word counts"


class Record(TypedDict):
    """What was measured of a run, of the start or of word counts; the latter two have zeros where runs have numbers."""

    start: str  # the first digits of the SHA-256 of the start's weights
    method: str
    batch: int
    rate: float
    seed: int
    steps: int
    max_length: int
    tokens: int  # read in training, without padding; estimated from the first documents
    seconds: float  # of training and embedding
    loss: float  # the mean of the last twentieth of the steps
    card: str
    scores: list[Score]


def read_records(path: Path) -> list[Record]:
    """All records of a file; none if there is no file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def run_of(record: Record) -> BaseRun:
    """The run of a record."""
    return BaseRun(record["method"], record["batch"], record["rate"], record["seed"])


def measured_pace(records: Sequence[Record], size: Size, card: str) -> float:
    """The median of measured and expected time of the runs on a card; 1 without runs."""
    ratios = []
    for record in records:
        if record["card"] == card and record["steps"]:
            ratios.append(record["seconds"] / expected_seconds(run_of(record), size, record["max_length"]))
    return float(np.median(ratios)) if ratios else 1.0


def describe_scores(record: Record) -> str:
    """The mean scores of a record on the test sets, by the number of shots."""
    by_shots: dict[int, list[float]] = {}
    for score in record["scores"]:
        if score["split"] == TEST:
            by_shots.setdefault(score["shots"], []).append(float(np.mean(score["macro_f1"])))
    return ", ".join(f"{np.mean(means):.1f} with {shots} shots" for shots, means in sorted(by_shots.items()))
