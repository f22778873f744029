"""Steps that do not fit into the memory of a GPU."""

import json
import logging
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import nn

from docsplit_hf import AutoModelForDocSplit, ContrastiveTrainer, ContrastiveTrainingArguments, DataCollatorForDocSplit
from docsplit_hf.pretraining.gradient_caching import TOKENS_THAT_FILL_A_GPU, smaller_chunk, ways_to_need_less
from docsplit_hf.pretraining.objectives import get_arguments_class


def _batch(documents, views, length):
    return {
        "input_ids": torch.zeros(documents * views, length),
        "document_ids": torch.arange(documents),
    }


def _arguments(folder, objective="info_nce", **options):
    return get_arguments_class(objective)(str(folder), use_cpu=True, report_to="none", **options)


def test_a_chunk_that_does_not_fit_is_halved_until_it_no_longer_fills_the_gpu():
    short = _batch(36, 2, 256)
    assert [smaller_chunk(short, size) for size in (36, 18, 9, 3, 2, 1)] == [18, 9, 4, 1, 1, None]
    long = _batch(12, 2, 4096)
    assert smaller_chunk(long, 12) == 3
    assert 6 * 2 * 4096 > TOKENS_THAT_FILL_A_GPU >= 3 * 2 * 4096


def test_the_error_names_what_is_not_used_yet(tmp_path):
    batch = _batch(12, 2, 4096)
    ways = ways_to_need_less(batch, size=12, args=_arguments(tmp_path), max_length=4096)
    assert "forward_chunk_size=3" in ways
    assert "activation_checkpointing=True" in ways
    assert "max_length=2048" in ways
    checkpointed = _arguments(tmp_path, activation_checkpointing=True)
    ways = ways_to_need_less(batch, size=1, args=checkpointed, max_length=4096)
    assert ways == "Use max_length=2048 (half of each view is not read)."


def test_the_error_names_only_what_the_objective_takes(tmp_path):
    args = _arguments(tmp_path, "distillation", teacher="docsplit-small-en")
    ways = ways_to_need_less(_batch(12, 2, 4096), size=12, args=args, max_length=4096)
    assert "per_device_train_batch_size=6 and gradient_accumulation_steps=2" in ways
    assert "forward_chunk_size" not in ways


@pytest.fixture
def make_trainer(tiny_config, tokenizer, documents, tmp_path):
    """A trainer on a CPU, in whose encoder a forward pass of more than ``rows`` rows runs out of memory."""

    def make(rows=1_000, folder="run", collator_length=64, **options):
        args = ContrastiveTrainingArguments(
            str(tmp_path / folder), use_cpu=True, disable_tqdm=True, report_to="none", max_steps=4, logging_steps=1,
            **({"per_device_train_batch_size": 8, "save_strategy": "no"} | options),
        )  # fmt: skip
        torch.manual_seed(0)
        model = AutoModelForDocSplit.from_config(tiny_config)
        collator = DataCollatorForDocSplit(tokenizer, collator_length)
        trainer = ContrastiveTrainer(model, args, documents, data_collator=collator)
        model.bert.embeddings.register_forward_pre_hook(partial(_out_of_memory_above, rows), with_kwargs=True)
        return trainer

    return make


def _out_of_memory_above(rows, module: nn.Module, args, kwargs) -> None:
    sequences = int((kwargs["position_ids"] == 0).sum())  # of a packed row
    if sequences > 2 * rows:  # and their masked copies
        raise torch.OutOfMemoryError("CUDA out of memory.")


def _losses(trainer):
    return [row["loss"] for row in trainer.state.log_history if "loss" in row]


def test_a_step_that_does_not_fit_is_repeated_in_chunks_of_half_the_size(make_trainer, caplog):
    expected = make_trainer(forward_chunk_size=2, packing="on")
    expected.train()
    trainer = make_trainer(rows=3, packing="on")
    with caplog.at_level(logging.WARNING, "docsplit_hf"):
        trainer.train()
    assert trainer.chunk_size == 2
    assert "Step 1: 8 documents with 2 views" in caplog.text
    assert "2 per forward pass" in caplog.text
    assert _losses(trainer) == _losses(expected)  # with the same dropout, and nothing measured twice
    for row, other in zip(trainer.state.log_history, expected.state.log_history, strict=True):
        assert {name for name in row if row[name] != other[name]} <= {"train_runtime"} | {
            name for name in row if name.endswith("_per_second")
        }


def test_a_resumed_run_uses_the_chunks_that_were_found(make_trainer):
    whole = make_trainer(rows=3, packing="on", save_strategy="steps", save_steps=2)
    whole.train()
    checkpoint = Path(whole.args.output_dir, "checkpoint-2")
    assert json.loads((checkpoint / "training_args.json").read_text())["forward_chunk_size"] == 2
    resumed = make_trainer(folder="again", packing="on")
    resumed.train(resume_from_checkpoint=str(checkpoint))
    assert resumed.chunk_size == 2
    assert _losses(resumed)[-2:] == _losses(whole)[-2:]


def test_without_a_smaller_chunk_the_error_shows_the_numbers_of_the_run(make_trainer):
    trainer = make_trainer(rows=5, forward_chunk_size=None)
    with pytest.raises(
        torch.OutOfMemoryError, match=r"8 documents with 2 views .* forward_chunk_size=4 .* max_length=32"
    ):
        trainer.train()
    trainer = make_trainer(rows=1)
    with pytest.raises(torch.OutOfMemoryError, match="1 per forward pass.*Use activation_checkpointing=True"):
        trainer.train()


def test_gradients_of_an_accumulated_batch_are_not_lost(make_trainer):
    trainer = make_trainer(gradient_accumulation_steps=2)
    calls = []

    def fail_later(module, args, kwargs):
        calls.append(1)
        if len(calls) == 2:
            raise torch.OutOfMemoryError("CUDA out of memory.")

    trainer.model.bert.embeddings.register_forward_pre_hook(fail_later, with_kwargs=True)
    with pytest.raises(torch.OutOfMemoryError, match="forward_chunk_size=4"):
        trainer.train()
