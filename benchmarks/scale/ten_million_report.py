"""The table and the picture of ten_million.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib import pyplot

COLUMNS = (
    "rows", "index", "nprobe", "rerank", "check (of the processor)", "build (of the processor)",
    "memory to check (anonymous)", "memory to build (anonymous)", "keys on disk", "index on disk", "open",
    "memory to search (anonymous)", "p50", "p99", "p50 cold", "recall@64", "FAISS flat p50",
)  # fmt: skip


def table(records: list[dict[str, Any]]) -> str:
    lines = ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    for one in records:
        cells = [
            f"{one['rows']:,}",
            f"`{one['index']}`",
            str(one["nprobe"]),
            str(one["rerank"]),
            f"{duration(one['check_s'])} ({duration(one['check_processor_s'])})",
            f"{duration(one['build_s'])} ({duration(one['build_processor_s'])})",
            f"{gigabytes(one['check_peak_rss'])} ({gigabytes(one['check_peak_anonymous'])})",
            f"{gigabytes(one['build_peak_rss'])} ({gigabytes(one['build_peak_anonymous'])})",
            gigabytes(one["keys_bytes"]),
            gigabytes(one["index_bytes"]),
            f"{one['open_s']:.1f} s",
            f"{gigabytes(one['search_peak_rss'])} ({gigabytes(one['search_anonymous'])})",
            f"{one['p50_ms']:.1f} ms",
            f"{one['p99_ms']:.1f} ms",
            f"{one['cold_p50_ms']:.0f} ms",
            f"{one['recall']:.3f}",
            f"{one['flat_p50_ms']:.0f} ms" if "flat_p50_ms" in one else "not measured",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def gigabytes(size: int) -> str:
    return f"{size / 1e9:.2f} GB"


def plot(records: list[dict[str, Any]], path: Path) -> None:
    figure, axes = pyplot.subplots(1, 3, figsize=(10, 3), layout="constrained")
    rows = [one["rows"] for one in records]
    axes[0].plot(rows, [one["build_s"] / 60 for one in records], marker="o")
    axes[0].set(ylabel="build, minutes", yscale="log")
    for name, label in (("p50_ms", "median"), ("p99_ms", "99th percentile"), ("cold_p50_ms", "median, cold")):
        axes[1].plot(rows, [one[name] for one in records], marker="o", label=label)
    axes[1].set(ylabel="one query, ms", yscale="log")
    for name, label in (("build_peak_rss", "building"), ("search_peak_rss", "searching")):
        axes[2].plot(rows, [one[name] / 1e9 for one in records], marker="o", label=label)
    axes[2].set(ylabel="memory, GB", ylim=(0, None))
    for axis in axes:
        axis.set(xscale="log", xlabel="rows")
        axis.grid(alpha=0.3)
    for axis in axes[1:]:
        axis.legend()
    figure.savefig(path, dpi=110)
