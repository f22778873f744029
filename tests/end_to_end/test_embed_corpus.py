"""examples/embed_corpus.py: killed for real, and started again."""

import json
import time
from pathlib import Path

import psutil
import pytest

from .forked import finish_script, start_script

SCRIPT = Path(__file__).parents[2] / "examples" / "embed_corpus.py"
TEXTS = [f"The report number {i} says that {i % 13} bridges are old. " * (1 + i % 5) for i in range(300)]

pytest.importorskip("datatrove", reason="The extra datatrove is not installed.")


@pytest.fixture(scope="module")
def start(server, tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "texts.jsonl").write_text("\n".join(json.dumps({"id": f"t{i}", "text": t}) for i, t in enumerate(TEXTS)))

    def start(name, *options):
        arguments = (str(folder / "texts.jsonl"), str(folder / name), "--tasks=3", *options)
        process = start_script(SCRIPT, *arguments, "--workers=1", log=folder / f"{name}.log")
        return process, folder / name, folder / f"{name}.log"

    return start


def shards(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file() and file.name[0] != "."}


def test_a_killed_corpus_continues_to_the_same_bytes(start):
    alone, whole, log = start("whole")
    process, folder, killed_log = start("killed")
    deadline = time.monotonic() + 100
    while not (list(folder.glob(".00001-*")) or (folder / "00001.parquet").exists()) and time.monotonic() < deadline:
        assert process.is_alive(), killed_log.read_text()
        time.sleep(0.002)
    for one in (*psutil.Process(process.pid).children(recursive=True), process):  # datatrove has a process beside it
        one.kill()
    process.join()
    there = shards(folder)
    assert "00000.parquet" in there and "00002.parquet" not in there
    finished_at = (folder / "00000.parquet").stat().st_mtime_ns
    again, _, _ = start("killed")
    printed = finish_script(again, killed_log)
    assert "300 documents in 3 of 3 shards" in printed
    finish_script(alone, log)
    assert shards(folder) == shards(whole) and len(shards(whole)) == 3
    assert (folder / "00000.parquet").stat().st_mtime_ns == finished_at
    assert sorted(path.name for path in folder.iterdir() if path.is_dir()) == ["logs"]
