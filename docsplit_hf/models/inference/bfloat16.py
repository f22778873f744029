"""Whether to compute in bfloat16: what a call asks for, what an encoder was loaded for, and what the device knows."""

from __future__ import annotations

import logging
from typing import Literal
from weakref import WeakSet

import torch
from torch import nn

from ..portable.engine import engine_of

logger = logging.getLogger(__name__)

BFloat16 = bool | Literal["auto"] | None

# As torch names them: of x86, AVX-512 and AMX; of Arm, NEON and SVE.
INSTRUCTIONS = ("avx512_bf16", "amx_bf16", "bf16", "sve_bf16")

_by_default: WeakSet[nn.Module] = WeakSet()
_warned: set[str] = set()


def compute_in_bfloat16(encoder: nn.Module, by_default: bool) -> None:
    """Have an encoder compute in bfloat16, or not, where a call does not say."""
    (_by_default.add if by_default else _by_default.discard)(encoder)


def computes_in_bfloat16(encoder: nn.Module) -> bool:
    """Whether an encoder computes in bfloat16 where a call does not say."""
    return encoder in _by_default


def is_in_bfloat16(encoder: nn.Module, bf16: BFloat16, device: torch.device) -> bool:
    """Whether torch is to run an encoder in bfloat16, for what a call has as ``bf16``."""
    if bf16 not in (None, True, False, "auto"):
        raise ValueError(
            f'bf16 must be True, False, "auto", or None for what the encoder was loaded for, got {bf16!r}.'
        )
    engine = engine_of(encoder)
    if engine is not None:
        if bf16 is True:
            raise ValueError(f"bf16=True, but the encoder runs by {engine}, as it was loaded: leave bf16 out.")
        return False
    if bf16 == "auto":
        return bool(knows_bfloat16(device))
    bf16 = encoder in _by_default if bf16 is None else bf16
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
