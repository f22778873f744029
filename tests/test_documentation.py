"""What the documentation shows, run as it stands."""

import json
import math
import re
from pathlib import Path

import pytest
import torch

DOCS = Path(__file__).parents[1] / "docs"


def test_the_example_of_one_more_baseline(tiny_checkpoint, texts, tmp_path, monkeypatch):
    (example,) = re.findall(r"```python\n(.*?)```", (DOCS / "baselines.md").read_text(), flags=re.DOTALL)
    assert len(example.splitlines()) < 60
    monkeypatch.chdir(tmp_path)
    Path("documents.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    for written, small in {
        '"output/pretrain"': f'"{tiny_checkpoint}"',
        '"output/decoupled"': '"output/decoupled", use_cpu=True, max_steps=2, per_device_train_batch_size=4',
        '"documents.jsonl")': '"documents.jsonl", test_size=8)',
        "(tokenizer, views": "(tokenizer, max_length=64, views",
    }.items():
        assert example.count(written) == 1, written
        example = example.replace(written, small)
    run = {}
    exec(compile(example, "baselines.md", "exec"), run)
    card = Path("output/decoupled/README.md").read_text()
    assert "`contiguous_halves`: Cut the document in two near its middle." in card
    assert "| Loss | decoupled contrastive loss, temperature 0.05 |" in card
    same = torch.ones(8, 4)  # three negatives each, none of them told from the positive
    loss = run["trainer"].contrast(same, {"document_ids": torch.arange(4)}).loss
    assert loss.tolist() == pytest.approx(4 * [math.log(3)])
