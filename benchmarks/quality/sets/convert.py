"""Rows of a data set cleaned, split, and written as jsonl."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.quality.sets.records import DataSet, Row, Splits

MAX_CHARACTERS = 20_000
TEST_SHARE = 0.2
VERSIONS_TRAIN_ROWS = 2400  # the few-labels benchmark takes 2,500 rows at random, which would part the versions
VERSIONS_TEST_ROWS = 1000


class Summary(NamedTuple):
    """Figures of a converted set; ``words_per_text`` are characters in Chinese and Japanese."""

    classes: int
    train_rows: int
    test_rows: int
    words_per_text: float
    largest_class: float


def clean(rows: Iterable[Row]) -> list[Row]:
    """Rows with a text and a label, cut to ``MAX_CHARACTERS``; of equal texts the first."""
    kept = {}
    for row in rows:
        text = row.text.strip()[:MAX_CHARACTERS]
        pair = row.text_pair.strip()[:MAX_CHARACTERS] if row.text_pair is not None else None
        label = row.label.strip()
        if text and label and pair != "":
            kept.setdefault(_key(text, pair), Row(text=text, label=label, text_pair=pair, group=row.group))
    return list(kept.values())


def split(dataset: DataSet, splits: Splits) -> Splits:
    """At most the rows that are asked for, at random with seed 0; no text is in both parts."""
    train = clean(splits.train)
    if splits.test is None:
        groups = _in_random_order(train)
        wanted = min(TEST_SHARE * len(train), dataset.test_rows)
        test = _take(groups, wanted)
        held_out = {_key(row.text, row.text_pair) for row in test}
        train = [row for row in train if _key(row.text, row.text_pair) not in held_out]
    else:
        known = {_key(row.text, row.text_pair) for row in train}
        test = [row for row in clean(splits.test) if _key(row.text, row.text_pair) not in known]
    if "versions" in dataset.kinds:
        return Splits(
            train=_take(_in_random_order(train), min(dataset.train_rows, VERSIONS_TRAIN_ROWS)),
            test=_take(_in_random_order(test), min(dataset.test_rows, VERSIONS_TEST_ROWS)),
        )
    return Splits(train=_sample(train, dataset.train_rows), test=_sample(test, dataset.test_rows))


def write(rows: Iterable[Row], file: Path) -> None:
    """Write a line for each row, with "text", "text_pair" for pairs, and "label"."""
    with file.open("w", encoding="utf-8") as out:
        for row in rows:
            fields = {"text": row.text}
            if row.text_pair is not None:
                fields["text_pair"] = row.text_pair
            fields["label"] = row.label
            out.write(json.dumps(fields, ensure_ascii=False) + "\n")


def summary(dataset: DataSet, splits: Splits) -> Summary:
    """Count what was written."""
    rows = [*splits.train, *splits.test]
    units: Callable[[str], int] = len if dataset.language in ("zh", "ja") else _count_words
    _, counts = np.unique([row.label for row in rows], return_counts=True)
    return Summary(
        classes=len(counts),
        train_rows=len(splits.train),
        test_rows=len(splits.test),
        words_per_text=round(float(np.mean([units(row.text) + units(row.text_pair or "") for row in rows])), 1),
        largest_class=round(float(counts.max() / counts.sum()), 3),
    )


def _key(text: str, pair: str | None) -> tuple[str, str]:
    """What equal texts have in common: their words, whatever their case and white space."""
    return " ".join(text.lower().split()), " ".join((pair or "").lower().split())


def _count_words(text: str) -> int:
    return len(text.split())


def _in_random_order(rows: list[Row]) -> list[list[Row]]:
    """Rows by group, in random order; a row without a group is one by itself."""
    groups = defaultdict(list)
    for number, row in enumerate(rows):
        groups[f"row {number}" if row.group is None else f"group {row.group}"].append(row)
    ordered = list(groups.values())
    random.Random(0).shuffle(ordered)
    return ordered


def _take(groups: list[list[Row]], wanted: float) -> list[Row]:
    """Whole groups, until there are as many rows as wanted."""
    taken = []
    for group in groups:
        if len(taken) + len(group) <= wanted:
            taken.extend(group)
    return taken


def _sample(rows: list[Row], count: int) -> list[Row]:
    """Random rows in random order."""
    return random.Random(0).sample(rows, min(count, len(rows)))
