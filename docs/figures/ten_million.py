"""Large datastores: docs/results/ten_million/results.md and docs/datastore.md."""

from __future__ import annotations

from typing import Any

import numpy as np

from .pages import Figures, Row
from .records import RESULTS, Records, benchmark, content

SHOWN = (("IVF1024,Flat", 32, None), ("IVF1024,PQ48", 32, 1), ("IVF1024,PQ48", 32, 4))
ROWS = (100_000, 1_000_000, 10_000_000)
SIZES = (
    "build_peak_rss",
    "build_peak_anonymous",
    "keys_bytes",
    "index_bytes",
    "search_peak_rss",
    "search_anonymous",
)


def ten_million() -> Figures:
    largest = largest_record()
    return {
        "sizes": benchmark("scale.ten_million_report").table(all_records()),
        "seconds to add": largest["add_s"],
        "seconds to remove": largest["remove_s"],
        "seconds to merge": largest["merge_s"],
        "memory to change": largest["change_peak_rss"] / 1e9,
        "memory to search": largest["search_peak_rss"] / 1e9,
        "memory of FAISS, a million": 384 * 4 * 1e6 / 1e9,
    }


def datastore() -> Figures:
    flat = {record["rows"]: record["p50"] for record in content("datastore_index.jsonl") if record["index"] == "Flat"}
    same = {name: share for name, share, _ in content("fitted_answers.json")["stores"]}
    passages = content("million_passages.json")["local"]
    return {
        "indexes": indexes(),
        "sizes": sizes(),
        "milliseconds, 100,000 rows": flat[100_000],
        "milliseconds, 300,000 rows": flat[300_000],
        "fitted answers kept": 100 * same["index IVF28,Flat"],
        "passages found": 100 * passages["IVF1024,PQ48, 32, 4"]["recall, 64"],
        "passages found, more lists": 100 * passages["IVF1024,PQ48, 128, 16"]["recall, 64"],
        **up_to_a_billion(),
    }


def up_to_a_billion() -> Figures:
    largest = largest_record()
    return {
        "up to a billion": benchmark("scale.cluster_estimate").sizes(RESULTS / "ten_million"),
        "milliseconds": largest["p50_ms"],
        "milliseconds, 99th percentile": largest["p99_ms"],
        "recall": largest["recall"],
        "queries a second": np.round(1000 / largest["p50_ms"], -1),
        "candidates": 64 * largest["rerank"],
        "milliseconds at first": largest["cold_p50_ms"],
        "index of a hundred million, GB": 10 * largest["index_bytes"] / 1e9,
    }


def all_records() -> Records:
    return [content(f"ten_million/{rows}.json") for rows in ROWS]


def largest_record() -> dict[str, Any]:
    return content(f"ten_million/{ROWS[-1]}.json")


def indexes() -> list[Row]:
    """Return the indexes of a million rows."""
    rows = []
    for record in content("datastore_index.jsonl"):
        kind = (record["index"], record["nprobe"], record["rerank"])
        if record["rows"] == 1_000_000 and (kind in SHOWN or kind[1] is None):
            options = [f"`{name}={record[name]}`" for name in ("nprobe", "rerank") if record[name]]
            digits = 0 if record["p50"] > 10 else 1
            rows.append(
                (
                    ", ".join([f'`"{record["index"]}"`', *options]),
                    f"{record['build']:.0f} s",
                    f"{record['memory']:,.0f} MB",
                    f"{record['p50']:.{digits}f} ms",
                    f"{record['p99']:.{digits}f} ms",
                    f"{record['recall']:.3f}",
                )
            )
    return rows


def sizes() -> list[Row]:
    """Return time and memory by the number of rows."""
    report = benchmark("scale.ten_million_report")
    rows = []
    for record in all_records():
        sizes = {name: report.gigabytes(record[name]) for name in SIZES}
        rows.append(
            (
                f"{record['rows']:,}",
                f'`"{record["index"]}"`, {record["nprobe"]}, {record["rerank"]}',
                f"{report.duration(record['check_s'])}, {report.duration(record['build_s'])}",
                f"{sizes['build_peak_rss']} ({sizes['build_peak_anonymous']})",
                f"{sizes['keys_bytes']}, {sizes['index_bytes']}",
                f"{record['open_s']:.1f} s",
                f"{sizes['search_peak_rss']} ({sizes['search_anonymous']})",
                f"{record['p50_ms']:.1f} ms",
                f"{record['recall']:.3f}",
            )
        )
    return rows
