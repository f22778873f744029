"""Two real gloo processes against one process with the whole batch."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from .gradients import OPTIONS, train

SCRIPT = Path(__file__).with_name("gradients.py")


@pytest.fixture(scope="module")
def folder(tiny_config, tokenizer, documents, tmp_path_factory):
    from docsplit_hf import AutoModelForDocSplit

    folder = tmp_path_factory.mktemp("gradients")
    torch.manual_seed(0)
    AutoModelForDocSplit.from_config(tiny_config).save_pretrained(folder / "tiny")
    tokenizer.save_pretrained(folder / "tiny")
    # Two of the eight documents are duplicates, one on each process.
    documents.select([0, 1, 2, 3, 4, 1, 5, 6, *range(7, 40)]).save_to_disk(folder / "documents")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", SCRIPT, folder]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=150, env=os.environ)
    assert finished.returncode == 0, finished.stderr[-3000:]
    return folder


@pytest.mark.parametrize("number", range(len(OPTIONS)), ids=map(str, OPTIONS))
def test_two_processes_give_the_gradients_and_logs_of_one(folder, number):
    """With gradient caching too: one process with the whole batch at once against two with chunks of 3 and 1."""
    _, one = train(str(folder), OPTIONS[number])
    two = torch.load(folder / f"result-{number}.pt")
    assert two["all_reduces"] == 1
    assert set(one["gradients"]) == set(two["gradients"])
    for name, gradient in one["gradients"].items():
        torch.testing.assert_close(two["gradients"][name], gradient, atol=1e-5, rtol=1e-5, msg=name)
    assert max(gradient.abs().max() for gradient in one["gradients"].values()) > 0.01
    compared = {name for name in one["logs"] if not name.startswith(("eval_", "step", "epoch", "train_"))}
    assert {"loss", "contrastive_loss", "mlm_loss", "negatives", "in_batch_accuracy", "fraction_tokens_cut"} <= compared
    # The evaluation's losses are those of its batches, which two processes cut otherwise; what it retrieves is not.
    for name in compared | {"eval_recall@1", "eval_recall@10", "eval_mrr", "eval_chance_recall@1"}:
        assert two["logs"][name] == pytest.approx(one["logs"][name], abs=1e-5), name
    assert one["logs"]["negatives"] == pytest.approx(7 - 2 / 8)
