"""docs/performance.md: its tables of training and inference, and what int8 costs. Its others have no record."""

import statistics

import numpy as np

from .page import Page
from .records import chosen, content

TASKS = ("20news", "bbc_news", "arxiv_abstracts", "fakenews_small")


def speeds():
    """What is measured, a competitor and another: documents/s of both, and how many times as fast the first is."""
    found = {}
    for record in content("speed/seconds.jsonl"):
        seconds = record["seconds"]
        for one, other in record["pairs"]:
            rates = [record["documents"] / statistics.median(seconds[name]) for name in (one, other)]
            ratios = sorted(theirs / ours for theirs, ours in zip(seconds[other], seconds[one], strict=True))
            found[record["measured"], one, other] = (*rates, statistics.median(ratios), ratios[0], ratios[-1])
    return found


def int8_costs():
    """The records of all-MiniLM-L6-v2."""
    return content("speed/int8.jsonl")


def int8_rows():
    """A row for each set: recall, and macro F1 before and after."""
    for task in TASKS:
        mine = chosen(int8_costs(), task=task)
        cells = []
        for shots in (5, 10):
            for kind in ("linear probe", "neighbors"):
                [row] = chosen(mine, shots=shots, classifier=kind)
                change = row["int8"] - row["float32"]
                cells.append(f"{row['float32']:.2f} → {row['int8']:.2f} ({change:+.2f})")
        yield (task, f"{mine[0]['recall@10']:.4f}", *cells)


def int8_change():
    """By how many points int8 changes macro F1, in the mean."""
    return float(np.mean([row["int8"] - row["float32"] for row in int8_costs()]))


def test_figures():
    page, found = Page("docs/performance.md"), speeds()
    for (_, one, other), (rate, others, times, least, most) in found.items():
        page.has(f"| {one} | {rate:,.1f} | {other} | {others:,.1f} | {times:.2f} ({least:.2f} to {most:.2f}) |")
    page.has_rows(int8_rows())
    page.says("macro F1 changes by {} points", int8_change())
    ours = {name: rates[0] for (measured, name, _), rates in found.items() if measured == "inference"}
    page.says("on a CPU: {} times as fast as float32", ours["docsplit_hf, int8"] / ours["docsplit_hf, fp32"])
    page.says("in training and {} times in inference", ours["docsplit_hf, bf16"] / ours["docsplit_hf, fp32"])
    assert page.wrong == [] and len(found) == 14
