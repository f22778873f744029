"""``docsplit embed`` and its script, examples/run_embedding.py."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from datasets import Dataset

from docsplit_hf import DocumentEncoder

from .forked import kill_script, start_script

SCRIPT = Path(__file__).parents[2] / "examples" / "run_embedding.py"
ROWS = [{"id": i, "body": f"The report number {i} says that {i % 13} bridges are old." * (i % 5)} for i in range(2300)]


@pytest.fixture(scope="module")
def folder(workshop, tmp_path_factory):
    folder = tmp_path_factory.mktemp("embedding")
    folder.joinpath("tiny").symlink_to(workshop / "tiny")
    folder.joinpath("rows.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    return folder


def mark_as_kept(file):
    """Replace kept embeddings by zeros, which show in the result only if nothing was embedded again."""
    marked = file.with_suffix(".marked")
    Dataset.from_file(str(file)).map(lambda row: {"embedding": np.zeros(16, np.float32)}, cache_file_name=str(marked))
    marked.replace(file)


def test_a_killed_run_continues_and_writes_the_rows_with_their_embeddings(folder, server, run_script, tmp_path):
    command = [SCRIPT, "--dataset_name=rows.jsonl", "--output=out.parquet", "--text_column=body", "--truncate_dim=16"]
    command += ["--model_name_or_path=tiny"]
    kept = folder / "out.parquet.partial"
    log = tmp_path / "log"
    kill_script(start_script(*command, log=log, folder=folder), lambda: any(kept.glob("*.arrow")), log)
    assert not (folder / "out.parquet").exists()
    mark_as_kept(min(kept.glob("*.arrow"), key=lambda file: file.stat().st_mtime_ns))  # that of the first rows
    printed = run_script(*command, folder=folder)
    assert "2,300 embeddings of 16 dimensions: out.parquet" in printed and not kept.exists()
    table = pd.read_parquet(folder / "out.parquet")
    assert table[["id", "body"]].to_dict("records") == ROWS
    encoder = DocumentEncoder.from_pretrained(str(folder / "tiny"), device="cpu")
    assert all((embedding == 0).all() for embedding in table.embedding[:1000])
    few = [1000, 1001, 2299]
    expected = encoder.encode([ROWS[i]["body"] for i in few], show_progress=False, truncate_dim=16)
    for row, embedding in zip(few, expected, strict=True):
        assert table.embedding[row] == pytest.approx(embedding, abs=1e-5)
    assert "out.parquet exists already: choose another --output" in run_script(*command, folder=folder, code=2)


def test_max_passages_limits_how_much_of_a_long_text_is_read(folder, server, run_script, tmp_path):
    long = "The river feeds the valley, and the stones are old. " * 4_000  # 200 KB
    (tmp_path / "long.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in (long, "A garden.")))
    output = tmp_path / "long.parquet"
    options = [f"--dataset_name={tmp_path / 'long.jsonl'}", f"--output={output}", "--model_name_or_path=tiny"]
    printed = run_script(SCRIPT, *options, "--long_documents=whole", "--max_passages=5", folder=folder)
    assert "1 of 2 texts are longer than 5 passages: 9" in printed
    encoder = DocumentEncoder.from_pretrained(str(folder / "tiny"), device="cpu")
    passages = encoder.encode_passages([long[:50_000]], normalize=False, max_passages=5, show_progress=False)
    end = passages.spans[-1, 1]
    expected = encoder.encode([long[:end], "A garden."], long_documents="whole", show_progress=False)
    assert np.stack(pd.read_parquet(output).embedding) == pytest.approx(expected, abs=1e-5)
    wrong = [*options[:1], f"--output={tmp_path / 'b.parquet'}", "--model_name_or_path=tiny", "--max_passages=5"]
    assert "--max_passages 5 has no effect with --long_documents first" in run_script(
        SCRIPT, *wrong, folder=folder, code=2
    )


def test_int8_is_quantized_on_the_texts_of_the_file(exported, run_script, texts, tmp_path):
    """A cached int8 export, quantized on the texts that the command draws: other texts would need another export."""
    drawn = Dataset.from_dict({"row": range(40)}).shuffle(seed=0)["row"][:]
    rows = [text for _, text in sorted(zip(drawn, texts[:40], strict=True))]
    (tmp_path / "rows.jsonl").write_text("\n".join(json.dumps({"text": text}) for text in rows))
    options = ("--dataset_name", tmp_path / "rows.jsonl", "--output", tmp_path / "int8.parquet", "--precision", "int8")
    options += ("--model_name_or_path", exported / "checkpoint")
    own = tmp_path / "in_the_home_of_the_exports.py"
    home = exported / "home"
    lines = ("import runpy", "from huggingface_hub import constants", f"constants.HF_HOME = {str(home)!r}")
    own.write_text("\n".join([*lines, f"runpy.run_path({str(SCRIPT)!r}, run_name='__main__')"]))
    before = sorted(home.rglob("*"))
    printed = run_script(own, *options)
    assert sorted(home.rglob("*")) == before
    assert "40 embeddings" in printed and "[transformers]" not in printed, printed
    found = np.stack(pd.read_parquet(tmp_path / "int8.parquet").embedding)
    encoder = DocumentEncoder.from_pretrained(str(exported / "checkpoint"), device="cpu")
    cosines = (found * encoder.encode(rows, show_progress=False)).sum(1)
    assert 0.9 < cosines.min() < 0.9999
