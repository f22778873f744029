"""docs/remote_datastore.md: a Milvus server beside the other engines, and killed."""

from .page import Page
from .records import content

NOW, LATER = "after adds and removes", "after a kill, indexed"
OWN, WIDER = ", ef of the server", "; ef of 8 for each found"
ROWS = (
    ("memory", "memory", NOW),
    ('milvus-lite, `"FLAT"`', "milvus-lite, FLAT", NOW),
    ('server, `"FLAT"`', "server, FLAT", NOW),
    ("the same after a kill and restart", "server, FLAT", LATER),
    ('server, `"HNSW"`, just after adding', "server, HNSW", NOW + OWN),
    ('server, `"AUTOINDEX"`, just after adding', "server, AUTOINDEX", NOW + OWN),
    ('server, `"HNSW"`, index built, after a kill and restart', "server, HNSW", LATER + WIDER),
    ('server, `"AUTOINDEX"`, the same', "server, AUTOINDEX", LATER + WIDER),
)


def found(engine, when, passages=1):
    [record] = [
        record
        for record in content("milvus/engines.jsonl")
        if (record["engine"], record["when"], record["passages"]) == (engine, when, passages)
    ]
    return record


def rows():
    """The lines of both tables."""
    for said, engine, when in ROWS:
        record = found(engine, when)
        rate = f"{record['rows per second in']:,}" if when.startswith(NOW) else "–"
        same = [f"{record[name]:.1f}".replace("100.0", "100") for name in ("same label, %", "same of 64, %")]
        yield said, rate, *same, *(f"{record[name]:,.1f}" for name in ("p50, ms", "p99, ms"))
    for victim in ("server", "client"):
        kills = [record for record in content("milvus/kills.jsonl") if record["victim"] == victim]
        sums = [sum(record[name] for record in kills) for name in ("unfinished", "lost", "doubled", "wrong")]
        yield victim, *map(str, (len(kills), *sums))


def test_figures():
    page = Page("docs/remote_datastore.md")
    page.has_rows(rows())
    widths = [found(f"server, {index}", LATER + OWN)["same of 64, %"] for index in ("HNSW", "AUTOINDEX")]
    page.says('`"HNSW"` found {} % and `"AUTOINDEX"` {}.', *widths)
    page.says('`"AUTOINDEX"` {} % just after adding', found("server, HNSW", NOW, 3)["same of 64, %"])
    page.without_record(
        "pymilvus 3.0",
        "tested with 3.2",
        "milvus-lite 3.2",
        "than 2.3 can",
        "up to 13 points",
        "2 GiB of keys",
        "50 times with `kill -9`, then the client 50 times",
    )
    page.check(at_least=50)
