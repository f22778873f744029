"""Two real gloo processes against one process with the whole batch. One launch does all: it takes most of the time."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer
from transformers import AutoModelForMaskedLM

from docsplit_hf import AutoModelForDocSplit
from docsplit_hf.reading.tables import SMALLEST_RANGE

from ..end_to_end.forked import run_two_processes
from .runs import OBJECTIVES, STEPS, shard, step, train

STREAMED = 20  # times the texts
SCRIPT = Path(__file__).with_name("runs.py")


@pytest.fixture(scope="module")
def folder(server, make_tiny_config, tokenizer, texts, documents, tmp_path_factory):
    """A tiny model and documents, and the results of two processes."""
    folder = tmp_path_factory.mktemp("two_processes")
    torch.manual_seed(0)
    AutoModelForDocSplit.from_config(make_tiny_config()).save_pretrained(folder / "tiny")
    tokenizer.save_pretrained(folder / "tiny")
    documents.save_to_disk(folder / "documents")
    # Two of the first eight documents are duplicates, one on each process.
    documents.select([0, 1, 2, 3, 4, 1, 5, 6, *range(7, 40)]).save_to_disk(folder / "with_duplicates")
    lines = [json.dumps({"number": i, "text": f"Number {i}. {text}"}) for i, text in enumerate(texts * STREAMED)]
    (folder / "texts.jsonl").write_text("\n".join(lines))
    assert (folder / "texts.jsonl").stat().st_size > 2 * SMALLEST_RANGE
    printed = run_two_processes(SCRIPT, folder, log=folder / "log")
    assert "find_unused_parameters" not in printed  # torch warns if DDP looks for unused parameters in vain
    return folder


@pytest.fixture(scope="module")
def results(folder):
    """The results of each of the two processes."""
    return [torch.load(folder / f"results-{process}.pt") for process in (0, 1)]


@pytest.mark.parametrize("name", STEPS)
def test_two_processes_give_the_gradients_and_logs_of_one(folder, results, name):
    """With gradient caching too: one process with the whole batch at once against two with chunks of 3 and 1."""
    one = step(str(folder), STEPS[name] | {"forward_chunk_size": None})
    two = results[0][name]
    assert two["all_reduces"] == 1
    assert set(one["gradients"]) == set(two["gradients"])
    for parameter, gradient in one["gradients"].items():
        torch.testing.assert_close(two["gradients"][parameter], gradient, atol=1e-5, rtol=1e-5, msg=parameter)
    assert max(gradient.abs().max() for gradient in one["gradients"].values()) > 0.01
    compared = {key for key in one["logs"] if not key.startswith(("eval_", "step", "epoch", "train_"))}
    assert {"loss", "contrastive_loss", "mlm_loss", "negatives", "in_batch_accuracy", "fraction_tokens_cut"} <= compared
    # The evaluation's losses depend on its batches, which two processes cut otherwise; its retrieval metrics do not.
    for key in compared | {"eval_recall@1", "eval_recall@10", "eval_mrr", "eval_chance_recall@1"}:
        # Two candidates whose similarities differ by rounding alone may change ranks.
        tolerance = 2e-3 if key == "eval_mrr" else 1e-5
        assert two["logs"][key] == pytest.approx(one["logs"][key], abs=tolerance), key
    assert one["logs"]["negatives"] == pytest.approx(7 - 2 / 8)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_two_processes_train_as_one(folder, results, objective):
    one = train(str(folder), objective)
    two, other = (result[objective] for result in results)
    assert two["losses"] == pytest.approx(one["losses"], abs=1e-5)
    assert two["mrr"] == other["mrr"] == pytest.approx(one["mrr"], abs=1e-5)
    for part in {"weights", "keys"} & set(one):
        for name, weight in one[part].items():
            torch.testing.assert_close(two[part][name], weight, atol=1e-5, rtol=1e-5, msg=name)
            assert two[part][name].equal(other[part][name]), name
    if "queue" in one:  # the same everywhere, and that of one process
        torch.testing.assert_close(two["queue"], one["queue"], atol=1e-5, rtol=1e-5)
        assert two["queue"].equal(other["queue"])


def test_two_processes_share_a_stream_and_go_on_to_the_last_bit(results, texts):
    two = [result["stream"] for result in results]
    assert sorted(two[0]["numbers"] + two[1]["numbers"]) == list(range(len(texts * STREAMED)))
    assert two[0]["numbers"] != sorted(two[0]["numbers"]) and all(result["trains_on_them"] for result in two)
    assert two[0]["losses"] == two[1]["losses"] == two[0]["resumed"] and len(two[0]["losses"]) == 4


def test_shards_train_and_are_saved_as_one_whole_model(folder, results, texts):
    one = shard(str(folder), "sharded")
    for name in ("sharded", "sharded_in_chunks"):
        two, other = (result[name] for result in results)
        assert set(two["shards"]) == {"DTensor"}
        assert two["losses"] == other["losses"] == pytest.approx(one["losses"], abs=1e-5) and len(two["losses"]) == 4
        assert two["mrr"] == other["mrr"] == pytest.approx(one["mrr"], abs=1e-5)
        for saved in ("checkpoint-2", "checkpoint-4", "."):
            runs = ("run-1-sharded", f"run-2-{name}")
            whole, gathered = (load_file(folder / run / saved / "model.safetensors") for run in runs)
            assert list(whole) == list(gathered)  # stored once where they are tied
            for weight in whole:
                torch.testing.assert_close(gathered[weight], whole[weight], atol=1e-5, rtol=1e-5, msg=weight)
    loaded = AutoModelForMaskedLM.from_pretrained(folder / "run-2-sharded_in_chunks").state_dict()
    assert all(loaded[weight].equal(gathered[weight]) for weight in gathered)
    of_one, of_two = (SentenceTransformer(str(folder / run)).encode(texts[:8]) for run in runs)
    torch.testing.assert_close(of_one, of_two, atol=1e-5, rtol=1e-5)


def test_shards_go_on_to_the_last_bit_and_exchange_their_gradients_once_a_step(results):
    for result in results:
        assert result["resumed_shards"]["losses"] == result["sharded_in_chunks"]["losses"]
        assert result["sharded"]["exchanges"] == result["sharded_in_chunks"]["exchanges"] > 0


def test_shards_in_half_precision_give_losses_in_float32(results):
    losses = results[0]["sharded_in_bfloat16"]["losses"]
    exact = results[0]["sharded"]["losses"]
    assert losses == pytest.approx(exact, abs=0.05) and losses != exact
    assert any(torch.tensor(loss).bfloat16().item() != loss for loss in losses)


def test_processes_agree_when_the_clock_of_one_asks_for_a_checkpoint(results):
    assert [result["clock"] for result in results] == [["rng_state_0.pth", "rng_state_1.pth"]] * 2


def test_the_process_group_is_taken_down_after_ddp_so_that_no_process_waits_for_another(results):
    assert [result["ended"] for result in results] == [True, True]
