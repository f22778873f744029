"""Speed of training and inference, and what int8 costs: docs/results/performance.md."""

from __future__ import annotations

import statistics
from typing import NamedTuple

import numpy as np

from .gpu import gpu
from .pages import Figures, Row
from .records import Records, chosen, content

MEBIBYTE = 2**20
TASKS = ("20news", "bbc_news", "arxiv_abstracts", "fakenews_small")


def measurements() -> Figures:
    found = speeds()
    figures = {name: speed_rows(name) for name in dict.fromkeys(key.measured for key in found)}
    return {
        **figures,
        **gpu(),
        "int8": int8(),
        "change by int8": int8_change(),
    }


def performance() -> Figures:
    """Return the figures of the guide."""
    on_a_gpu = gpu()
    theirs = "sentence-transformers, fp32"
    return {
        **{name: on_a_gpu[name] for name in ("compiled over not", "tf32 over float32", "bf16 over float32")},
        "times as fast": speeds()[Pair("inference", "docsplit_hf, fp32", theirs)].times,
        "times as fast, int8": speeds()[Pair("inference", "docsplit_hf, int8", theirs)].times,
        "change by int8": int8_change(),
        "int8 over float32": rate_of("docsplit_hf, int8") / rate_of("docsplit_hf, fp32"),
        "bfloat16 over float32": rate_of("docsplit_hf, bf16") / rate_of("docsplit_hf, fp32"),
    }


def cold_start() -> Figures:
    """Return the seconds from the start of a process to its first answer."""
    record = content("speed/cold_start.json")
    ways = ("python saved", "python light", "classify saved", "classify exported", "serve saved", "serve exported")
    return {way: record[way]["seconds"] for way in ways}


class Pair(NamedTuple):
    """What was measured, and two competitors."""

    measured: str
    one: str
    other: str


class Speeds(NamedTuple):
    """Documents a second of both, and how many times as fast the first one is."""

    rate: float
    other_rate: float
    times: float
    least: float
    most: float


def speeds() -> dict[Pair, Speeds]:
    found = {}
    for record in content("speed/seconds.jsonl"):
        for one, other in record["pairs"]:
            seconds = record["seconds"][one]
            other_seconds = record["seconds"][other]
            ratios = sorted(theirs / ours for theirs, ours in zip(other_seconds, seconds, strict=True))
            found[Pair(record["measured"], one, other)] = Speeds(
                rate=record["documents"] / statistics.median(seconds),
                other_rate=record["documents"] / statistics.median(other_seconds),
                times=statistics.median(ratios),
                least=ratios[0],
                most=ratios[-1],
            )
    return found


def speed_rows(measured: str) -> list[Row]:
    rows = []
    for pair, speed in speeds().items():
        if pair.measured == measured:
            rates = (f"{speed.rate:,.1f}", pair.other, f"{speed.other_rate:,.1f}")
            rows.append((pair.one, *rates, f"{speed.times:.2f} ({speed.least:.2f} to {speed.most:.2f})"))
    return rows


def rate_of(name: str) -> float:
    """Return the documents a second of a competitor in inference."""
    return next(speed.rate for pair, speed in speeds().items() if (pair.measured, pair.one) == ("inference", name))


def int8_records() -> Records:
    """Return the records of all-MiniLM-L6-v2."""
    return content("speed/int8.jsonl")


def int8() -> list[Row]:
    """Return recall, and macro F1 before and after, of each set."""
    rows = []
    for task in TASKS:
        mine = chosen(int8_records(), task=task)
        cells = []
        for shots in (5, 10):
            for kind in ("linear probe", "neighbors"):
                [row] = chosen(mine, shots=shots, classifier=kind)
                change = row["int8"] - row["float32"]
                cells.append(f"{row['float32']:.2f} → {row['int8']:.2f} ({change:+.2f})")
        rows.append((task, f"{mine[0]['recall@10']:.4f}", *cells))
    return rows


def int8_change() -> float:
    """Return by how many points int8 changes macro F1, in the mean."""
    return float(np.mean([row["int8"] - row["float32"] for row in int8_records()]))
