"""Run by test_objectives.py in two real processes: two steps of each objective, and what came of them in a file."""

import os
import sys

import torch
from datasets import load_from_disk
from transformers import AutoTokenizer

from docsplit_hf import AutoModelForDocSplit, ContrastiveTrainingArguments, DataCollatorForDocSplit
from docsplit_hf.training.distributed import process_count, process_index
from docsplit_hf.training.objectives import get_trainer_class


def train(folder, objective):
    """Two steps of 8 documents, on however many processes there are."""
    processes = int(os.environ.get("WORLD_SIZE", 1))
    options = {"momentum_contrast": {"queue_size": 20, "momentum": 0.5, "temperature": 20.0}}
    args = ContrastiveTrainingArguments(
        f"{folder}/run-{objective}-{processes}",
        objective=objective,
        tension_negatives=5,  # fewer than all others of a batch: which ones must not depend on the processes
        per_device_train_batch_size=8 // processes,
        train_sampling_strategy="sequential",
        max_steps=2,
        optim="sgd",
        learning_rate=0.01,
        logging_steps=1,
        save_strategy="no",
        use_cpu=True,
        disable_tqdm=True,
        **options.get(objective, {}),
    )
    tokenizer = AutoTokenizer.from_pretrained(f"{folder}/tiny")
    collator = DataCollatorForDocSplit(tokenizer, 64, 0.15 if objective == "mlm" else 0, "simcse")
    model = AutoModelForDocSplit.from_pretrained(f"{folder}/tiny", pooling="mean", mlm_head=objective == "mlm")
    documents = load_from_disk(f"{folder}/documents")
    trainer = get_trainer_class(objective)(
        model, args, documents.select(range(16)), documents.select(range(16, 29)), collator
    )
    trainer.train()
    assert process_count() == processes
    metrics = trainer.evaluate()
    logs = [logs["loss"] for logs in trainer.state.log_history if "loss" in logs]
    result = {"weights": _weights(trainer.model), "losses": logs, "mrr": metrics["eval_mrr"]}
    if objective == "momentum_contrast":
        result |= {"queue": trainer.queue.keys, "keys": _weights(trainer.key_encoder)}
    return trainer, result


def _weights(model):
    # The pooler is in no masked-LM checkpoint: each process has its own random one, which no embedding goes through.
    return {name: weight for name, weight in model.state_dict().items() if "pooler" not in name}


if __name__ == "__main__":
    for name in ("momentum_contrast", "contrastive_tension", "mlm"):
        trainer, result = train(sys.argv[1], name)
        torch.save(result, f"{sys.argv[1]}/{name}-{process_index()}.pt")
    trainer.accelerator.end_training()
