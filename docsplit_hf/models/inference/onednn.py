"""Matrix products in float32 by oneDNN, where torch would ask MKL, which keeps AVX-512 for Intel's processors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn.functional import linear
from torch.overrides import TorchFunctionMode


def is_worthwhile(device: torch.device) -> bool:
    """Whether oneDNN can be asked for products on this device, and knows instructions that MKL may not use."""
    if device.type != "cpu" or not torch.backends.mkldnn.is_available() or not torch.backends.mkldnn.enabled:
        return False
    return torch.backends.cpu.get_cpu_capability() == "AVX512" and hasattr(torch.ops.mkldnn, "_linear_pointwise")


class OneDNNLinear(TorchFunctionMode):
    """Within it, linear layers in float32 on a CPU are computed by oneDNN. For inference: it knows no gradients.

    The result differs from torch's own in the order of the sums only (1e-6 of the largest element).
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is linear and not kwargs and is_for_onednn(*args):
            inputs, weight, bias = (*args, None)[:3]
            # A private operator of torch 2.13. No public one asks oneDNN instead of MKL.
            return torch.ops.mkldnn._linear_pointwise(inputs, weight, bias, "none", [], "")
        return func(*args, **(kwargs or {}))


def is_for_onednn(inputs: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> bool:
    tensors = [inputs, weight] if bias is None else [inputs, weight, bias]
    return (
        all(type(tensor) in (torch.Tensor, nn.Parameter) for tensor in tensors)  # quantized weights are not
        and all(tensor.dtype == torch.float32 and tensor.device.type == "cpu" for tensor in tensors)
        and all(tensor.layout == torch.strided for tensor in tensors)
        and inputs.numel() > 0
        and weight.ndim == 2
        # it reads a bias as contiguous, with one number for each row of the weight
        and (bias is None or (bias.shape == weight.shape[:1] and bias.is_contiguous()))
        and not torch.is_autocast_enabled("cpu")
    )
