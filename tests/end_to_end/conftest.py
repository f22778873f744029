"""Fixtures that run commands in separate processes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def run_python():
    """Run Python in a separate process and return its output; a failure shows the end of the output."""

    def run(*command, code=0, **environment):
        finished = subprocess.run(
            [sys.executable, *map(str, command)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=150,
            env={**os.environ, **environment},
        )
        assert finished.returncode == code, finished.stdout[-4000:]
        return finished.stdout

    return run


@pytest.fixture(scope="session")
def workshop(texts, tokenizer, make_tiny_config, tmp_path_factory):
    """Create a folder with a checkpoint (tiny/) and documents (documents.jsonl), as a user has them."""
    import torch

    from docsplit_hf import AutoModelForDocSplit

    folder = tmp_path_factory.mktemp("workshop")
    torch.manual_seed(0)
    AutoModelForDocSplit.from_config(make_tiny_config(), pooling="mean").save_pretrained(folder / "tiny")
    tokenizer.save_pretrained(folder / "tiny")
    (folder / "documents.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return folder


@pytest.fixture(scope="session")
def pretrain(workshop, run_script):
    """Run ``docsplit pretrain`` on the documents of the workshop; return its output folder and printed text."""

    def pretrain(name, *options, run=run_script, **more):
        arguments = [
            f"--output_dir={workshop / name}", f"--model_name_or_path={workshop / 'tiny'}",
            f"--dataset_name={workshop / 'documents.jsonl'}", "--test_size=8", "--max_length=64", "--num_proc=1",
            "--per_device_train_batch_size=4", "--max_steps=6", "--logging_steps=2", "--save_steps=3", "--eval_steps=3",
            "--use_cpu", *options,
        ]  # fmt: skip
        return workshop / name, run(ROOT / "examples" / "run_pretrain.py", *arguments, **more)

    return pretrain


@pytest.fixture(scope="session")
def pretrained(pretrain):
    return pretrain("pretrained", "--report_to=tensorboard")
