"""Two real gloo processes against one process with the whole batch."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from .objectives import train

SCRIPT = Path(__file__).with_name("objectives.py")


@pytest.fixture(scope="module")
def folder(tiny_config, tokenizer, documents, tmp_path_factory):
    from docsplit_hf import AutoModelForDocSplit

    folder = tmp_path_factory.mktemp("objectives")
    torch.manual_seed(0)
    AutoModelForDocSplit.from_config(tiny_config).save_pretrained(folder / "tiny")
    tokenizer.save_pretrained(folder / "tiny")
    documents.save_to_disk(folder / "documents")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", SCRIPT, folder]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=150, env=os.environ)
    assert finished.returncode == 0, finished.stderr[-3000:]
    return folder


@pytest.mark.parametrize("objective", ["momentum_contrast", "contrastive_tension", "mlm"])
def test_two_processes_train_as_one(folder, objective):
    _, one = train(str(folder), objective)
    two, other = (torch.load(folder / f"{objective}-{process}.pt") for process in (0, 1))
    assert two["losses"] == pytest.approx(one["losses"], abs=1e-5)
    assert two["mrr"] == other["mrr"] == pytest.approx(one["mrr"], abs=1e-5)
    for part in {"weights", "keys"} & set(one):
        for name, weight in one[part].items():
            torch.testing.assert_close(two[part][name], weight, atol=1e-5, rtol=1e-5, msg=name)
            assert two[part][name].equal(other[part][name]), name
    if "queue" in one:  # the same everywhere, and that of one process
        torch.testing.assert_close(two["queue"], one["queue"], atol=1e-5, rtol=1e-5)
        assert two["queue"].equal(other["queue"])
