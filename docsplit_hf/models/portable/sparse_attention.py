"""What encoders with sparse attention need from their caller: Longformer's global token, BigBird's sparsity."""

from __future__ import annotations

import inspect
from collections.abc import Container

import torch
from torch import nn


def sparse_attention_arguments(
    encoder: nn.Module, attention_mask: torch.Tensor, parameters: Container[str] | None = None
) -> dict[str, torch.Tensor]:
    """Prepare an encoder for one forward with ``attention_mask``, ``(N, L)``, and return further arguments of it.

    - Longformer attends globally to no token unless told: its first token would see half a window of text. It gets
      global attention, as in Longformer's own classification model.
    - BigBird turns its attention from sparse to full for good as soon as it meets one short batch: then the embedding
      of a long document depends on what came before. The sparse attention is put back.

    Both are told from what the encoder offers, not from its name. ``parameters``: what its forward takes, if known.
    """
    if hasattr(encoder, "set_attention_type") and encoder.attention_type != encoder.config.attention_type:
        encoder.set_attention_type(encoder.config.attention_type)
    if "global_attention_mask" not in (parameters or inspect.signature(encoder.forward).parameters):
        return {}
    global_attention_mask = torch.zeros_like(attention_mask)
    global_attention_mask[:, 0] = 1
    return {"global_attention_mask": global_attention_mask}
