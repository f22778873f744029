"""The library and the precision that an encoder computes in: torch, oneDNN, OpenVINO; float32, bfloat16, int8."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, get_args
from weakref import WeakSet

import torch
from torch import nn
from torch.nn.functional import linear
from torch.overrides import TorchFunctionMode
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..portable.run_encoder import engine_of, set_engine

logger = logging.getLogger(__name__)

Backend = Literal["torch", "openvino"]
Precision = Literal["float32", "bfloat16", "int8"]
BFloat16 = bool | Literal["auto"] | None
BACKENDS, PRECISIONS = get_args(Backend), get_args(Precision)

# For bfloat16, as torch names them: of x86, AVX-512 and AMX; of Arm, NEON and SVE.
INSTRUCTIONS = ("avx512_bf16", "amx_bf16", "bf16", "sve_bf16")

_in_bfloat16: WeakSet[nn.Module] = WeakSet()  # encoders that were loaded for it
_warned: set[str] = set()


def check_backend(backend: str | None, precision: str | None, calibration_texts: Sequence[str] | None) -> None:
    """Refuse what does not exist, and what does not go together."""
    for name, value, known in (("backend", backend, BACKENDS), ("precision", precision, PRECISIONS)):
        if value not in (None, *known):
            raise ValueError(f"{name} must be one of {', '.join(map(repr, known))}, got {value!r}.")
    if precision == "int8" and backend != "openvino":
        raise ValueError("precision='int8' is computed by OpenVINO: pass backend='openvino'.")
    if calibration_texts is not None and precision != "int8":
        raise ValueError("calibration_texts are for precision='int8': leave them out, or pass precision='int8'.")


def use_backend(
    encoder: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    pooling: str,
    backend: str | None = None,
    precision: str | None = None,
    calibration_texts: Sequence[str] | None = None,
) -> None:
    """Have a library compute an encoder in a precision, with its present weights; both None: no change."""
    check_backend(backend, precision, calibration_texts)
    if backend is None and precision is None:
        return
    if backend == "openvino":
        from .openvino.engine import openvino_engine  # only who asks for it needs the extra

        encoder.eval()  # what is compiled does not learn: whoever trains the encoder later is told
        set_engine(encoder, openvino_engine(encoder, tokenizer, pooling, precision or "float32", calibration_texts))
    else:
        set_engine(encoder, None)
    (_in_bfloat16.add if backend != "openvino" and precision == "bfloat16" else _in_bfloat16.discard)(encoder)


def precision_settings(encoder: PreTrainedModel) -> dict[str, str]:
    """The part of a fingerprint that tells the precision: empty for float32, in which all backends agree."""
    engine = engine_of(encoder)
    if engine is not None:
        return {} if engine.precision == "float32" else {"precision": engine.precision, "exported": engine.key}
    return {"precision": "bfloat16"} if encoder in _in_bfloat16 else {}


def is_in_bfloat16(encoder: nn.Module, bf16: BFloat16, device: torch.device) -> bool:
    """Whether torch runs an encoder in bfloat16, given the ``bf16`` of a call; None: as it was loaded."""
    if bf16 not in (None, True, False, "auto"):
        raise ValueError(f'bf16 must be True, False, "auto", or None for as it was loaded, got {bf16!r}.')
    engine = engine_of(encoder)
    if engine is not None:
        if bf16 is True:
            raise ValueError(f"bf16=True, but the encoder runs by {engine}, as it was loaded: leave bf16 out.")
        return False
    if bf16 == "auto":
        return bool(knows_bfloat16(device))
    bf16 = encoder in _in_bfloat16 if bf16 is None else bf16
    if bf16 and knows_bfloat16(device) is False:
        if device.type == "cuda":
            raise ValueError("bf16=True, but this GPU has no bfloat16: load the model with dtype='float16' instead.")
        if device.type not in _warned:
            _warned.add(device.type)
            logger.warning(
                "This processor has no instructions for bfloat16, and is up to a hundred times slower with it than "
                'with float32: leave it out, or say bf16="auto".'
            )
    return bf16


def knows_bfloat16(device: torch.device) -> bool | None:
    """Whether a device multiplies in bfloat16; None if that cannot be told."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    # Not in all versions of torch, and it names no instructions that it does not know.
    if device.type != "cpu" or not hasattr(torch.cpu, "get_capabilities"):
        return None
    capabilities = torch.cpu.get_capabilities()
    return any(capabilities.get(name, False) for name in INSTRUCTIONS)


@contextlib.contextmanager
def inference_mode(device: torch.device, bf16: bool = False) -> Iterator[None]:
    """No gradients, the fastest matrix products of the device, and bfloat16 for them (autocast) if asked for."""
    autocast = torch.autocast(device.type, torch.bfloat16) if bf16 else contextlib.nullcontext()
    products = OneDNNLinear() if not bf16 and onednn_is_faster(device) else contextlib.nullcontext()
    with torch.inference_mode(), autocast, products:
        yield


def onednn_is_faster(device: torch.device) -> bool:
    """Whether oneDNN may use AVX-512 here, where MKL, which torch would ask, keeps it for Intel's processors."""
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
