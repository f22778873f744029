"""A Milvus server beside the other engines: docs/remote_datastore.md."""

from __future__ import annotations

from typing import Any

from .pages import Figure, Figures, Row
from .records import content

NOW = "after adds and removes"
LATER = "after a kill, indexed"
QUANTILES = ("p50, ms", "p99, ms")
ROWS = (
    ("memory", "memory", NOW),
    ('milvus-lite, `"FLAT"`', "milvus-lite, FLAT", NOW),
    ('server, `"FLAT"`', "server, FLAT", NOW),
    ("the same after a kill and restart", "server, FLAT", LATER),
    ('server, `"HNSW"`, just after adding', "server, HNSW", NOW),
    ('server, `"AUTOINDEX"`, just after adding', "server, AUTOINDEX", NOW),
    ('server, `"HNSW"`, index built, after a kill and restart', "server, HNSW", LATER),
    ('server, `"AUTOINDEX"`, the same', "server, AUTOINDEX", LATER),
)


def milvus() -> Figures:
    return {
        "engines": engines(),
        "kills": kills(),
        "million": million_passages(),
        **of_a_million(),
        "fitted answers": fitted_answers(),
        **of_fitted_answers(),
        "queries": found("server, FLAT", NOW)["queries"],
        "queries, milvus-lite": found("milvus-lite, FLAT", NOW)["queries"],
    }


def found(engine: str, when: str) -> dict[str, Any]:
    """Return the record of an engine."""
    [record] = [
        record
        for record in content("milvus/engines.jsonl")
        if (record["engine"], record["when"], record["passages"]) == (engine, when, 1)
    ]
    return record


def share(percent: float) -> str:
    """Format with one digit, or with two where one would show 100."""
    return "100" if percent == 100 else f"{percent:.{1 if percent < 99.95 else 2}f}"


def engines() -> list[Row]:
    rows = []
    for name, engine, when in ROWS:
        record = found(engine, when)
        rate = f"{record['rows per second in']:,}" if when == NOW else "–"
        same = [share(record["same label, %"]), share(record["same of 64, %"])]
        rows.append((name, rate, *same, *(f"{record[quantile]:,.1f}" for quantile in QUANTILES)))
    return rows


def kills() -> list[Row]:
    rows = []
    for victim in ("server", "client"):
        records = [record for record in content("milvus/kills.jsonl") if record["victim"] == victim]
        sums = [sum(record[name] for record in records) for name in ("unfinished", "lost", "doubled", "wrong")]
        rows.append((victim, str(len(records)), *map(str, sums)))
    return rows


def fitted_answers() -> list[Row]:
    record = content("remote_answers.json")
    kinds = (
        ("an answer, median of 30", "answer", "median bytes", "median s"),
        ("30 answers in one call", "answers to 30 texts in one call", "bytes", "s"),
        ("the first answer after a change by another process", "first answer after a change", "bytes", "s"),
    )
    rows = []
    for title, name, in_bytes, seconds in kinds:
        cells = []
        for version in ("before", "after"):
            spent = record[version][name]
            cells += [f"{spent[in_bytes]:,}", f"{spent[seconds]:.2f}"]
        rows.append((title, *cells))
    return rows


def of_fitted_answers() -> dict[str, Figure]:
    """Return the size of the collection, the answers compared, and what a fit takes."""
    record = content("remote_answers.json")
    now = record["after"]
    return {
        "documents of fitted answers": now["documents"],
        "answers compared": record["answers"]["compared"],
        "answers that differ": record["answers"]["different"],
        "MB of a fit": now["fit"]["bytes"] / 1e6,
        "seconds of a fit": now["fit"]["s"],
        "GB of a fit": now["memory after fit, MiB"] * 2**20 / 1e9,
    }


def million_passages() -> list[Row]:
    million = content("milvus/million.json")
    meanwhile = million["stream"]["meanwhile"]
    exact = million["local"]["exact"]
    systems = {'server, `"IVF_FLAT"`, index built': million["serve"]}
    for name, record in million["local"].items():
        if name.startswith("IVF"):
            factory, nprobe, rerank = name.rsplit(", ", 2)
            systems[f'`KNNDatastore`, `"{factory}"`, `nprobe={nprobe}`, `rerank={rerank}`'] = record
    rows = [("server, while rows come in", *(f"{meanwhile[quantile]:,.1f}" for quantile in QUANTILES), "–", "–")]
    for name, record in systems.items():
        times = [f"{record[f'{quantile}, 64']:,.1f}" for quantile in QUANTILES]
        recalls = [record.get(f"recall, {k}") for k in (64, 10)]
        rows.append((name, *times, *("–" if recall is None else f"{100 * recall:.1f}" for recall in recalls)))
    rows.append(("`KNNDatastore`, exact", *(f"{exact[quantile]:,.1f}" for quantile in QUANTILES), "100", "100"))
    return rows


def of_a_million() -> dict[str, Figure]:
    """Return what embedding, adding and searching a million passages takes."""
    million = content("milvus/million.json")
    embed = million["embed"]
    stream = million["stream"]
    serve = million["serve"]
    first, *_, last = stream["p50 of thirds, ms"]
    disk = serve["bytes a row on the disk"]
    return {
        "passages": million["rows"],
        "words of a passage": embed["mean words"],
        "tasks": embed["tasks"],
        "seconds to embed": embed["s"],
        "embedded a second": million["rows"] / embed["s"],
        "bytes of a row": embed["bytes a row"],
        "added a second": stream["rows per second in"],
        "seconds of the client": stream["client, processor s"],
        "seconds of the server": stream["server, processor s"],
        "searches meanwhile": stream["meanwhile"]["queries"],
        "median of the first third": first,
        "median of the last third": last,
        "memory after adding": stream["memory, GB"],
        "memory with an index": serve["memory, GB"],
        "memory of the KNNDatastore": million["local"]["memory, GB"],
        "disk, rows": disk["insert_log"],
        "disk, index": disk["index_files"],
        "disk, queue": disk["rocksmq"],
        "timed queries of the server": serve["queries, 64"],
        "timed queries of the KNNDatastore": million["local"]["exact"]["queries"],
    }
