"""Accuracy by the length of documents, and how much of them is read: tables and a figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from docsplit_hf.encoding.chunking import PASSAGES, SINGLE_VECTOR

from ..evaluation.results import setting, summarize_records
from ..papers_options import PaperSettings
from ..protocols.length import BUCKETS
from .figures import GRID, draw_curve, draw_legend, make_panels
from .markdown_report import Printed, Spread, escape, lay_out, with_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STRATEGIES = (*SINGLE_VECTOR, PASSAGES, "late", "salient")  # the last two: of older records
SHOWN_IN_TITLES = ("classifier", "shots")
# The buckets that each gain averages, and its title in the tables.
GAINS = {
    "gain_short": (BUCKETS[:3], "to 1,000, against first"),
    "gain_long": (BUCKETS[3:], "over 1,000, against first"),
}


def split_strategy(system: str) -> tuple[str, str | None]:
    """Encoder and strategy for long documents, from a name such as ``"MiniLM (salient)"``; None without a strategy."""
    encoder, _, strategy = system.removesuffix(")").rpartition(" (")
    return (encoder, strategy) if strategy in STRATEGIES else (system, None)


def with_gains(records: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The records, those of ``length`` with the gains over ``first`` with the same encoder and seed.

    ``gain_short`` is the difference of accuracies on documents of up to 1,000 words, ``gain_long`` on longer ones.
    """
    read = {one["task"]: one["metrics"] for one in records if one["protocol"] == "length_read"}
    by_length = {_key(one, one["system"]): one["metrics"] for one in records if one["protocol"] == "length"}
    found = []
    for record in records:
        encoder, strategy = split_strategy(record["system"])
        first = by_length.get(_key(record, f"{encoder} (first)")) if record["protocol"] == "length" else None
        if first is not None and strategy not in (None, "first"):
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


def length_tables(frame: pd.DataFrame, records: Sequence[Mapping[str, Any]], printed: Printed | None) -> str:
    """Accuracy by length: a table for each task, number of examples and classifier."""
    read = {one["task"]: one["metrics"] for one in records if one["protocol"] == "length_read"}
    frame = summarize_records(one for one in with_gains(records) if one["protocol"] == "length")
    frame = frame.assign(classifier=setting(frame, "classifier"), shots=setting(frame, "shots"))
    parts = []
    for (task, shots, classifier), mine in frame.groupby(["task", "shots", "classifier"], sort=False, dropna=False):
        few = not pd.isna(shots)
        buckets = [name for name in BUCKETS if f"documents {name}" in read[task]]
        columns = {f"{name} ({read[task][f'documents {name}']:.0f})": f"accuracy {name}" for name in buckets}
        columns |= {"all": "accuracy", "F1": "macro_f1", **{title: gain for gain, (_, title) in GAINS.items()}}
        spread: Spread = "interval" if few else "documents"
        is_gain = mine["metric"].isin(GAINS)
        shown = pd.concat([with_text(mine[~is_gain], spread, bold=("metric",)), with_text(mine[is_gain], spread)])
        shown = shown.assign(system=shown["system"].map(escape))
        examples = f"{shots:.0f} examples per class" if few else "all examples"
        parts += [
            f"### {escape(task)}: {examples}, {classifier}",
            lay_out(shown, {"system": "System"}, columns, "metric"),
        ]
    return "\n\n".join(parts)


def reading_table(frame: pd.DataFrame, records: Sequence[Mapping[str, Any]], printed: Printed | None) -> str:
    """Tokens that an encoder reads of a document, and the share of the text that is read, by length."""
    names = {f"share_read {name}": name for name in BUCKETS if f"documents {name}" in set(frame["metric"])}
    columns = {"Tokens per document": "tokens_read", **{name: metric for metric, name in names.items()}}
    texts = [f"{row.mean:,.0f}" if row.metric == "tokens_read" else f"{row.mean:.0%}" for row in frame.itertuples()]
    shown = frame.assign(task=frame["task"].map(escape), system=frame["system"].map(escape), text=texts)
    return lay_out(shown, {"task": "Task", "system": "System"}, columns, "metric")


def length_curves(classifier: str, frame: pd.DataFrame, settings: PaperSettings) -> Figure | None:
    """Accuracy over the number of words in a document, a line for each way to read it; a panel per task and encoder."""
    frame = frame[(frame["protocol"] == "length") & (setting(frame, "classifier") == classifier)]
    frame = frame[setting(frame, "shots").isna()]
    if frame.empty:
        return None
    names = {system: split_strategy(system) for system in frame["system"]}
    encoders = list(dict.fromkeys(encoder for encoder, strategy in names.values() if strategy)) or [""]
    lines = list(dict.fromkeys(strategy or encoder for encoder, strategy in names.values()))
    panels = [(task, encoder) for task in dict.fromkeys(frame["task"]) for encoder in encoders]
    figure, axes = make_panels(len(panels), 4.4, 3.2, per_row=2)
    for axis, (task, encoder) in zip(axes, panels, strict=True):
        chosen = [name for name in names if names[name][0] in (encoder, name)]
        mine = frame[(frame["task"] == task) & frame["system"].isin(chosen)]
        buckets = [name for name in BUCKETS if f"accuracy {name}" in set(mine["metric"])]
        for system, points in mine.set_index("metric").groupby("system", sort=False):
            number = lines.index(names[system][1] or system)
            # Points are shifted slightly, so that error bars do not overlap.
            places = np.arange(len(buckets)) + 0.04 * (number - (len(lines) - 1) / 2)
            points = points.loc[[f"accuracy {name}" for name in buckets]]
            draw_curve(axis, places, points, "documents", number, lines[number])
        axis.set_xticks(range(len(buckets)), buckets, fontsize=7)
        axis.grid(**GRID)
        axis.set(title=", ".join(filter(None, (task, encoder))), xlabel="Words in the document", ylabel="Accuracy (%)")
    draw_legend(figure, axes, frame["documents"], "documents")
    return figure
