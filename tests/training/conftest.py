"""Trainers of any objective on the tiny model."""

import pytest
import torch
from transformers import TrainerCallback

from docsplit_hf import AutoModelForDocSplit, ContrastiveTrainingArguments, DataCollatorForDocSplit
from docsplit_hf.training.objectives import get_trainer_class


@pytest.fixture
def make_baseline(make_tiny_config, tokenizer, documents, tmp_path):
    """Make the trainer of an objective: 35 documents to train on, 13 held out, mean pooling, batches of 8 in order."""

    def make(objective, views="docsplit", views_kwargs=None, dropout=0.0, folder="run", **arguments):
        arguments = {
            "per_device_train_batch_size": 8, "report_to": "none", "learning_rate": 1e-3, "logging_steps": 1,
            "save_strategy": "no", "train_sampling_strategy": "sequential", **arguments,
        }  # fmt: skip
        args = ContrastiveTrainingArguments(
            str(tmp_path / folder), objective=objective, use_cpu=True, disable_tqdm=True, **arguments
        )
        config = make_tiny_config()
        config.hidden_dropout_prob = config.attention_probs_dropout_prob = dropout
        torch.manual_seed(0)
        model = AutoModelForDocSplit.from_config(config, pooling="mean", mlm_head=args.mlm_weight > 0)
        probability = 0.15 if args.mlm_weight > 0 else 0
        collator = DataCollatorForDocSplit(tokenizer, 64, probability, views, views_kwargs=views_kwargs)
        split = documents.train_test_split(test_size=13, seed=0)
        return get_trainer_class(objective)(model, args, split["train"], split["test"], collator)

    return make


@pytest.fixture
def loss_of_steps():
    """Train, and give the logged losses by step."""

    def losses(trainer, resume=None):
        trainer.train(resume)
        return {logs["step"]: logs["loss"] for logs in trainer.state.log_history if "loss" in logs}

    return losses


class Stop(TrainerCallback):
    """Ends a run after a step, as a run that is interrupted there."""

    def __init__(self, step):
        self.step = step

    def on_step_end(self, args, state, control, **kwargs):
        control.should_training_stop = state.global_step >= self.step


@pytest.fixture
def stop_after():
    return Stop
