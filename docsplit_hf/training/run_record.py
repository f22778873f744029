"""What a run is trained with, as its checkpoints record it, and how another run differs from it."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import TrainingArguments
from transformers.trainer_utils import has_length

from .arguments import ShareableTrainingArguments
from .distributed import process_count
from .markdown import public_name

logger = logging.getLogger(__name__)

ARGUMENTS_FILE = "training_args.json"  # in each checkpoint: the arguments, and what describe_run says
SAMPLED_ROWS = 64
# Of the Trainer's own arguments, those that decide what its steps do. All others may change when a run goes on: what is
# logged, evaluated and saved, the device and its precision, the workers.
DECISIVE = {
    "num_train_epochs", "max_steps", "per_device_train_batch_size", "gradient_accumulation_steps", "learning_rate",
    "lr_scheduler_type", "lr_scheduler_kwargs", "warmup_steps", "optim", "optim_args", "optim_target_modules",
    "weight_decay", "adam_beta1", "adam_beta2", "adam_epsilon", "max_grad_norm", "label_smoothing_factor",
    "neftune_noise_alpha", "seed", "data_seed", "dataloader_drop_last", "train_sampling_strategy",
    "metric_for_best_model", "greater_is_better",
}  # fmt: skip
# Of ours, which are all compared but these: they change speed and words.
NOT_DECISIVE = {field.name for field in dataclasses.fields(TrainingArguments)} - DECISIVE | {
    "data_description", "packing", "forward_chunk_size", "overwrite_output_dir",
}  # fmt: skip
# Of configurations: what loading and calibrating write into them, and where they lay on this machine.
INCIDENTAL = {
    "transformers_version", "architectures", "dtype", "_name_or_path", "use_cache", "k", "knn_temperature",
    "knn_weight", "knn_calibration", "base_model_name_or_path", "inference_mode", "peft_version", "revision",
}  # fmt: skip


def describe_run(
    args: ShareableTrainingArguments, model: torch.nn.Module, dataset: Any, columns: list[str]
) -> dict[str, Any]:
    """What a run is trained with, beside its arguments: JSON, the same in each process and after each restart.

    Of a table the number of rows and a checksum of some of them are kept, of a stream only ``args.data_description``.
    The model is wrapped by nothing but PEFT; ``columns`` are those that are trained on.
    """
    is_table = has_length(dataset)
    adapters = getattr(model, "peft_config", {})
    base = model.get_base_model() if adapters else model
    owner = next((module for module in base.modules() if hasattr(module, "config")), None)  # of two encoders, the first
    config = owner.config if owner is not None else None
    described = {
        "processes": process_count(),
        "training_rows": len(dataset) if is_table else None,
        "training_rows_checksum": _checksum(dataset, columns) if is_table else None,
        "training_stream": None if is_table else args.data_description,
        "architecture": type(owner or base).__name__,
        "started_from": config and (public_name(config.name_or_path) if config.name_or_path else "random weights"),
        "config": config and _decisive(config.to_dict()),
        "adapters": {name: _decisive(adapter.to_dict()) for name, adapter in adapters.items()},
    }
    return json.loads(json.dumps(described, default=_as_json))


def check_same_run(checkpoint: str | Path, now: dict[str, Any]) -> None:
    """Refuse to go on from a checkpoint with other data, another model or other steps than it was begun with."""
    file = Path(checkpoint, ARGUMENTS_FILE)
    before = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    if "training_rows" not in before:
        logger.warning(
            "%s does not say what data it was trained on: whether they are the same is not known.", checkpoint
        )
    found = differences(before, json.loads(json.dumps(now)))
    if found:
        raise ValueError(
            f"{checkpoint} belongs to another run: {'; '.join(found)}. Give what that run was given to go on with it, "
            f"or start a new run from its weights (--model_name_or_path {checkpoint}, with an --output_dir of its own)."
        )


def differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """A few words for each difference of two runs, of all that decides how they train and that both say."""
    ignored = NOT_DECISIVE | ({"num_train_epochs"} if before.get("max_steps", 0) > 0 else set())
    old, new = (_flat({key: run[key] for key in run if key not in ignored}) for run in (before, now))
    return [f"{key}: {old[key]!r}, now {new[key]!r}" for key in old if key in new and old[key] != new[key]]


def _decisive(config: dict[str, Any]) -> dict[str, Any]:
    return {
        key: _decisive(value) if isinstance(value, dict) else value
        for key, value in config.items()
        if key not in INCIDENTAL
    }


def _flat(nested: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat = {}
    for key, value in nested.items():
        if isinstance(value, dict) and value:
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def _checksum(dataset: Any, columns: list[str]) -> str | None:
    """Of the rows in even distances, as they are stored: a format or a transform of the data set does not matter."""
    if not hasattr(dataset, "with_format") or len(dataset) == 0:
        return None
    stored = dataset.with_format(None)
    numbers = np.linspace(0, len(stored) - 1, min(SAMPLED_ROWS, len(stored))).astype(int)
    rows = [{name: row[name] for name in columns if name in row} for row in (stored[int(i)] for i in numbers)]
    return hashlib.sha256(json.dumps(rows, sort_keys=True, default=str).encode()).hexdigest()[:16]


def _as_json(value: Any) -> Any:
    return sorted(value) if isinstance(value, set) else str(value)
