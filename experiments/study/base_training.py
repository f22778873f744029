"""Training in one process in the study at the size of BERT base, as ``docsplit pretrain`` trains, until a deadline."""

from __future__ import annotations

import gc
import math
import os
import time
from pathlib import Path

import torch
from datasets import Dataset
from transformers import PreTrainedModel, PreTrainedTokenizerBase, TrainerCallback

from docsplit_hf.apps.cli.pretrain import load_pretrained, make_collator
from docsplit_hf.apps.cli.pretrain_arguments import parse_command_line
from docsplit_hf.pretraining.contrastive_trainer import ContrastiveTrainer
from docsplit_hf.pretraining.objectives import get_trainer_class
from experiments.baselines.objectives import register
from experiments.study.study_runs import Options, as_arguments


class TimeIsUpError(Exception):
    """The given minutes are over, and the same command continues."""


class Deadline(TrainerCallback):
    """Stop a training in time, with a checkpoint if ``saves``, or after some steps; note when each step ended."""

    def __init__(self, at: float, saves: bool = False, most_steps: float = math.inf) -> None:
        self.at = at
        self.saves = saves
        self.most_steps = most_steps
        self.ends: list[float] = []

    def on_step_end(self, args, state, control, **kwargs) -> None:
        self.ends.append(time.monotonic())
        if time.monotonic() > self.at or len(self.ends) >= self.most_steps:
            control.should_training_stop = True
            control.should_save = self.saves


def make_trainer(
    options: Options,
    folder: Path,
    tokenizer: PreTrainedTokenizerBase,
    documents: Dataset,
    clock: Deadline,
    model: PreTrainedModel | None = None,
) -> ContrastiveTrainer:
    """A trainer as ``docsplit pretrain`` makes it of these options; no model: the one that they name."""
    register()
    given = options | surroundings() | {"output_dir": str(folder)}
    _, (model_arguments, data, arguments) = parse_command_line("", as_arguments(given))
    if model is None:
        model, _ = load_pretrained(model_arguments, data, arguments)
    collator = make_collator(tokenizer, data, arguments)
    trainer_class = get_trainer_class(arguments.objective)
    return trainer_class(model, arguments, documents, data_collator=collator, callbacks=[clock])


def surroundings() -> Options:
    """Options for what is logged and saved, and for what computes."""
    options: Options = {
        "bf16": True,
        "disable_tqdm": "True",  # the option takes a value
        "report_to": "none",
        "eval_strategy": "no",
        "save_strategy": "no",
        "load_best_model_at_end": False,
    }
    if torch.cuda.is_available():
        options["dataloader_num_workers"] = min(8, (os.cpu_count() or 2) // 2)
    else:
        options["use_cpu"] = True
    return options


def free_memory() -> None:
    """Free the memory of trainers that are no longer used; their parts refer to each other."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
