"""Run by test_gradients.py in two real processes: one training step for each of the options, its gradients and logs."""

import os
import sys

import torch
from datasets import load_from_disk
from transformers import AutoTokenizer, TrainerCallback

from docsplit_hf import AutoModelForDocSplit, ContrastiveTrainer, ContrastiveTrainingArguments, DataCollatorForDocSplit
from docsplit_hf.training.distributed import process_count

OPTIONS = ({}, {"symmetric": True}, {"forward_chunk_size": 3})


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


def train(folder: str, options: dict) -> tuple[CountingTrainer, dict]:
    """One step of 8 documents, on however many processes there are; one process takes them at once."""
    whole_batch, processes = 8, int(os.environ.get("WORLD_SIZE", 1))
    args = ContrastiveTrainingArguments(
        f"{folder}/run-{processes}",
        per_device_train_batch_size=whole_batch // processes,
        train_sampling_strategy="sequential",
        max_steps=1,
        max_grad_norm=0,
        logging_steps=1,
        save_strategy="no",
        use_cpu=True,
        disable_tqdm=True,
        eval_strategy="steps",
        eval_steps=1,
        **(options if processes > 1 else {"symmetric": "symmetric" in options}),
    )
    tokenizer = AutoTokenizer.from_pretrained(f"{folder}/tiny")
    documents = load_from_disk(f"{folder}/documents")
    save_gradients = SaveGradients()
    trainer = CountingTrainer(
        AutoModelForDocSplit.from_pretrained(f"{folder}/tiny"),
        args,
        documents.select(range(whole_batch)),
        documents.select(range(10, 33)),  # 23: does not divide by the processes or the batch
        DataCollatorForDocSplit(tokenizer, max_length=64),
        callbacks=[save_gradients],
    )
    trainer.train()
    assert process_count() == processes
    logs = {key: value for entry in trainer.state.log_history[:2] for key, value in entry.items()}
    return trainer, {"gradients": save_gradients.gradients, "logs": logs, "all_reduces": trainer.all_reduces}


if __name__ == "__main__":
    for number, options in enumerate(OPTIONS):
        trainer, result = train(sys.argv[1], options)
        if trainer.is_world_process_zero():
            torch.save(result, f"{sys.argv[1]}/result-{number}.pt")
    trainer.accelerator.end_training()
