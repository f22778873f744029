"""Two real gloo processes against one process with the whole batch."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

SCRIPT = Path(__file__).with_name("gradients.py")


def run(*command):
    finished = subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=100)
    assert finished.returncode == 0, finished.stderr[-3000:]


@pytest.mark.parametrize("options", [{}, {"symmetric": True}, {"forward_chunk_size": 3}])
def test_two_processes_give_the_gradients_and_logs_of_one(tiny_checkpoint, documents, options):
    """With gradient caching too: one process with the whole batch at once against two with chunks of 3 and 1."""
    folder = tiny_checkpoint.parent
    # Two of the eight documents are duplicates, one on each process.
    order = [0, 1, 2, 3, 4, 1, 5, 6, *range(7, 40)]
    documents.select(order).save_to_disk(folder / "documents")
    run(str(SCRIPT), str(folder), json.dumps(options))
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    run(*launch, str(SCRIPT), str(folder), json.dumps(options))
    one, two = (torch.load(folder / f"result-{processes}.pt") for processes in (1, 2))
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
