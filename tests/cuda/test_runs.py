"""Training runs on a GPU."""

import os
from functools import partial
from pathlib import Path

import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file
from transformers import AutoModel

from docsplit_hf import ContrastiveTrainer

from .conftest import DEVICE

pytestmark = [pytest.mark.cuda, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

# With these sizes a step takes about a gigabyte, which is much beside the model and the allocator's own blocks.
LARGE = {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 1024}
LARGE_BATCH = 128


def losses(trainer):
    return [row["loss"] for row in trainer.state.log_history if "loss" in row]


@pytest.mark.parametrize("compile_layers", ["off", "on"])
def test_a_resumed_run_equals_an_uninterrupted_one(make_trainer, compile_layers):
    make = partial(make_trainer, dropout=0.1, save_strategy="steps", save_steps=2, compile_layers=compile_layers)
    whole = make()
    whole.train()
    resumed = make(folder="again")
    resumed.train(resume_from_checkpoint=str(Path(whole.args.output_dir, "checkpoint-2")))
    assert resumed.state.global_step == 4
    expected = losses(whole)
    found = losses(resumed)
    assert found[2] == expected[2]  # the same weights, halves and dropout
    # The backward of flash attention adds in no fixed order.
    assert found[3] == pytest.approx(expected[3], rel=1e-2)


@pytest.mark.parametrize("bf16, tolerance", [(False, 1e-4), (True, 2e-2)])
def test_chunks_give_the_losses_of_the_whole_batch(make_trainer, bf16, tolerance):
    whole = make_trainer(bf16=bf16)
    whole.train()
    in_chunks = make_trainer(folder="chunks", bf16=bf16, forward_chunk_size=5)
    in_chunks.train()
    assert losses(in_chunks) == pytest.approx(losses(whole), rel=tolerance)


def test_compiled_layers_leave_no_trace_in_what_is_saved(make_trainer):
    weights = {}
    runs = {}
    for compile_layers in ("off", "on"):
        trainer = make_trainer(folder=compile_layers, compile_layers=compile_layers)
        trainer.train()
        trainer.save_model()
        weights[compile_layers] = load_file(Path(trainer.args.output_dir, "model.safetensors"))
        runs[compile_layers] = losses(trainer)
    assert weights["on"].keys() == weights["off"].keys()
    assert [values.dtype for values in weights["on"].values()] == [values.dtype for values in weights["off"].values()]
    assert runs["on"] == pytest.approx(runs["off"], rel=2e-2)
    loaded = AutoModel.from_pretrained(trainer.args.output_dir)
    assert loaded.embeddings.word_embeddings.weight.equal(weights["on"]["bert.embeddings.word_embeddings.weight"])


@pytest.mark.parametrize(
    "options",
    [{"activation_checkpointing": True}, {"forward_chunk_size": 5}, {"packing": "off"}],
    ids=str,
)
def test_compiling_goes_with_other_options(make_trainer, options):
    expected = make_trainer(**options)
    expected.train()
    compiled = make_trainer(folder="compiled", compile_layers="on", **options)
    compiled.train()
    assert losses(compiled) == pytest.approx(losses(expected), rel=2e-2)


def test_compiled_layers_are_trained_by_lora(make_trainer, many_documents):
    found = {}
    for compile_layers in ("off", "on"):
        made = make_trainer(folder=compile_layers, compile_layers=compile_layers)
        torch.manual_seed(0)
        adapted = get_peft_model(made.model, LoraConfig(target_modules="all-linear", init_lora_weights=False))
        adapted.peft_config["default"].base_model_name_or_path = "saved"
        trainer = ContrastiveTrainer(adapted, made.args, many_documents, data_collator=made.data_collator)
        trainer.train()
        found[compile_layers] = losses(trainer)
    assert found["on"] == pytest.approx(found["off"], rel=2e-2)


def test_runs_have_workers(make_trainer):
    trainer = make_trainer(dataloader_num_workers=None, max_steps=10_000)
    cores = len(os.sched_getaffinity(0))
    assert trainer.args.dataloader_num_workers == min(cores // 2, 8)
    loader = trainer.get_train_dataloader()
    assert loader.pin_memory


def test_losses_do_not_depend_on_workers(make_trainer):
    alone = make_trainer(max_steps=3)
    alone.train()
    with_workers = make_trainer(folder="workers", max_steps=3, dataloader_num_workers=2)
    with_workers.train()
    found = losses(with_workers)
    assert found[0] == losses(alone)[0]
    assert found == pytest.approx(losses(alone), rel=1e-2)


@pytest.fixture
def too_little(make_trainer, limit_memory):
    """Limit the memory to what is not enough for a step of LARGE_BATCH documents; gives the losses without a limit."""
    trainer = make_trainer(
        folder="unlimited", sizes=LARGE, per_device_train_batch_size=LARGE_BATCH, forward_chunk_size=None, max_steps=2
    )
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    trainer.train()
    expected = losses(trainer)
    peak = torch.cuda.max_memory_allocated() - before
    model = 4 * sum(weights.nbytes for weights in trainer.model.parameters())  # with gradients and optimizer
    assert peak > 4 * model
    trainer.model.cpu()
    del trainer
    torch.cuda.empty_cache()
    limit_memory(torch.cuda.memory_reserved() + 0.6 * peak)
    return expected


def test_a_step_that_does_not_fit_is_halved_until_it_does(make_trainer, too_little, caplog):
    trainer = make_trainer(sizes=LARGE, per_device_train_batch_size=LARGE_BATCH, forward_chunk_size="auto", max_steps=2)
    trainer.train()
    assert trainer.chunk_size is not None and trainer.chunk_size < LARGE_BATCH
    assert f"{trainer.chunk_size} per forward pass" in caplog.text
    assert losses(trainer) == pytest.approx(too_little, rel=2e-2)


@pytest.mark.usefixtures("too_little")
def test_the_error_of_a_step_that_does_not_fit_names_what_helps(make_trainer):
    trainer = make_trainer(sizes=LARGE, per_device_train_batch_size=LARGE_BATCH, forward_chunk_size=None)
    with pytest.raises(torch.OutOfMemoryError, match="forward_chunk_size=.*activation_checkpointing=True.*max_length="):
        trainer.train()


def test_a_run_is_on_the_gpu(make_trainer):
    trainer = make_trainer(max_steps=1)
    trainer.train()
    assert trainer.model.device.type == DEVICE
