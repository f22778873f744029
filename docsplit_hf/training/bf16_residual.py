"""Layer norms that take and give bfloat16, so that the residual stream of an encoder has half the bytes."""

from __future__ import annotations

from types import MethodType

import torch
from torch import nn
from torch.nn import functional


def use_bf16_residual(model: nn.Module, wanted: bool) -> int:
    """Make all layer norms of a model take and give bfloat16 under autocast, or undo it; return their number.

    Autocast computes layer norms in float32 and returns float32, so that every residual addition and its gradient is
    in float32 too. Here mean, variance and the result are computed in float32 inside the kernel, and rounded once.
    Without autocast in bfloat16, and in saved models, nothing changes.
    """
    norms = [module for module in model.modules() if type(module) is nn.LayerNorm]
    for norm in norms:
        if wanted:
            norm.forward = MethodType(_layer_norm, norm)
        elif "forward" in vars(norm):
            del norm.forward
    return len(norms) if wanted else 0


def _layer_norm(norm: nn.LayerNorm, states: torch.Tensor) -> torch.Tensor:
    """The forward of a layer norm: bfloat16 under autocast in bfloat16, else unchanged."""
    device = states.device.type
    if not torch.is_autocast_enabled(device) or torch.get_autocast_dtype(device) != torch.bfloat16:
        return nn.LayerNorm.forward(norm, states)
    weight = None if norm.weight is None else norm.weight.bfloat16()
    bias = None if norm.bias is None else norm.bias.bfloat16()
    with torch.autocast(device, enabled=False):
        return functional.layer_norm(states.bfloat16(), norm.normalized_shape, weight, bias, norm.eps)
