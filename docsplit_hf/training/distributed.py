"""Communication between processes that train together; each function also works in a single process."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import distributed
from transformers.modeling_layers import GradientCheckpointingLayer

if TYPE_CHECKING:
    from transformers import PreTrainedModel, Trainer, TrainingArguments


def process_count() -> int:
    """The number of processes that train together; 1 without torch.distributed."""
    return distributed.get_world_size() if distributed.is_initialized() else 1


def process_index() -> int:
    """The number of this process, from 0."""
    return distributed.get_rank() if distributed.is_initialized() else 0


def gather_with_gradient(tensor: torch.Tensor) -> torch.Tensor:
    """Concatenate ``(B, ...)`` over all processes; the gradient of a part is the sum over all processes."""
    return _GatherWithGradient.apply(tensor) if process_count() > 1 else tensor


def gather(tensor: torch.Tensor) -> torch.Tensor:
    """Concatenate ``(B, ...)`` over all processes, in their order, without gradients."""
    if process_count() == 1:
        return tensor
    parts = [torch.empty_like(tensor) for _ in range(process_count())]
    distributed.all_gather(parts, tensor.contiguous())
    return torch.cat(parts)


def sum_over_processes(tensor: torch.Tensor) -> torch.Tensor:
    """The sum over all processes, as a new tensor."""
    total = tensor.clone()
    if process_count() > 1:
        distributed.all_reduce(total)
    return total


def uses_fsdp(args: TrainingArguments) -> bool:
    """Whether the arguments or the configuration of ``accelerate launch`` request FSDP."""
    return bool(args.fsdp) or os.environ.get("ACCELERATE_USE_FSDP", "false").lower() == "true"


@contextlib.contextmanager
def in_fsdp_units(model: PreTrainedModel, fsdp_plugin: Any) -> Iterator[None]:
    """Make Accelerate shard a model with FSDP 2 layer by layer, and the rest as one unit; FSDP 1 is unchanged."""
    if "FULL" not in str(fsdp_plugin.state_dict_type):
        raise ValueError(
            f"With {fsdp_plugin.state_dict_type} no model is saved, only its shards: set fsdp_state_dict_type to "
            "FULL_STATE_DICT."
        )
    if fsdp_plugin.fsdp_version != 2:
        yield
        return
    # The policy would cast embeddings and losses from float32. Similarities divided by 0.05 need more than the 8 bits
    # of bfloat16's fraction.
    policy = fsdp_plugin.mixed_precision_policy
    if policy is not None:
        fsdp_plugin.mixed_precision_policy = dataclasses.replace(policy, output_dtype=None)
    # By default, Accelerate 1.15 makes units of the model's no-split modules, the word embeddings and the output layer.
    # In BERT, RoBERTa and ModernBERT these share modules, weights or a bias, which torch 2.13 refuses.
    if fsdp_plugin.transformer_cls_names_to_wrap is None:
        layers = {type(module).__name__ for module in model.modules() if isinstance(module, GradientCheckpointingLayer)}
        fsdp_plugin.transformer_cls_names_to_wrap = sorted(layers)
    model.get_input_embeddings = lambda: None
    model.get_output_embeddings = lambda: None
    try:
        yield
    finally:
        del model.get_input_embeddings, model.get_output_embeddings


class RunningMeans:
    """Weighted means by name, over steps and processes. Sums stay on the device, so that no step waits for them."""

    def __init__(self) -> None:
        self._sums: dict[str, torch.Tensor] = {}

    def add(self, name: str, total: torch.Tensor, weight: torch.Tensor | float) -> None:
        """Add values: ``total``, a scalar tensor, is their sum, and ``weight`` their number."""
        total = total.detach().float()
        if isinstance(weight, torch.Tensor):
            weight = weight.to(total)
        else:
            weight = torch.full_like(total, weight)  # filled on the device: a copy would wait for it
        added = torch.stack([total, weight])
        self._sums[name] = self._sums[name] + added if name in self._sums else added

    def copy(self) -> RunningMeans:
        """Copy the sums, which are not changed in place."""
        copied = RunningMeans()
        copied._sums = dict(self._sums)
        return copied

    def pop(self) -> dict[str, float]:
        """The means over all processes, without those of weight 0, and start again. Every process must call it."""
        if not self._sums:
            return {}
        totals = sum_over_processes(torch.stack(list(self._sums.values()))).tolist()
        means = {name: total / weight for name, (total, weight) in zip(self._sums, totals, strict=True) if weight}
        self._sums = {}
        return means


def end_run(trainer: Trainer) -> None:
    """Destroy the process group of a run, so that every process ends; the trainer cannot train afterwards."""
    # A remaining process group may abort its process. If DDP still holds it, it is destroyed with DDP, under Python's
    # lock, and joins a thread that may wait for that lock: the process then never ends (gloo, torch 2.13).
    trainer.model_wrapped = trainer.model
    trainer.accelerator.free_memory()
    trainer.accelerator.end_training()


class _GatherWithGradient(torch.autograd.Function):
    """Gather with a gradient; the same as torch.distributed.nn.functional.all_gather, which torch 2.13 deprecates."""

    @staticmethod
    def forward(ctx, tensor: torch.Tensor) -> torch.Tensor:
        return gather(tensor)

    @staticmethod
    def backward(ctx, gradient: torch.Tensor) -> torch.Tensor:
        return sum_over_processes(gradient.contiguous()).chunk(process_count())[process_index()]
