"""Contracts: docs/contracts.md."""

from __future__ import annotations

import functools
from collections.abc import Iterable

import pandas as pd

from .pages import Figure, Figures, Row
from .records import Records, benchmark, chosen, content


def contracts() -> Figures:
    return {
        "systems": list(benchmark("quality.contracts").systems(frame())),
        "passages": list(benchmark("quality.contracts").passages(frame())),
        "seconds": seconds(),
        **scores(),
        **hours(),
        **rejection(),
        **audit(),
    }


@functools.cache
def frame() -> pd.DataFrame:
    return pd.DataFrame(content("contracts/records.jsonl"))


def macro_f1(system: str, reading: str, per_label: str = "5", task: str = "contracts") -> float:
    """Return the mean over draws in percent."""
    rows = frame()[frame()["encoder"].str.endswith(f" {reading}")]
    rows = rows[(rows["system"] == system) & (rows["per_label"] == per_label) & (rows["task"] == task)]
    return 100 * rows["macro_f1"].mean()


def gains(task: str, reading: str, counts: Iterable[str]) -> tuple[float, float]:
    """Return the least and the most points above beginnings, over the draws."""
    rows = frame()[(frame()["system"] == "ours") & (frame()["task"] == task) & frame()["per_label"].isin(counts)]
    rows = rows.assign(read=rows["encoder"].str.split().str[-1])
    by_draw = rows.pivot_table(index=["per_label", "draw"], columns="read", values="macro_f1")
    found = 100 * (by_draw[reading] - by_draw["first"])
    return found.min(), found.max()


def scores() -> dict[str, Figure]:
    """Return macro F1 and its gains."""
    figures: dict[str, Figure] = {
        "ours, whole": macro_f1("ours", "whole"),
        "words": macro_f1("tfidf", "whole"),
        "ours, first": macro_f1("ours", "first"),
        "probe, whole": macro_f1("probe", "whole"),
        "ours, whole, 20": macro_f1("ours", "whole", "20"),
        "words, 20": macro_f1("tfidf", "whole", "20"),
        "probe, whole, 20": macro_f1("probe", "whole", "20"),
        "without documents, 20": macro_f1("ours_without_documents", "whole", "20"),
        "with doubtful labels, first": macro_f1("ours", "first", task="contracts_doubtful"),
        "with doubtful labels, whole": macro_f1("ours", "whole", task="contracts_doubtful"),
        "head_tail, 5": macro_f1("ours", "head_tail"),
        "head_tail, 20": macro_f1("ours", "head_tail", "20"),
        "average": macro_f1("ours", "average"),
    }
    for per_label in ("5", "20"):
        for reading in ("whole", "first"):
            figures[f"partisan, {reading}, {per_label}"] = macro_f1("ours", reading, per_label, "partisan")
    figures["partisan gain, least"], figures["partisan gain, most"] = gains("partisan", "whole", ("5", "20"))
    figures["head_tail gain, least"], figures["head_tail gain, most"] = gains("contracts", "head_tail", ("5",))
    return figures


def journey() -> dict:
    """Return the record of the one run whose seconds are shown."""
    [run] = content("contracts/journey.jsonl")
    return run


def seconds() -> list[Row]:
    run = journey()
    steps = {
        "load the encoder, which had been compiled before": ("load",),
        f"embed {run['documents']} contracts, {run['tokens']:,} tokens": ("examples", "documents"),
        "`fit()`": ("fit",),
        f"answer {run['test']} contracts, {run['test_tokens']:,} tokens": ("answers",),
        "save": ("save",),
    }
    rows = []
    for name, parts in steps.items():
        times = (sum(run[unit][part] for part in parts) for unit in ("cpu_seconds", "seconds"))
        rows.append((name, *(f"{time:,.1f}" for time in times)))
    return rows


def hours() -> dict[str, Figure]:
    """Return the time for 20,000 contracts, extrapolated by tokens in a second."""
    run = journey()
    cpu = run["cpu_seconds"]["examples"] + run["cpu_seconds"]["documents"]
    clock = run["seconds"]["examples"] + run["seconds"]["documents"]
    row = chosen(content("contracts/records.jsonl"), task="contracts")[0]  # of beginnings
    whole = 20_000 * row["tokens"] / row["texts"] / (run["tokens"] / cpu) / 3600
    return {
        "clock over processor": clock / cpu,
        "hours": whole,
        "hours on two cores": whole / 2,
        "minutes of 2,000": whole / 10 * 60,
        "minutes of beginnings": 20_000 / 60 * row["embedding_cpu_seconds"] / row["texts"],
    }


def total(rows: Records, name: str) -> float:
    return sum(row[name] for row in rows)


def rejection() -> dict[str, Figure]:
    """Return percentages of answers with and without examples of each class."""
    rows = content("contracts/rejection.jsonl")
    known = [row for row in rows if row["left_out"] is None]
    unknown = [row for row in rows if row["left_out"] is not None]
    foreign = total(unknown, "unknown")
    return {
        "answered": 100 * total(known, "answered") / total(known, "texts"),
        "wrong": 100 * total(known, "wrong") / total(known, "answered"),
        "unknown answered": 100 * total(unknown, "unknown_answered") / foreign,
        "unknown found": 100 * total(unknown, "unknown_novel") / foreign,
        "known found": 100 * total(unknown, "known_novel") / (total(unknown, "texts") - foreign),
    }


def audit() -> dict[str, Figure]:
    """Return what the audit finds of the doubtful labels."""
    rows = content("contracts/audit.jsonl")
    [whole] = [row for row in chosen(rows, part="audit") if row["encoder"].endswith("whole")]
    found = chosen(rows, part="contradicted")
    hits = total(found, "contradicted_doubtful")
    contradicted = total(found, "contradicted")
    doubtful = total(found, "doubtful")
    by_chance = whole["doubtful"] / whole["examples"]
    return {
        "least probable, times chance": whole["least_sure_doubtful"] / whole["least_sure"] / by_chance,
        "doubtful, contradicted": 100 * hits / doubtful,
        "contradicted, doubtful": 100 * hits / contradicted,
        "contradicted, times chance": hits / contradicted / (doubtful / total(found, "texts")),
    }
