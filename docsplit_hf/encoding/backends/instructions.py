"""The instructions of a processor that decide how fast and exact bfloat16 and int8 are."""

from __future__ import annotations

import torch

# torch's names for instructions that multiply in bfloat16: AVX-512 and AMX of x86, NEON and SVE of Arm.
BFLOAT16_INSTRUCTIONS = ("avx512_bf16", "amx_bf16", "bf16", "sve_bf16")
# torch's names for instructions of x86 that add products of int8 in 32 bits.
INT8_INSTRUCTIONS = ("avx512_vnni", "avx_vnni", "amx_int8")


def supports_bfloat16(device: torch.device) -> bool | None:
    """Whether a device multiplies in bfloat16; None if it is unknown."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    # Older versions of torch have no get_capabilities, or omit instructions that they cannot detect.
    if device.type != "cpu" or not hasattr(torch.cpu, "get_capabilities"):
        return None
    capabilities = torch.cpu.get_capabilities()
    return any(capabilities.get(name, False) for name in BFLOAT16_INSTRUCTIONS)


def int8_overflows() -> bool:
    """Whether this processor adds products of int8 in 16 bits, which overflow: x86 without INT8_INSTRUCTIONS."""
    if not hasattr(torch.cpu, "get_capabilities"):  # older versions of torch
        return False
    capabilities = torch.cpu.get_capabilities()
    is_x86 = capabilities.get("architecture") == "x86_64"
    return is_x86 and not any(capabilities.get(name, False) for name in INT8_INSTRUCTIONS)
