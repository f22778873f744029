"""Tables of accuracy by the length of documents, and of what was read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from ...models.inference.long_documents.strategies import SEVERAL_VECTORS, SINGLE_VECTOR
from ...training.markdown import table
from ..protocols.length import BUCKETS
from .paper_results import PaperTable
from .summary import Cell
from .tables import MISSING, Spread, escape, format_summary

SHOWN_IN_TITLES = ("classifier", "shots")
# Metrics by the buckets that they are of, and what the tables call them.
GAINS = {
    "gain_short": (BUCKETS[:3], "to 1,000, against first"),
    "gain_long": (BUCKETS[3:], "over 1,000, against first"),
}


def split_strategy(system: str) -> tuple[str, str | None]:
    """An encoder and how it reads long documents, from ``"MiniLM (salient)"``; None where it is not said."""
    encoder, _, strategy = system.removesuffix(")").rpartition(" (")
    return (encoder, strategy) if strategy in (*SINGLE_VECTOR, *SEVERAL_VECTORS) else (system, None)


def with_gains(records: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The records, those of ``length`` with what they gain against ``first``, of the same encoder and seed.

    ``gain_short`` is the difference of accuracies on documents of up to 1,000 words, ``gain_long`` on longer ones.
    """
    read = {one["task"]: one["metrics"] for one in records if one["protocol"] == "length_read"}
    by_length = {_key(one, one["system"]): one["metrics"] for one in records if one["protocol"] == "length"}
    found = []
    for record in records:
        encoder, strategy = split_strategy(record["system"])
        first = by_length.get(_key(record, f"{encoder} (first)"))
        if record["protocol"] == "length" and strategy not in (None, "first") and first is not None:
            record = {**record, "metrics": record["metrics"] | _gains(record["metrics"], first, read[record["task"]])}
        found.append(record)
    return found


def _key(record: Mapping[str, Any], system: str) -> tuple[Any, ...]:
    return system, record["task"], record["seed"], *sorted(record["settings"].items())


def _gains(metrics: Mapping[str, float], first: Mapping[str, float], read: Mapping[str, float]) -> dict[str, float]:
    gains = {}
    for gain, (buckets, _) in GAINS.items():
        counts = {f"accuracy {name}": read[f"documents {name}"] for name in buckets if f"documents {name}" in read}
        if counts:
            difference = sum(count * (metrics[name] - first[name]) for name, count in counts.items())
            gains[gain] = difference / sum(counts.values())
    return gains


def length_tables(cells: Sequence[Cell], others: Sequence[Cell], paper: PaperTable | None) -> str:
    """Accuracy by length: a table for each task, number of examples and classifier."""
    groups = defaultdict(list)
    for cell in cells:
        groups[cell.task, cell.settings["shots"], cell.settings["classifier"]].append(cell)
    read = {cell.task: cell.metrics for cell in others if cell.protocol == "length_read"}
    parts = []
    for (task, shots, classifier), mine in groups.items():
        buckets = [name for name in BUCKETS if f"documents {name}" in read[task]]
        metrics = [*(f"accuracy {name}" for name in buckets), "accuracy", "macro_f1"]
        best = {name: max(cell.metrics[name].mean for cell in mine) for name in metrics}
        spread: Spread = "documents" if shots is None else "interval"
        rows = []
        for cell in mine:
            row = [escape(cell.system)]
            for name in metrics:
                text = format_summary(name, cell.metrics[name], spread)
                row.append(f"**{text}**" if cell.metrics[name].mean == best[name] else text)
            rows.append((*row, *(format_summary(name, cell.metrics.get(name), spread) for name in GAINS)))
        counts = [f"{name} ({read[task][f'documents {name}'].mean:.0f})" for name in buckets]
        titles = ("System", *counts, "all", "F1", *(title for _, title in GAINS.values()))
        examples = "all examples" if shots is None else f"{shots} examples per class"
        parts += [f"### {escape(task)}: {examples}, {classifier}", table(titles, rows)]
    return "\n\n".join(parts)


def reading_table(cells: Sequence[Cell], others: Sequence[Cell], paper: PaperTable | None) -> str:
    """Tokens that an encoder reads of a document, and the share of the text that is, by length."""
    buckets = [name for name in BUCKETS if any(f"documents {name}" in cell.metrics for cell in cells)]
    rows = []
    for cell in cells:
        shares = (cell.metrics.get(f"share_read {name}") for name in buckets)
        tokens = f"{cell.metrics['tokens_read'].mean:,.0f}"
        shown = (MISSING if share is None else f"{share.mean:.0%}" for share in shares)
        rows.append((escape(cell.task), escape(cell.system), tokens, *shown))
    return table(("Task", "System", "Tokens per document", *buckets), rows)
