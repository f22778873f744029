"""What a large datastore takes: the pages on its results, on the datastore and on scale."""

import importlib
import sys

import numpy as np
import pytest

from ..commands import ROOT
from .page import Page
from .records import RESULTS, content

SHOWN = (("IVF1024,Flat", 32, None), ("IVF1024,PQ48", 32, 1), ("IVF1024,PQ48", 32, 4))
ROWS = (100_000, 1_000_000, 10_000_000)


@pytest.fixture(autouse=True)
def import_benchmarks(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])


def all_records():
    return [content(f"ten_million/{rows}.json") for rows in ROWS]


def test_results():
    page = Page("docs/results/ten_million/results.md")
    page.has(importlib.import_module("ten_million_report").table(all_records()))
    largest = content("ten_million/10000000.json")
    seconds = (largest[f"{what}_s"] for what in ("add", "remove", "merge"))
    page.says("took {} s, removing ten {} s, merging {} s", *seconds)
    page.says("resident set of at most {} GB", largest["change_peak_rss"] / 1e9)
    page.says("a little at a time: {} GB", largest["search_peak_rss"] / 1e9)
    page.says("as float32: {} GB for a million", 384 * 4 * 1e6 / 1e9)
    page.without_record("a resident set of 8.2 GB then", "24 GB, one thread")  # before keys were mapped in small pages
    page.check(at_least=70)


def test_datastore():
    page = Page("docs/datastore.md")
    for one in content("datastore_index.jsonl"):
        how = [f"`{name}={one[name]}`" for name in ("nprobe", "rerank") if one[name]]
        kind = (one["index"], one["nprobe"], one["rerank"])
        if one["rows"] == 1_000_000 and (kind in SHOWN or kind[1] is None):
            cells = (", ".join([f'`"{one["index"]}"`', *how]), f"{one['build']:.0f} s", f"{one['memory']:,.0f} MB")
            digits = 0 if one["p50"] > 10 else 1
            times = (f"{one[name]:.{digits}f} ms" for name in ("p50", "p99"))
            page.has_rows([(*cells, *times, f"{one['recall']:.3f}")])
    flat = {one["rows"]: one["p50"] for one in content("datastore_index.jsonl") if one["index"] == "Flat"}
    page.says("takes {} ms per query at 100,000 rows and {} ms at 300,000", flat[100_000], flat[300_000])
    report = importlib.import_module("ten_million_report")
    for one in all_records():
        sizes = {
            name: report.gigabytes(one[name]) for name in one if "rss" in name or "bytes" in name or "anonymous" in name
        }
        cells = (
            f"{one['rows']:,}",
            f'`"{one["index"]}"`, {one["nprobe"]}, {one["rerank"]}',
            f"{report.duration(one['check_s'])}, {report.duration(one['build_s'])}",
            f"{sizes['build_peak_rss']} ({sizes['build_peak_anonymous']})",
            f"{sizes['keys_bytes']}, {sizes['index_bytes']}",
            f"{one['open_s']:.1f} s",
            f"{sizes['search_peak_rss']} ({sizes['search_anonymous']})",
            f"{one['p50_ms']:.1f} ms",
            f"{one['recall']:.3f}",
        )
        page.has_rows([cells])
    assert page.wrong == []


def test_scale(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["scale.py", str(RESULTS / "ten_million")])
    importlib.import_module("scale").main()
    page = Page("docs/scale.md")
    page.has(capsys.readouterr().out.strip())
    largest = content("ten_million/10000000.json")
    page.says("A query takes {} ms (median; {} at the 99th percentile)", largest["p50_ms"], largest["p99_ms"])
    page.says(
        "64 neighbors, recall {}, on one core: some {} a second",
        largest["recall"],
        np.round(1000 / largest["p50_ms"], -1),
    )
    page.says("at first it is not: {} ms", largest["cold_p50_ms"])
    page.says("the keys of {} candidates", 64 * largest["rerank"])
    page.says("the index is {} GB", 10 * largest["index_bytes"] / 1e9)
    million = content("milvus/million.json")
    times = (record["p50, ms, 64"] for record in (million["serve"], million["local"]["IVF1024,PQ48, 128, 16"]))
    page.says("{} rows came in a second", million["stream"]["rows per second in"])
    page.says("a query takes {} ms there, and {} ms in", *times)
    page.table_without_record("| shards | recall@64 | a shard, p50")  # merge_simulation.py
    page.without_record("by 30 % of the 989 TFLOP/s", "8 GB of memory do", "100 GB of fast disk and 16 GB of memory")
    page.check(at_least=40)
