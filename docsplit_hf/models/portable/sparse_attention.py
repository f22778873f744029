"""What encoders with sparse attention need from their caller: Longformer's global token, BigBird's sparsity."""

from __future__ import annotations

import inspect
from collections.abc import Container

import torch
from torch import nn


def sparse_attention_arguments(
    encoder: nn.Module, attention_mask: torch.Tensor, parameters: Container[str] | None = None
) -> dict[str, torch.Tensor]:
    """Prepare an encoder for one forward, and return the further arguments of it.

    - Longformer attends globally to no token unless told: its first token would see half a window of text, whatever the
      length of the document. The first token gets global attention, as in its own classification model.
    - BigBird turns its attention from sparse to full for good as soon as it meets one short batch, so that what a long
      document's embedding is, and costs, depends on what came before. The sparse attention is put back.

    Both are told from what the encoder offers, not from its name. Other encoders are left alone.

    Args:
        encoder: The base model, without a head.
        attention_mask: ``(N, L)``, 1 for tokens and 0 for padding.
        parameters: The names of what its forward takes, where they are known already.

    Returns:
        Keyword arguments for the encoder's forward.

    Example:

        >>> from transformers import BertConfig, BertModel
        >>> config = BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=1)
        >>> sparse_attention_arguments(BertModel(config), torch.ones(1, 4))
        {}
    """
    if hasattr(encoder, "set_attention_type") and encoder.attention_type != encoder.config.attention_type:
        encoder.set_attention_type(encoder.config.attention_type)
    if "global_attention_mask" not in (parameters or inspect.signature(encoder.forward).parameters):
        return {}
    global_attention_mask = torch.zeros_like(attention_mask)
    global_attention_mask[:, 0] = 1
    return {"global_attention_mask": global_attention_mask}
