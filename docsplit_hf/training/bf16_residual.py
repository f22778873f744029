"""Layer norms that take and give bfloat16, so that the residual stream of an encoder has half the bytes."""

from __future__ import annotations

from types import MethodType

import torch
from torch import nn
from torch.nn import functional
from transformers import PreTrainedModel


def use_bf16_residual(model: nn.Module, wanted: bool) -> int:
    """Make the layer norms of all encoders in a model give bfloat16 under autocast, or undo it; return their number.

    Autocast computes layer norms in float32 and returns float32, so that every residual addition and its gradient is
    in float32 too. Here mean, variance and the result are computed in float32 inside the kernel, and rounded once. The
    last layer norm of an encoder still gives float32, for embeddings that are compared at a temperature of 0.05.
    Without autocast in bfloat16, and in saved models, nothing changes.
    """
    count = 0
    for encoder in _encoders(model):
        norms = [module for module in encoder.modules() if type(module) is nn.LayerNorm]
        for norm in norms:
            if wanted:
                norm.forward = MethodType(_give_float32 if norm is norms[-1] else _give_bfloat16, norm)
                count += 1
            elif "forward" in vars(norm):
                del norm.forward
    return count


def _encoders(model: nn.Module) -> list[PreTrainedModel]:
    """The encoders in a model, without their heads."""
    models = [module for module in model.modules() if isinstance(module, PreTrainedModel)]
    return [module for module in models if module.base_model is module]


def _give_bfloat16(norm: nn.LayerNorm, states: torch.Tensor) -> torch.Tensor:
    """The forward of a layer norm inside the encoder."""
    if not _is_in_bfloat16(states.device):
        return nn.LayerNorm.forward(norm, states)
    weight = None if norm.weight is None else norm.weight.bfloat16()
    bias = None if norm.bias is None else norm.bias.bfloat16()
    with torch.autocast(states.device.type, enabled=False):
        return functional.layer_norm(states.bfloat16(), norm.normalized_shape, weight, bias, norm.eps)


def _give_float32(norm: nn.LayerNorm, states: torch.Tensor) -> torch.Tensor:
    """The forward of the last layer norm."""
    if not _is_in_bfloat16(states.device):
        return nn.LayerNorm.forward(norm, states)
    with torch.autocast(states.device.type, enabled=False):
        return nn.LayerNorm.forward(norm, states.float())


def _is_in_bfloat16(device: torch.device) -> bool:
    """Whether autocast computes in bfloat16 on a device."""
    return torch.is_autocast_enabled(device.type) and torch.get_autocast_dtype(device.type) == torch.bfloat16
