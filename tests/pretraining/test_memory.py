"""Steps that do not fit into the memory of a GPU."""

from functools import partial

import pytest
import torch
from torch import nn

from docsplit_hf import AutoModelForDocSplit, ContrastiveTrainer, ContrastiveTrainingArguments, DataCollatorForDocSplit
from docsplit_hf.pretraining.memory import TOKENS_THAT_FILL_A_GPU, smaller_chunk, ways_to_need_less
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
    assert [smaller_chunk(short, size) for size in (36, 18, 9, 3, 2)] == [18, 9, 4, 1, 1]
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


def test_the_error_shows_the_numbers_of_the_run(make_trainer):
    trainer = make_trainer(rows=5)
    with pytest.raises(
        torch.OutOfMemoryError, match=r"8 documents with 2 views .* forward_chunk_size=4 .* max_length=32"
    ):
        trainer.train()
