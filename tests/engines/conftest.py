"""A corpus, and its shards by an uninterrupted run on this machine."""

import hashlib
import json
import os
import sys
import time
from datetime import date
from importlib.metadata import version
from pathlib import Path

import pytest
from datatrove.executor import LocalPipelineExecutor

from docsplit_hf.connectors.datatrove import EmbedDocuments, JsonlRangeReader

from ..conftest import make_text

ROOT = Path(__file__).parents[2]
TASKS = 4
DOCUMENTS = 2_400
LONGEST = 900  # seconds
RECORD = ROOT / "docs" / "results" / "engines.json"


class Embedding:
    """A corpus to embed into a folder, by tasks with observable shards."""

    tasks = TASKS

    def __init__(self, corpus: Path, folder: Path) -> None:
        self.folder = folder
        self.logging_dir = f"{folder}-logs"
        self.pipeline = [JsonlRangeReader(corpus), EmbedDocuments(folder)]

    def begun(self) -> set[int]:
        """The tasks that are embedding, or were killed while they did."""
        return {int(file.name[1:6]) for file in self.folder.glob(".0*")}

    def finished(self) -> set[int]:
        """The tasks that the executor has recorded as completed."""
        return {int(file.name) for file in Path(self.logging_dir, "completions").glob("0*")}

    def files(self) -> dict[str, str]:
        """The checksum of each file, without the hidden ones of tasks that were killed."""
        files = sorted(self.folder.glob("*.parquet"))
        return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    file = tmp_path_factory.mktemp("corpus") / "documents.jsonl"
    with open(file, "w") as lines:
        for number in range(DOCUMENTS):
            lines.write(json.dumps({"text": make_text(number, 2 + number % 3)}) + "\n")
    return file


@pytest.fixture(scope="session")
def undisturbed(corpus, tmp_path_factory):
    """The checksums of the files of a run of one task at a time."""
    embedding = Embedding(corpus, tmp_path_factory.mktemp("undisturbed") / "shards")
    LocalPipelineExecutor(embedding.pipeline, tasks=TASKS, workers=1, logging_dir=embedding.logging_dir).run()
    files = embedding.files()
    assert len(files) == 3 * TASKS + 1
    return files


@pytest.fixture
def embedding(corpus, tmp_path):
    return Embedding(corpus, tmp_path / "shards")


@pytest.fixture
def record():
    """Keep the measurements of a test, under a name, in the record of docs/corpus.md."""

    def keep(name, **measured):
        results = json.loads(RECORD.read_text()) if RECORD.exists() else {}
        results[name] = {"date": date.today().isoformat(), "datatrove": version("datatrove")} | measured
        RECORD.write_text(json.dumps(results, indent=2, sort_keys=True) + "\n")

    return keep


@pytest.fixture(scope="session")
def engines_environment():
    """The environment that tasks inherit: this Python's commands, and this checkout."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
        patch.setenv("PYTHONPATH", f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
        patch.setenv("OMP_NUM_THREADS", "1")
        yield


def wait_until(condition, what):
    """Call a condition until its result is true, and return the result."""
    deadline = time.monotonic() + LONGEST
    reached = condition()
    while not reached:
        assert time.monotonic() < deadline, f"waited {LONGEST} s in vain for {what}"
        time.sleep(0.1)
        reached = condition()
    return reached
