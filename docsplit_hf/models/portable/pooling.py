"""Pooling: from the hidden states of the tokens to one embedding per text."""

from __future__ import annotations

import torch

POOLINGS = ("cls", "mean", "max", "last")


def check_pooling(pooling: str) -> str:
    """Return ``pooling`` if there is one of that name."""
    if pooling not in POOLINGS:
        raise ValueError(f"pooling must be one of {POOLINGS}, got {pooling!r}.")
    return pooling


def pool(
    hidden_states: torch.Tensor, attention_mask: torch.Tensor, pooling: str, prompt_length: int = 0
) -> torch.Tensor:
    """Pool the last hidden states ``(N, L, H)`` of rows that are padded on the right: ``(N, H)``, same dtype.

    ``attention_mask``: ``(N, L)``, 1 for tokens, at least one per row. ``"mean"`` and ``"max"`` leave out the first
    ``prompt_length`` tokens of each row, a prompt, but not its last one.
    """
    check_pooling(pooling)
    if pooling == "cls":
        return hidden_states[:, 0]
    if pooling == "last":
        rows = torch.arange(len(hidden_states), device=hidden_states.device)
        return hidden_states[rows, attention_mask.sum(1) - 1]
    mask = attention_mask.bool()
    if prompt_length:
        first = (attention_mask.sum(1, keepdim=True) - 1).clamp(max=prompt_length)
        mask = mask & (torch.arange(mask.shape[1], device=mask.device) >= first)
    mask = mask[:, :, None]
    if pooling == "max":
        return hidden_states.masked_fill(~mask, -torch.inf).amax(1)
    # Summed in float32: in float16 the states of a long document overflow.
    total = hidden_states.masked_fill(~mask, 0).sum(1, dtype=torch.promote_types(hidden_states.dtype, torch.float32))
    return (total / mask.sum(1)).to(hidden_states.dtype)
