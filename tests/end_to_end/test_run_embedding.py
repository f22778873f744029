"""examples/run_embedding.py, and the command docsplit that runs it."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
from datasets import Dataset

from docsplit_hf import DocumentEncoder

ROWS = [{"id": i, "body": f"The report number {i} says that {i % 13} bridges are old." * (i % 5)} for i in range(2300)]


def embed(folder, *options):
    command = [sys.executable, "-m", "docsplit_hf", "embed", "--dataset_name", "rows.jsonl", "--output", "out.parquet"]
    return subprocess.Popen(
        [*command, *options], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env=os.environ | {"HF_DATASETS_CACHE": str(folder / "cache"), "HF_HOME": str(folder / "home")},
    )  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("embedding")
    folder.joinpath("rows.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    return folder


def mark_as_kept(file):
    """Zeros in place of the embeddings: they are in the result only if nothing was embedded again."""
    marked = file.with_suffix(".marked")
    Dataset.from_file(str(file)).map(lambda row: {"embedding": np.zeros(64, np.float32)}, cache_file_name=str(marked))
    marked.replace(file)


def test_a_killed_run_goes_on_and_gives_the_rows_with_their_embeddings(folder):
    options = ("--text_column", "body", "--truncate_dim", "64")
    process = embed(folder, *options)
    kept, deadline = folder / "out.parquet.partial", time.monotonic() + 100
    while not list(kept.glob("*.arrow")):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (folder / "out.parquet").exists()
    mark_as_kept(min(kept.glob("*.arrow"), key=lambda file: file.stat().st_mtime_ns))  # that of the first rows
    process = embed(folder, *options)
    printed = process.communicate(timeout=100)[0]
    assert process.returncode == 0, printed
    assert "2,300 embeddings of 64 dimensions: out.parquet" in printed and not kept.exists()
    table = pd.read_parquet(folder / "out.parquet")
    assert table[["id", "body"]].to_dict("records") == ROWS
    encoder = DocumentEncoder.from_pretrained(device="cpu")
    assert all((embedding == 0).all() for embedding in table.embedding[:1000])
    few = [1000, 1001, 2299]
    expected = encoder.encode([ROWS[i]["body"] for i in few], show_progress=False, truncate_dim=64)
    for row, embedding in zip(few, expected, strict=True):
        assert table.embedding[row] == pytest.approx(embedding, abs=1e-5)
    process = embed(folder, *options)
    assert "out.parquet is there already: choose another --output" in process.communicate(timeout=100)[0]
    assert process.returncode == 2


def test_it_embeds_in_int8_quantized_on_its_own_texts(folder):
    pytest.importorskip("openvino", reason="The extra docsplit_hf[openvino] is not installed.")
    texts = ("bridges.jsonl", [row["body"] for row in ROWS[1:40]])
    folder.joinpath(texts[0]).write_text("\n".join(json.dumps({"text": text}) for text in texts[1]))
    process = embed(folder, "--dataset_name", texts[0], "--output", "int8.parquet", "--precision", "int8")
    printed = process.communicate(timeout=200)[0]
    assert process.returncode == 0 and "39 embeddings" in printed and "[transformers]" not in printed, printed
    found = np.stack(pd.read_parquet(folder / "int8.parquet").embedding)
    cosines = (found * DocumentEncoder.from_pretrained(device="cpu").encode(texts[1], show_progress=False)).sum(1)
    assert 0.95 < cosines.min() < 0.9999


def test_a_column_that_is_not_there_is_named(folder):
    process = embed(folder, "--output", "other.parquet")
    assert "There is no column 'text'. The data set has ['body', 'id']" in process.communicate(timeout=100)[0]
    assert process.returncode == 2
