"""Find and check the checkpoint to resume from: it must be complete and belong to the same run."""

from __future__ import annotations

import dataclasses
import json
import logging
import re
import shutil
import zipfile
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from transformers import TrainingArguments
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR, has_length

from ..content_hash import sha256_of_json
from ..encoders.checkpoints.inside_folder import refuse_links
from .arguments import ShareableTrainingArguments
from .distributed import process_count
from .markdown import public_name

logger = logging.getLogger(__name__)

OVERWRITTEN_FOLDER = "_overwritten"  # the Trainer pushes no names with a leading underscore to the Hub
STATE_FILE = "trainer_state.json"  # written last, so a checkpoint without it is incomplete
ARGUMENTS_FILE = "training_args.json"  # in each checkpoint: the arguments and the RunDescription
SAMPLED_ROWS = 64  # of the training data, for the checksum
# The Trainer's own arguments that decide what a step computes. Others may change when a run is resumed: logging,
# evaluation, saving, the device and its precision, the workers.
DECISIVE = {
    "num_train_epochs", "max_steps", "per_device_train_batch_size", "gradient_accumulation_steps", "learning_rate",
    "lr_scheduler_type", "lr_scheduler_kwargs", "warmup_steps", "optim", "optim_args", "optim_target_modules",
    "weight_decay", "adam_beta1", "adam_beta2", "adam_epsilon", "max_grad_norm", "label_smoothing_factor",
    "neftune_noise_alpha", "seed", "data_seed", "dataloader_drop_last", "train_sampling_strategy",
    "metric_for_best_model", "greater_is_better",
}  # fmt: skip
# Our own arguments are all compared, except these: they change only speed and descriptions.
NOT_DECISIVE = {field.name for field in dataclasses.fields(TrainingArguments)} - DECISIVE | {
    "data_description", "packing", "forward_chunk_size", "overwrite_output_dir",
}  # fmt: skip
# Entries of configurations that loading and calibrating write, and paths on this machine.
INCIDENTAL = {
    "transformers_version", "architectures", "dtype", "_name_or_path", "use_cache", "k", "knn_temperature",
    "knn_weight", "knn_calibration", "base_model_name_or_path", "inference_mode", "peft_version", "revision",
}  # fmt: skip


def complete_checkpoints(output_dir: str | Path) -> list[Path]:
    """Find the complete folders ``checkpoint-<step>`` of a run, oldest first."""
    return [folder for _, folder in _by_step(output_dir) if (folder / STATE_FILE).is_file()]


def checkpoint_to_resume(resume_from_checkpoint: str | bool | None, output_dir: str | Path) -> str | None:
    """The checkpoint to resume from: the given folder, or for True or ``"last"`` the last complete one; None: new run.

    Raise if there is none, or it is incomplete.
    """
    if not resume_from_checkpoint:
        return None
    folder = Path(str(resume_from_checkpoint))
    if resume_from_checkpoint is True or resume_from_checkpoint == "last":
        found = complete_checkpoints(output_dir)
        if not found:
            ways = "start without resuming (with --overwrite_output_dir, if the folder is in use)"
            raise ValueError(f"There is no complete checkpoint to resume from in {output_dir}: {ways}.")
        folder = found[-1]
    if not (folder / STATE_FILE).is_file():
        inside = [str(path) for path in complete_checkpoints(folder)]
        advice = f"it holds {', '.join(inside)}: name one of them" if inside else "name a folder checkpoint-<step>"
        raise ValueError(f"{folder} is not a complete checkpoint (it has no {STATE_FILE}); {advice}.")
    _check_undamaged(folder)
    return str(folder)


def set_checkpoints_aside(output_dir: str | Path, after: int = -1) -> Path | None:
    """Move older checkpoints of steps after ``after`` to another folder, which is returned, so that none is resumed."""
    folders = [folder for step, folder in _by_step(output_dir) if step > after]
    if not folders:
        return None
    aside = Path(output_dir, OVERWRITTEN_FOLDER)
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir()
    for folder in folders:
        folder.rename(aside / folder.name)
    return aside


def check_output_dir(
    output_dir: str | Path, resume: str | bool | None, overwrite: bool, model: str | None = None
) -> None:
    """Refuse an output folder that is in use, or that contains the checkpoint to start from and would move it."""
    folder = Path(output_dir)
    if folder.is_dir() and any(folder.iterdir()) and not resume and not overwrite:
        go_on = "go on with that run (--resume_from_checkpoint last), " if complete_checkpoints(folder) else ""
        ways = f"Choose another, {go_on}or write over it (--overwrite_output_dir)."
        raise ValueError(f"The output folder {output_dir} is not empty. {ways}")
    if folder.is_dir():
        refuse_links(folder, may_be_link=True, below=False)  # the run writes files with the same names
    if overwrite and not resume and model and folder.resolve() in Path(model).resolve().parents:
        raise ValueError(f"The run would start from {model} and write over {output_dir}: choose another output folder.")


class RunDescription(TypedDict):
    """Data, model and processes of a run, in addition to its arguments; for JSON."""

    processes: int
    training_rows: int | None
    training_rows_checksum: str | None
    training_stream: str | None
    architecture: str
    started_from: str | None
    config: dict[str, Any] | None
    adapters: dict[str, dict[str, Any]]


def describe_run(
    args: ShareableTrainingArguments, model: torch.nn.Module, dataset: Any, columns: list[str]
) -> RunDescription:
    """Describe a run, equally in each process and after each restart."""
    is_table = has_length(dataset)
    adapters = getattr(model, "peft_config", {})
    base = model.get_base_model() if adapters else model
    owner = next((module for module in base.modules() if hasattr(module, "config")), None)  # the first of two encoders
    config = owner.config if owner is not None else None
    description: RunDescription = {
        "processes": process_count(),
        "training_rows": len(dataset) if is_table else None,
        "training_rows_checksum": _checksum(dataset, columns) if is_table else None,
        "training_stream": None if is_table else args.data_description,
        "architecture": type(owner or base).__name__,
        "started_from": config and (public_name(config.name_or_path) if config.name_or_path else "random weights"),
        "config": config and _decisive(config.to_dict()),
        "adapters": {name: _decisive(adapter.to_dict()) for name, adapter in adapters.items()},
    }
    as_json = json.dumps(description, default=lambda value: sorted(value) if isinstance(value, set) else str(value))
    return json.loads(as_json)  # peft's sets are sorted lists now


def check_same_run(checkpoint: str | Path, now: dict[str, Any]) -> None:
    """Refuse a checkpoint that was begun with other data, another model or other decisive arguments."""
    file = Path(checkpoint, ARGUMENTS_FILE)
    before = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    if "training_rows" not in before:
        logger.warning("%s does not record its training data, which may differ from yours.", checkpoint)
    found = differences(before, json.loads(json.dumps(now)))
    if found:
        raise ValueError(
            f"{checkpoint} belongs to another run: {'; '.join(found)}. Use the arguments of that run to resume it, "
            f"or start a new run from its weights (--model_name_or_path {checkpoint}, with an --output_dir of its own)."
        )


def differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Describe each difference in the decisive entries that both runs have."""
    ignored = NOT_DECISIVE | ({"num_train_epochs"} if before.get("max_steps", 0) > 0 else set())
    old = _flat({key: value for key, value in before.items() if key not in ignored})
    new = _flat({key: value for key, value in now.items() if key not in ignored})
    return [f"{key}: {old[key]!r}, now {new[key]!r}" for key in old if key in new and old[key] != new[key]]


def _by_step(output_dir: str | Path) -> list[tuple[int, Path]]:
    """Steps and folders of all checkpoints, complete or not, sorted by step."""
    step = re.compile(rf"{PREFIX_CHECKPOINT_DIR}-([0-9]+)")
    folders = [path for path in Path(output_dir).glob("*") if step.fullmatch(path.name) and path.is_dir()]
    return sorted((int(step.fullmatch(path.name)[1]), path) for path in folders)


def _check_undamaged(checkpoint: Path) -> None:
    """Refuse a checkpoint with a damaged file, and name the last undamaged checkpoint before it."""
    damage = _damage(checkpoint)
    if damage is None:
        return
    complete = complete_checkpoints(checkpoint.parent)
    earlier = complete[: complete.index(checkpoint)] if checkpoint in complete else []
    undamaged = next((folder for folder in reversed(earlier) if _damage(folder) is None), None)
    if undamaged is None:
        advice = "There is no whole checkpoint before it: start a new run."
    else:
        advice = f"{undamaged} is whole: go on from it (--resume_from_checkpoint {undamaged})."
    raise ValueError(f"{damage}: {checkpoint} cannot be resumed, as after a full disk or a crash. {advice}")


def _damage(checkpoint: Path) -> str | None:
    """Describe the first damaged file; only headers and ends of large files are read."""
    for file in sorted(checkpoint.rglob("*.*")):
        try:
            if file.suffix == ".json":
                json.loads(file.read_text(encoding="utf-8"))
            elif file.suffix == ".safetensors":
                with safe_open(file, "pt"):
                    pass
            elif file.suffix in (".pt", ".pth") and not zipfile.is_zipfile(file):  # its directory stands at the end
                raise ValueError("it ends too early")
        except (ValueError, SafetensorError) as error:
            return f"{file} is not whole ({file.stat().st_size:,} bytes: {error})"
    return None


def _decisive(config: dict[str, Any]) -> dict[str, Any]:
    """Remove the incidental entries of a configuration, at any depth."""
    kept = {key: value for key, value in config.items() if key not in INCIDENTAL}
    return {key: _decisive(value) if isinstance(value, dict) else value for key, value in kept.items()}


def _flat(nested: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten a nested dictionary; keys are joined by dots."""
    flat = {}
    for key, value in nested.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) and value else {f"{prefix}{key}": value}
    return flat


def _checksum(dataset: Any, columns: list[str]) -> str | None:
    """Checksum of evenly spaced rows as stored, independent of a format or transform of the data set."""
    if not hasattr(dataset, "with_format") or len(dataset) == 0:
        return None
    stored = dataset.with_format(None)
    numbers = np.linspace(0, len(stored) - 1, min(SAMPLED_ROWS, len(stored))).astype(int)
    rows = [{name: row[name] for name in columns if name in row} for row in (stored[int(i)] for i in numbers)]
    return sha256_of_json(rows, sort_keys=True, default=str)[:16]
