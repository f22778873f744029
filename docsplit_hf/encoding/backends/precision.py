"""The precision that an encoder computes in: float32 or bfloat16 by torch, int8 by OpenVINO on a CPU.

In float32, linear layers are computed by oneDNN where that is faster.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, get_args
from weakref import WeakSet

import torch
from torch import nn
from torch.nn.functional import linear
from torch.overrides import TorchFunctionMode
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..portable.run_encoder import engine_of, set_engine
from .instructions import supports_bfloat16

logger = logging.getLogger(__name__)

INT8 = "int8"
Precision = Literal["float32", "bfloat16", "int8"]
PRECISIONS: tuple[str, ...] = get_args(Precision)
BFloat16 = bool | Literal["auto"] | None

IN_BFLOAT16: WeakSet[nn.Module] = WeakSet()  # encoders that were loaded with precision="bfloat16"
_warned_devices: set[str] = set()  # types of devices


def check_precision_options(precision: str | None, calibration_texts: Sequence[str] | None = None) -> None:
    """Refuse a precision that does not exist, and calibration texts for another one than int8."""
    if precision not in (None, *PRECISIONS):
        raise ValueError(f"precision must be one of {', '.join(map(repr, PRECISIONS))}, got {precision!r}.")
    if calibration_texts is not None and precision != INT8:
        raise ValueError("calibration_texts are for precision='int8': leave them out, or pass precision='int8'.")


def use_precision(
    encoder: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    pooling: str,
    precision: str | None,
    calibration_texts: Sequence[str] | None = None,
) -> None:
    """Compute an encoder in a precision from now on, in int8 with its current weights; None: unchanged.

    ``pooling``: of its states, with which a copy in int8 is compared with torch. ``calibration_texts``: those on which
    int8 measures the ranges of numbers; None: the documentation of installed packages.
    """
    check_precision_options(precision, calibration_texts)
    if precision is None:
        return
    engine = None
    if precision == INT8:
        from .openvino.engine import openvino_engine

        encoder.eval()  # a compiled copy cannot be trained, and switching to training mode later raises an error
        engine = openvino_engine(encoder, tokenizer, pooling, calibration_texts)
    set_engine(encoder, engine)
    IN_BFLOAT16.discard(encoder)
    if precision == "bfloat16":
        IN_BFLOAT16.add(encoder)


def precision_settings(encoder: PreTrainedModel) -> dict[str, str]:
    """The part of a fingerprint that depends on the precision: empty for float32."""
    engine = engine_of(encoder)
    if engine is not None:
        return {"precision": INT8, "exported": engine.key}
    return {"precision": "bfloat16"} if encoder in IN_BFLOAT16 else {}


def is_in_bfloat16(encoder: nn.Module, bf16: BFloat16, device: torch.device) -> bool:
    """Whether torch runs an encoder in bfloat16, given the ``bf16`` of a call; None: as the encoder was loaded."""
    if bf16 not in (None, True, False, "auto"):
        raise ValueError(f'bf16 must be True, False, "auto", or None for as it was loaded, got {bf16!r}.')
    engine = engine_of(encoder)
    if engine is not None:
        if bf16 is True:
            raise ValueError(f"bf16=True, but the encoder was loaded to run by {engine}: leave bf16 out.")
        return False
    if bf16 == "auto":
        return bool(supports_bfloat16(device))
    bf16 = encoder in IN_BFLOAT16 if bf16 is None else bf16
    if bf16 and supports_bfloat16(device) is False:
        if device.type == "cuda":
            raise ValueError("bf16=True, but this GPU has no bfloat16: load the model with dtype='float16' instead.")
        if device.type not in _warned_devices:
            _warned_devices.add(device.type)
            logger.warning(
                "This processor has no instructions for bfloat16, and is up to a hundred times slower with it than "
                'with float32: leave bf16 out, or pass bf16="auto".'
            )
    return bf16


@contextlib.contextmanager
def inference_mode(device: torch.device, bf16: bool = False) -> Iterator[None]:
    """Run without gradients, with the device's fastest linear layers; ``bf16``: in bfloat16 (autocast)."""
    autocast = torch.autocast(device.type, torch.bfloat16) if bf16 else contextlib.nullcontext()
    linear_layers = OneDNNLinear() if not bf16 and onednn_is_faster(device) else contextlib.nullcontext()
    with torch.inference_mode(), autocast, linear_layers:
        yield


def onednn_is_faster(device: torch.device) -> bool:
    """Whether oneDNN runs linear layers with AVX-512; MKL, torch's default, does so on Intel's processors only."""
    if device.type != "cpu" or not torch.backends.mkldnn.is_available() or not torch.backends.mkldnn.enabled:
        return False
    return torch.backends.cpu.get_cpu_capability() == "AVX512" and hasattr(torch.ops.mkldnn, "_linear_pointwise")


class OneDNNLinear(TorchFunctionMode):
    """Compute float32 linear layers on a CPU by oneDNN within the context; for inference only, without gradients.

    Results differ from torch's by the order of the sums (1e-6 of the largest element).
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Replace ``torch.nn.functional.linear``, and call all other functions of torch as they are."""
        if func is linear and not kwargs and is_for_onednn(*args):
            inputs, weight, *bias = args
            # A private operator of torch 2.13. No public one uses oneDNN instead of MKL.
            return torch.ops.mkldnn._linear_pointwise(inputs, weight, bias[0] if bias else None, "none", [], "")
        return func(*args, **(kwargs or {}))


def is_for_onednn(inputs: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> bool:
    """Whether oneDNN can compute a linear layer: plain float32 tensors on a CPU, without autocast."""
    tensors = [inputs, weight] if bias is None else [inputs, weight, bias]
    return (
        all(type(tensor) in (torch.Tensor, nn.Parameter) for tensor in tensors)  # quantized weights are not
        and all(tensor.dtype == torch.float32 and tensor.device.type == "cpu" for tensor in tensors)
        and all(tensor.layout == torch.strided for tensor in tensors)
        and inputs.numel() > 0
        and weight.ndim == 2
        # oneDNN expects a contiguous bias with one number for each row of the weight
        and (bias is None or (bias.shape == weight.shape[:1] and bias.is_contiguous()))
        and not torch.is_autocast_enabled("cpu")
    )
