"""Find and check the checkpoint to resume from: it must be complete and belong to the same run."""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import TrainingArguments
from transformers.trainer_utils import has_length

from ..content_hash import sha256_of_json
from .arguments import ShareableTrainingArguments
from .checkpoint_folders import STATE_FILE, complete_checkpoints
from .distributed import process_count
from .markdown import public_name

logger = logging.getLogger(__name__)

ARGUMENTS_FILE = "training_args.json"  # in each checkpoint: the arguments, and the result of describe_run
SAMPLED_ROWS = 64  # rows of the training data that the checksum covers
# The Trainer's arguments that change the result of a step. Others may change when a run is resumed: logging,
# evaluation, saving, the device and its precision, the workers.
COMPARED_TRAINER_ARGUMENTS = {
    "num_train_epochs", "max_steps", "per_device_train_batch_size", "gradient_accumulation_steps", "learning_rate",
    "lr_scheduler_type", "lr_scheduler_kwargs", "warmup_steps", "optim", "optim_args", "optim_target_modules",
    "weight_decay", "adam_beta1", "adam_beta2", "adam_epsilon", "max_grad_norm", "label_smoothing_factor",
    "neftune_noise_alpha", "seed", "data_seed", "dataloader_drop_last", "train_sampling_strategy",
    "metric_for_best_model", "greater_is_better",
}  # fmt: skip
# Arguments that are not compared: the Trainer's other ones, and those of docsplit_hf that change only speed or
# descriptions.
IGNORED_ARGUMENTS = {field.name for field in dataclasses.fields(TrainingArguments)} - COMPARED_TRAINER_ARGUMENTS | {
    "data_description", "packing", "forward_chunk_size", "compile_layers", "overwrite_output_dir",
}  # fmt: skip
# Entries of configurations that are not compared: loading and calibration write them, or they are paths.
IGNORED_CONFIG_ENTRIES = {
    "transformers_version", "architectures", "dtype", "_name_or_path", "use_cache", "k", "knn_temperature",
    "knn_weight", "knn_calibration", "base_model_name_or_path", "inference_mode", "peft_version", "revision",
}  # fmt: skip


def checkpoint_to_resume(resume_from_checkpoint: str | bool | None, output_dir: str | Path) -> str | None:
    """Find the checkpoint to resume from, and check that it is complete; None for a new run.

    ``resume_from_checkpoint``: its folder; True or ``"last"``: the last complete one in ``output_dir``.
    """
    if not resume_from_checkpoint:
        return None
    folder = Path(str(resume_from_checkpoint))
    if resume_from_checkpoint is True or resume_from_checkpoint == "last":
        complete = complete_checkpoints(output_dir)
        if not complete:
            raise ValueError(
                f"There is no complete checkpoint to resume from in {output_dir}: start without resuming (with "
                "--overwrite_output_dir, if the folder is in use)."
            )
        folder = complete[-1]
    if not (folder / STATE_FILE).is_file():
        inside = [str(path) for path in complete_checkpoints(folder)]
        advice = f"it holds {', '.join(inside)}: name one of them" if inside else "name a folder checkpoint-<step>"
        raise ValueError(f"{folder} is not a complete checkpoint (it has no {STATE_FILE}); {advice}.")
    return str(folder)


def describe_run(
    args: ShareableTrainingArguments, model: torch.nn.Module, dataset: Any, columns: list[str]
) -> Mapping[str, Any]:
    """Describe data, model and processes of a run, as JSON values; the same in all processes and after each restart.

    None for the rows: a stream, which has a description instead.
    """
    is_table = has_length(dataset)
    adapters = getattr(model, "peft_config", {})
    base = model.get_base_model() if adapters else model
    # The model itself, or the first of two encoders.
    owner = next((module for module in base.modules() if hasattr(module, "config")), None)
    config = owner.config if owner is not None else None
    description = {
        "processes": process_count(),
        "training_rows": len(dataset) if is_table else None,
        "training_rows_checksum": _checksum(dataset, columns) if is_table else None,
        "training_stream": None if is_table else args.data_description,
        "architecture": type(owner or base).__name__,
        "started_from": config and (public_name(config.name_or_path) if config.name_or_path else "random weights"),
        "config": config and _compared_entries(config.to_dict()),
        "adapters": {name: _compared_entries(adapter.to_dict()) for name, adapter in adapters.items()},
    }
    # Through JSON, so that peft's sets become sorted lists.
    as_json = json.dumps(description, default=lambda value: sorted(value) if isinstance(value, set) else str(value))
    return json.loads(as_json)


def check_same_run(checkpoint: str | Path, now: Mapping[str, Any]) -> None:
    """Refuse a checkpoint of a run with other data, another model or other arguments than those of ``now``."""
    file = Path(checkpoint, ARGUMENTS_FILE)
    before = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    if "training_rows" not in before:
        logger.warning("%s has no record of its training data, which may differ from yours.", checkpoint)
    found = differences(before, json.loads(json.dumps(now)))
    if found:
        raise ValueError(
            f"{checkpoint} belongs to another run: {'; '.join(found)}. Use the arguments of that run to resume it, "
            f"or start a new run from its weights (--model_name_or_path {checkpoint}, with an --output_dir of its own)."
        )


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Describe each difference between the arguments and descriptions of two runs; entries of only one do not count."""
    ignored = set(IGNORED_ARGUMENTS)
    if "training_rows" in before and before["training_rows"] is None:
        ignored.discard("dataloader_num_workers")  # workers divide a stream, so their number changes its order
    if before.get("max_steps", 0) > 0:  # then the number of epochs has no effect
        ignored.add("num_train_epochs")
    old = _flatten({key: value for key, value in before.items() if key not in ignored})
    new = _flatten({key: value for key, value in now.items() if key not in ignored})
    return [f"{key}: {old[key]!r}, now {new[key]!r}" for key in old if key in new and old[key] != new[key]]


def _compared_entries(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Remove the entries of a configuration that are not compared, at any depth."""
    kept = {key: value for key, value in config.items() if key not in IGNORED_CONFIG_ENTRIES}
    return {key: _compared_entries(value) if isinstance(value, dict) else value for key, value in kept.items()}


def _flatten(nested: Mapping[str, Any], prefix: str = "") -> Mapping[str, Any]:
    """Flatten a nested dictionary; keys are joined by dots."""
    flat = {}
    for key, value in nested.items():
        if isinstance(value, dict) and value:
            flat.update(_flatten(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def _checksum(dataset: Any, columns: list[str]) -> str | None:
    """The checksum of evenly spaced rows as they are stored, whatever format or transform the data set has."""
    if not hasattr(dataset, "with_format") or len(dataset) == 0:
        return None
    stored = dataset.with_format(None)
    numbers = np.linspace(0, len(stored) - 1, min(SAMPLED_ROWS, len(stored))).astype(int)
    rows = [{name: row[name] for name in columns if name in row} for row in (stored[int(i)] for i in numbers)]
    return sha256_of_json(rows, sort_keys=True, default=str)[:16]
