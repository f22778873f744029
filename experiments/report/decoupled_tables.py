"""The tables of Liang et al. 2023: the nine rows, the retrieval vectors, and the sweep over k and T."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ..evaluation.results import setting, summarize_records
from ..papers_options import CALIBRATED, FIXED, ORACLE
from ..protocols.decoupled import PAPER_K, PAPER_TEMPERATURE, PARTS
from ..tasks.known_tasks import task_metric
from .markdown_report import MISSING, TITLES, Printed, escape, in_italics, lay_out, with_text

METRICS = TITLES | {"matthews_correlation": "MCC"}
VARIANTS = {"base": "base", "triplet_loss": "TL", "decoupled": "TL + D"}
# Settings that are not printed above the table, since its rows or its text show them.
SHOWN_AS_ROWS = ("variant", "retrieval_pooling", "neighbors", "k", "temperature", "weight", "best")
CHOSEN = {
    CALIBRATED: "calibrated",
    FIXED: "fixed",
    ORACLE: "oracle: lambda of the best result on the test set",
}
CLUSTERS = ("purity", "silhouette")
Records = Sequence[Mapping[str, Any]]


def nine_rows(frame: pd.DataFrame, records: Records, printed: Printed | None) -> str:
    """Each variant by its classifier, its neighbors, and mixed; below, probes on frozen features and the paper's rows.

    The probes are the records of the protocol ``full`` on the same tasks.
    """
    frame = frame.assign(variant=setting(frame, "variant"), neighbors=setting(frame, "neighbors"))
    rows = []
    for system in dict.fromkeys(frame["system"]):
        for variant, name in VARIANTS.items():
            mine = frame[(frame["system"] == system) & (frame["variant"] == variant)]
            start = f"{escape(system)}: {name}"
            rows.append(_row(start, mine, "classifier"))
            protocols = list(dict.fromkeys(mine["neighbors"]))
            for protocol in protocols:
                chosen = mine[mine["neighbors"] == protocol]
                if protocol != ORACLE or FIXED not in protocols:  # both have the same k and T
                    rows.append(_row(f"{start}, KNN ({protocol})", chosen, "knn"))
                rows.append(_row(f"{start}, mixed ({CHOSEN[protocol]})", chosen, "mixture"))
    tasks = set(frame["task"])
    probes = summarize_records(one for one in records if one["protocol"] == "full" and one["task"] in tasks)
    for system, mine in probes.groupby("system", sort=False):
        rows.append(_row(f"{escape(system)}: a probe, not fine-tuned", mine, "mixture"))
    parts = [_table(rows, frame, printed), _mixture_against_parts(frame), _clusters(frame, "variant")]
    return "\n\n".join(part for part in parts if part)


def retrieval_vectors(frame: pd.DataFrame, records: Records, printed: Printed | None) -> str:
    """Each retrieval vector by the neighbors alone, and mixed."""
    frame = frame.assign(pooling=setting(frame, "retrieval_pooling"), neighbors=setting(frame, "neighbors"))
    rows = []
    for (system, pooling, protocol), mine in frame.groupby(["system", "pooling", "neighbors"], sort=False):
        start = f"{escape(system)}: {pooling}"
        rows.append(_row(f"{start}, KNN ({protocol})", mine, "knn"))
        rows.append(_row(f"{start}, mixed ({CHOSEN[protocol]})", mine, "mixture"))
    return "\n\n".join(part for part in (_table(rows, frame, printed), _clusters(frame, "pooling")) if part)


def neighbors_sweep(frame: pd.DataFrame, records: Records, printed: Printed | None) -> str:
    """The neighbors alone: by k at the paper's temperature, and by temperature at the paper's k."""
    frame = neighbors_alone(frame)
    columns = {f"k {k}": (k, PAPER_TEMPERATURE) for k in by_k(frame)["k"]}
    columns |= {f"T {value:g}": (PAPER_K, value) for value in by_temperature(frame)["temperature"]}
    metrics = [METRICS[task_metric(task)] for task in frame["task"]]
    shown = with_text(frame, "std").assign(
        task=frame["task"].map(escape), system=frame["system"].map(escape), metric=metrics
    )
    rows = {"task": "Task", "system": "System", "metric": "Metric"}
    return lay_out(shown, rows, columns, "k", "temperature")


def neighbors_alone(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of a sweep in the metric of their task, with ``k`` and ``temperature``."""
    return part_of(frame, "knn").assign(k=setting(frame, "k"), temperature=setting(frame, "temperature"))


def by_k(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of a sweep at the paper's temperature, by k."""
    return frame[frame["temperature"] == PAPER_TEMPERATURE].sort_values("k", kind="stable")


def by_temperature(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of a sweep at the paper's k, by temperature."""
    return frame[frame["k"] == PAPER_K].sort_values("temperature", kind="stable")


def part_of(frame: pd.DataFrame, part: str) -> pd.DataFrame:
    """The rows of the classifier, the neighbors or the mixture, in the metric of their task."""
    return frame[frame["metric"] == PARTS[part] + frame["task"].map(task_metric)]


def _row(label: str, frame: pd.DataFrame, part: str) -> pd.DataFrame:
    """A row of the table, even if none of its cells was measured."""
    frame = with_text(part_of(frame, part), "std")[["task", "text"]]
    return pd.concat([frame, pd.DataFrame({"task": [None], "text": [MISSING]})]).assign(row=label)


def _table(rows: list[pd.DataFrame], frame: pd.DataFrame, printed: Printed | None) -> str:
    tasks = list(dict.fromkeys(frame["task"]))
    if printed is not None:
        rows = [*rows, in_italics(printed, tasks).rename(columns={"system": "row"})]
    columns = {f"{escape(task)} {METRICS[task_metric(task)]}": task for task in tasks}
    return lay_out(pd.concat(rows), {"row": "System"}, columns, "task")


def _mixture_against_parts(frame: pd.DataFrame) -> str:
    """In how many cells the mixture is as good as the better of its parts, for each way to choose k, T and lambda."""
    lines = []
    for protocol, mine in frame.groupby("neighbors", sort=False):
        classifier = part_of(mine, "classifier")["mean"].to_numpy()
        knn = part_of(mine, "knn")["mean"].to_numpy()
        mixture = part_of(mine, "mixture")["mean"].to_numpy()
        gaps = (100 * (mixture - np.maximum(classifier, knn))).round(9)  # a tie is no loss
        lines.append(
            f"- {protocol}: in {(gaps >= 0).sum()} of {len(gaps)} cells the mixture is at least as good as the better "
            f"of classifier and neighbors; the differences are from {min(gaps):+.2f} to {max(gaps):+.2f} points, "
            f"{gaps.sum() / len(gaps):+.2f} in the mean."
        )
    return "\n".join(lines)


def _clusters(frame: pd.DataFrame, by: str) -> str:
    """How well the classes form clusters; empty for records that are older than these metrics."""
    frame = frame[frame["metric"].isin(CLUSTERS)]
    if frame.empty:
        return ""
    frame = frame[frame["neighbors"] == frame["neighbors"].iloc[0]]  # all protocols have the same clusters
    frame = with_text(frame, "std").assign(system=frame["system"].map(escape), by=frame[by].replace(VARIANTS))
    tasks = dict.fromkeys(frame["task"])
    columns = {f"{escape(task)} {metric}": (task, metric) for task in tasks for metric in CLUSTERS}
    return (
        "The share of a test text's 64 neighbors that have its label (purity, in %), and 100 times the silhouette of "
        "the test texts by their labels:\n\n"
        + lay_out(frame, {"system": "System", "by": by.capitalize()}, columns, "task", "metric")
    )
