"""The common start of the study at the size of BERT base: trained from random weights by masked words, in minutes.

A deep BERT learns next to nothing in its first thousands of steps, a shallow one does. So the first stages train fewer
layers, and each further stage begins with the layers of the one before twice, one stack on the other (Gong et al. 2019,
"Efficient Training of BERT by Progressively Stacking").
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from datasets import Dataset
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from docsplit_hf import AutoModelForDocSplit
from docsplit_hf.encoding.small_bert import small_bert_config
from docsplit_hf.training.checkpoint_folders import complete_checkpoints
from experiments.study.base_runs import SPECIAL_TOKENS, Size, Stage
from experiments.study.base_training import Deadline, TimeIsUpError, free_memory, make_trainer
from experiments.study.study_runs import Options

WEIGHTS = "model.safetensors"
STEPS = "steps.json"  # the planned steps of a stage
MOST_STEPS = 100_000  # while steps are timed
SAVING_SECONDS = 15.0  # for a checkpoint at the deadline
LAYER = re.compile(r"(?P<before>.*\.layer\.)(?P<number>\d+)(?P<after>\..*)")


class StartTraining:
    """The training of the start in ``folder``, stage by stage, until ``deadline`` (of ``time.monotonic``)."""

    def __init__(
        self,
        folder: Path,
        tokenizer: PreTrainedTokenizerBase,
        size: Size,
        options: Options,
        minutes: float,
        deadline: float,
    ) -> None:
        self.folder = folder
        self.tokenizer = tokenizer
        self.size = size
        self.options = options | {
            "objective": "mlm",
            "pooling": "mean",
            "views_kwargs": {"parts": 1},  # a row as it is
            "per_device_train_batch_size": size.start_batch,
            "learning_rate": size.start_rate,
            "adam_beta2": 0.98,
            "weight_decay": 0.01,
            "seed": 0,
        }
        self.minutes = minutes
        self.deadline = deadline

    def train(self, documents: Dataset) -> Path:
        """Train the stages that are not trained yet; return the folder of the last.

        Raises:
            TimeIsUpError: At the deadline; the next call continues.
        """
        rows = rows_of_tokens(documents, self.options["max_length"] - SPECIAL_TOKENS)
        for stage in self.size.stages:
            if not (self.folder_of(stage) / WEIGHTS).exists():
                self.train_stage(stage, rows)
                free_memory()
        return self.folder_of(self.size.stages[-1])

    def folder_of(self, stage: Stage) -> Path:
        """The folder of a stage's weights."""
        return self.folder / f"{stage.layers}_layers"

    def train_stage(self, stage: Stage, rows: Dataset) -> None:
        """Train the model of a stage for as many steps as fit into its minutes."""
        folder = self.folder_of(stage)
        planned = folder / STEPS
        if not planned.exists():
            steps = max(1, int(60 * self.minutes * stage.share / self.seconds_per_step(stage, rows)))
            free_memory()
            folder.mkdir(parents=True, exist_ok=True)
            planned.write_text(json.dumps(steps))
        steps = json.loads(planned.read_text())
        print(f"Start, {stage.layers} layers: {steps} steps", flush=True)
        is_last = stage == self.size.stages[-1]
        options = self.options | {
            "max_steps": steps,
            "warmup_steps": steps // 10,
            "lr_scheduler_type": "linear" if is_last else "constant_with_warmup",
            "logging_steps": max(1, steps // 15),
        }
        clock = Deadline(self.deadline - SAVING_SECONDS, saves=True)
        trainer = make_trainer(options, folder, self.tokenizer, rows, clock, self.new_model(stage))
        trainer.train("last" if complete_checkpoints(folder) else None)
        reached = trainer.state.global_step
        if reached < steps:
            raise TimeIsUpError(f"the start has {reached} of {steps} steps with {stage.layers} layers")
        trainer.save_model()
        for checkpoint in complete_checkpoints(folder):
            shutil.rmtree(checkpoint)

    def seconds_per_step(self, stage: Stage, rows: Dataset) -> float:
        """Train for some steps, and return the seconds of one, without the first half, which may compile."""
        clock = Deadline(self.deadline, most_steps=self.size.timed_steps)
        options = self.options | {"max_steps": MOST_STEPS}
        make_trainer(options, self.folder_of(stage), self.tokenizer, rows, clock, self.new_model(stage)).train()
        if len(clock.ends) < self.size.timed_steps:
            raise TimeIsUpError("the start has no steps")
        later = clock.ends[len(clock.ends) // 2 :]
        return (later[-1] - later[0]) / (len(later) - 1)

    def new_model(self, stage: Stage) -> PreTrainedModel:
        """The untrained model of a stage, the same in each call: random, or stacked from the stage before."""
        torch.manual_seed(0)
        config = small_bert_config(self.tokenizer, self.size.hidden_size, stage.layers)
        model = AutoModelForDocSplit.from_config(config, pooling="mean")
        number = self.size.stages.index(stage)
        if number:
            stack_layers(self.folder_of(self.size.stages[number - 1]), model)
        return model


def stack_layers(source: Path, model: PreTrainedModel) -> None:
    """Copy the weights in ``source`` into a deeper model, with its layers repeated from the bottom to the top."""
    shallow = AutoModelForDocSplit.from_pretrained(str(source))
    layers = shallow.config.num_hidden_layers
    given = shallow.state_dict()
    weights = {}
    for name in model.state_dict():
        found = LAYER.fullmatch(name)
        origin = name if found is None else f"{found['before']}{int(found['number']) % layers}{found['after']}"
        weights[name] = given[origin]
    model.load_state_dict(weights)


def rows_of_tokens(documents: Dataset, length: int) -> Dataset:
    """The tokens of all documents, one after another, cut into rows of ``length``; the rest is left out."""
    column = documents.with_format("arrow")[:]["input_ids"].combine_chunks()
    tokens: np.ndarray = column.flatten().to_numpy()
    count = len(tokens) // length
    rows: Sequence[np.ndarray] = list(tokens[: count * length].reshape(count, length))
    return Dataset.from_dict({"input_ids": rows, "sentence_lengths": [[length]] * count})
