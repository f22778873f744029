"""Run by test_two_processes.py in two real processes: steps of every objective, with their results in files."""

import itertools
import os
import sys
import weakref
from pathlib import Path
from unittest import mock

import torch
from accelerate.state import DistributedType, PartialState
from datasets import load_from_disk
from torch import distributed
from torch.nn.parallel import DistributedDataParallel
from transformers import AutoTokenizer, TrainerCallback

from docsplit_hf import (
    AutoModelForDocSplit,
    ContrastiveTrainer,
    DataCollatorForDocSplit,
    load_documents,
    segment_documents,
)
from docsplit_hf.pretraining.objectives import get_arguments_class, get_trainer_class
from docsplit_hf.pretraining.streaming import EPOCH_KEY
from docsplit_hf.training import base_trainer
from docsplit_hf.training.distributed import end_run, process_count, process_index
from experiments.baselines.objectives import register

WHOLE_BATCH = 8
STEPS = {
    "in_batch": {},
    "projection_head": {"projection_head": True, "forward_chunk_size": 3},
    "three_views": {"parts": 3, "forward_chunk_size": 3},
}
OBJECTIVES = {
    "momentum_contrast": {"queue_size": 20, "momentum": 0.5, "temperature": 20.0},
    # Fewer negatives than all others of a batch: their choice must not depend on the processes.
    "contrastive_tension": {"tension_negatives": 5},
    "mlm": {},
    "distillation": {"contrast_weight": 0.1},
}
SHARDED = {"sharded": {}, "sharded_in_chunks": {"forward_chunk_size": 3}, "sharded_in_bfloat16": {"bf16": True}}


class SaveGradients(TrainerCallback):
    def on_pre_optimizer_step(self, args, state, control, model, **kwargs):
        self.gradients = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}


class CountingTrainer(ContrastiveTrainer):
    """Counts the backward passes after which DDP averages the gradients."""

    all_reduces = 0

    def training_step(self, model, *args, **kwargs):
        backward = self.accelerator.backward

        def counted(loss, **options):
            self.all_reduces += getattr(model, "require_backward_grad_sync", False)
            backward(loss, **options)

        self.accelerator.backward = counted
        return super().training_step(model, *args, **kwargs)


def arguments(folder, objective="info_nce", **options):
    """A batch of 8 documents, on however many processes there are."""
    processes = int(os.environ.get("WORLD_SIZE", 1))
    return get_arguments_class(objective)(
        f"{folder}/run-{processes}",
        per_device_train_batch_size=WHOLE_BATCH // processes,
        train_sampling_strategy="sequential",
        logging_steps=1,
        save_strategy="no",
        use_cpu=True,
        disable_tqdm=True,
        **options,
    )


def step(folder, options):
    """The gradients and logs of one step, and of an evaluation."""
    options = dict(options)
    parts = options.pop("parts", 2)
    documents = load_from_disk(f"{folder}/with_duplicates")
    save_gradients = SaveGradients()
    trainer = CountingTrainer(
        AutoModelForDocSplit.from_pretrained(f"{folder}/tiny"),
        arguments(folder, max_steps=1, max_grad_norm=0, eval_strategy="steps", eval_steps=1, **options),
        documents.select(range(WHOLE_BATCH)),
        documents.select(range(10, 33)),  # 23: does not divide by the processes or the batch
        DataCollatorForDocSplit(
            AutoTokenizer.from_pretrained(f"{folder}/tiny"), max_length=64, views_kwargs={"parts": parts}
        ),
        callbacks=[save_gradients],
    )
    trainer.train()
    of_step, of_evaluation = trainer.state.log_history[:2]
    logs = of_step | of_evaluation
    return {"gradients": save_gradients.gradients, "logs": logs, "all_reduces": trainer.all_reduces}


def train(folder, objective):
    """The weights, losses and MRR after two steps of an objective."""
    register()
    options = dict(OBJECTIVES[objective])
    if objective == "distillation":
        options["teacher"] = f"{folder}/tiny"
    args = arguments(folder, objective=objective, max_steps=2, optim="sgd", learning_rate=0.01, **options)
    tokenizer = AutoTokenizer.from_pretrained(f"{folder}/tiny")
    collator = DataCollatorForDocSplit(tokenizer, 64, 0.15 if objective == "mlm" else 0, "simcse")
    model = AutoModelForDocSplit.from_pretrained(f"{folder}/tiny", pooling="mean", mlm_head=objective == "mlm")
    documents = load_from_disk(f"{folder}/documents")
    trainer = get_trainer_class(objective)(
        model, args, documents.select(range(16)), documents.select(range(16, 29)), collator
    )
    trainer.train()
    metrics = trainer.evaluate()
    result = {"weights": _weights(trainer.model), "losses": _losses(trainer), "mrr": metrics["eval_mrr"]}
    if objective == "momentum_contrast":
        result |= {"queue": trainer.queue.keys, "keys": _weights(trainer.key_encoder)}
    return result


def stream(folder):
    """The lines that this process reads in a pass and trains on, and the losses of a whole and of a resumed run."""
    tokenizer = AutoTokenizer.from_pretrained(f"{folder}/tiny")

    def trainer():
        texts = load_documents(f"{folder}/texts.jsonl", streaming=True, test_size=0)["train"]
        args = arguments(folder, max_steps=4, learning_rate=0.01)
        args.save_strategy = "steps"
        args.save_steps = 2
        model = AutoModelForDocSplit.from_pretrained(f"{folder}/tiny")
        documents = segment_documents(texts, tokenizer, segmenter="newline", single_sentence="dropout_pair")
        return ContrastiveTrainer(model, args, documents, None, DataCollatorForDocSplit(tokenizer, max_length=64))

    def losses(resume=None):
        run = trainer()
        run.train(resume)
        return _losses(run)

    first = trainer()
    rows = list(itertools.takewhile(lambda row: row[EPOCH_KEY] == 0, first.train_dataset))
    batch = next(iter(first.get_train_dataloader()))
    return {
        "numbers": [row["number"] for row in rows],
        "trains_on_them": batch["document_ids"].equal(first.data_collator(rows[:4])["document_ids"]),
        "losses": losses(),
        "resumed": losses(f"{folder}/run-2/checkpoint-2"),
    }


def shard(folder, name, resume=None):
    """The losses of four steps, and how often gradients are exchanged; saved are the second and the last step.

    Several processes have FSDP 2, and one has not.
    """
    fsdp = "WORLD_SIZE" in os.environ
    args = arguments(folder, max_steps=4, learning_rate=1e-3, adam_epsilon=1e-4, fsdp=fsdp, **SHARDED[name])
    args.output_dir += f"-{name}"
    args.save_strategy = "steps"
    args.save_steps = 2
    if fsdp:  # Accelerate shards on GPUs alone, and torch on CPUs too
        PartialState._shared_state["distributed_type"] = DistributedType.MULTI_GPU
    documents = load_from_disk(f"{folder}/documents")
    trainer = ContrastiveTrainer(
        AutoModelForDocSplit.from_pretrained(f"{folder}/tiny"),
        args,
        documents,
        documents.select(range(11)),
        DataCollatorForDocSplit(AutoTokenizer.from_pretrained(f"{folder}/tiny"), max_length=64),
    )
    # Its name since torch 2.13, and the one before.
    name = "reduce_scatter_single" if hasattr(distributed, "reduce_scatter_single") else "reduce_scatter_tensor"
    with mock.patch.object(distributed, name, wraps=getattr(distributed, name)) as exchange:
        trainer.train(resume and f"{args.output_dir}/checkpoint-2")
    metrics = trainer.evaluate()
    trainer.save_model()
    return {
        "losses": _losses(trainer),
        "mrr": metrics["eval_mrr"],
        "exchanges": exchange.call_count,
        "shards": [type(parameter).__name__ for parameter in trainer.model.parameters()],
    }


def saved_by_the_clock_and_ended(folder):
    """The files of a step that is due by the clock of the second process alone, and if DDP ended before its group."""
    base_trainer.SECONDS_BETWEEN_SAVES = -1 if process_index() else 3600
    args = arguments(folder, max_steps=2)
    args.output_dir = f"{folder}/clock"
    args.save_strategy = "steps"
    args.save_steps = 100
    trainer = ContrastiveTrainer(
        AutoModelForDocSplit.from_pretrained(f"{folder}/tiny"),
        args,
        load_from_disk(f"{folder}/documents").select(range(16)),
        data_collator=DataCollatorForDocSplit(AutoTokenizer.from_pretrained(f"{folder}/tiny"), max_length=64),
    )
    trainer.train()
    assert isinstance(trainer.model_wrapped, DistributedDataParallel)
    wrapped = weakref.ref(trainer.model_wrapped)
    take_down = trainer.accelerator.end_training
    gone = []

    def watched():
        gone.append(wrapped() is None)
        take_down()

    trainer.accelerator.end_training = watched
    saved = sorted(path.name for path in Path(folder, "clock", "checkpoint-1").glob("rng_state*"))
    end_run(trainer)
    return saved, gone == [True] and not torch.distributed.is_initialized()


def _losses(trainer):
    return [logs["loss"] for logs in trainer.state.log_history if "loss" in logs]


def _weights(model):
    # The pooler is in no masked-LM checkpoint: each process has its own random one, which no embedding depends on.
    return {name: weight for name, weight in model.state_dict().items() if "pooler" not in name}


if __name__ == "__main__":
    folder = sys.argv[1]
    results = {name: step(folder, options) for name, options in STEPS.items()}
    results |= {objective: train(folder, objective) for objective in OBJECTIVES}
    results["stream"] = stream(folder)
    results |= {name: shard(folder, name) for name in SHARDED}
    results["resumed_shards"] = shard(folder, "sharded_in_chunks", resume=True)
    assert process_count() == 2
    process = process_index()
    results["clock"], results["ended"] = saved_by_the_clock_and_ended(folder)
    torch.save(results, f"{folder}/results-{process}.pt")
