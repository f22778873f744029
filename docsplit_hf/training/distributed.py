"""What a loss over several processes needs, with one process as the simplest case."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import distributed


def process_count() -> int:
    """The number of processes that train together; 1 without torch.distributed."""
    return distributed.get_world_size() if distributed.is_initialized() else 1


def process_index() -> int:
    """The number of this process, from 0."""
    return distributed.get_rank() if distributed.is_initialized() else 0


def gather_with_gradient(tensor: torch.Tensor) -> torch.Tensor:
    """Concatenate ``(B, ...)`` over all processes; gradients flow back to where each part came from.

    The gradient of a part is the sum of what all processes' losses say of it. A mean over the local anchors on each
    process, averaged over the processes by DDP, then has exactly the gradient of one process with the whole batch.
    """
    return _GatherWithGradient.apply(tensor) if process_count() > 1 else tensor


def gather(tensor: torch.Tensor) -> torch.Tensor:
    """Concatenate ``(B, ...)`` over all processes, in their order, without gradients."""
    if process_count() == 1:
        return tensor
    parts = [torch.empty_like(tensor) for _ in range(process_count())]
    distributed.all_gather(parts, tensor.contiguous())
    return torch.cat(parts)


def sum_over_processes(tensor: torch.Tensor) -> torch.Tensor:
    """The sum over all processes, the same on each; the tensor is left as it is."""
    total = tensor.clone()
    if process_count() > 1:
        distributed.all_reduce(total)
    return total


def keep_outputs_in_float32(fsdp_plugin: Any) -> None:
    """Keep FSDP 2 from casting what the model returns to the dtype it computes in; FSDP 1 is left alone.

    Similarities that are divided by 0.05 need more than the 8 bits of bfloat16's fraction.
    """
    policy = fsdp_plugin.mixed_precision_policy
    if fsdp_plugin.fsdp_version == 2 and policy is not None:
        fsdp_plugin.mixed_precision_policy = dataclasses.replace(policy, output_dtype=torch.float32)


class _GatherWithGradient(torch.autograd.Function):
    """torch.distributed.nn.functional.all_gather does the same and is deprecated since torch 2.13."""

    @staticmethod
    def forward(ctx, tensor: torch.Tensor) -> torch.Tensor:
        return gather(tensor)

    @staticmethod
    def backward(ctx, gradient: torch.Tensor) -> torch.Tensor:
        return sum_over_processes(gradient.contiguous()).chunk(process_count())[process_index()]
