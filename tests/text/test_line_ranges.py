"""A file of lines, read in ranges."""

import itertools
import json
from pathlib import Path

import pytest

from docsplit_hf.pretraining.streaming import RepeatedStream
from docsplit_hf.text.file_formats import load_file
from docsplit_hf.text.line_ranges import byte_ranges, lines_between


def test_each_line_begins_in_one_range(tmp_path):
    file = tmp_path / "lines"
    for content in (b"one\n\ntwo\r\n" + "drei \u00e4\n".encode() * 3 + b"last", b"\n\n", b"one", b""):
        file.write_bytes(content)
        for bounds in itertools.combinations_with_replacement(range(len(content) + 1), 3):
            ranges = itertools.pairwise([0, *bounds, len(content)])
            lines = [line for start, end in ranges for line in lines_between(file, start, end)]
            assert lines == content.splitlines(keepends=True)
    assert byte_ranges(0) == [(0, 0)] and byte_ranges(200_000) == [(0, 66666), (66666, 133333), (133333, 200000)]
    assert len(byte_ranges(10**9)) == 240


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="This system does not count what a process reads.")
@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_two_processes_read_no_more_than_one(tmp_path, ending):
    import pandas as pd

    file = tmp_path / f"documents.{ending}"
    rows = pd.DataFrame({"number": range(3000), "text": [json.dumps(list(range(i, i + 300))) for i in range(3000)]})
    if ending == "jsonl":
        rows.to_json(file, orient="records", lines=True)
    else:
        rows.to_parquet(file, row_group_size=100, compression=None)
    stream = load_file(file, streaming=True)
    assert stream.num_shards >= 30

    def read(process, processes):
        before, numbers = bytes_read(), []
        for row in RepeatedStream(stream, process, processes):
            if row["docsplit_epoch"] == 1:
                return numbers, bytes_read() - before
            numbers.append(row["number"])

    whole, of_one = read(0, 1)
    (first, some), (second, others) = read(0, 2), read(1, 2)
    assert sorted(first + second) == whole == list(range(3000))
    assert of_one > file.stat().st_size
    assert some + others < 1.1 * of_one


def bytes_read():
    """What this process has read so far, of files or of their cache."""
    return int(Path("/proc/self/io").read_text().split("rchar:")[1].split()[0])
