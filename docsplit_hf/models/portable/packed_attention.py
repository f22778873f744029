"""Attention within each of the sequences that lie one after the other in a packed row."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.functional import dropout as drop
from transformers.integrations.sdpa_attention import repeat_kv, sdpa_attention_forward

from .sequence_attention import attention_by_sequence

FLASH_DTYPES = (torch.bfloat16, torch.float16)
NOT_PACKED = ("position_bias", "softcap", "s_aux")  # arguments that change the attention weights, by row


@torch.compiler.disable  # its shapes are the lengths of texts: it would be compiled again for each batch
def packed_attention(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    sliding_window: int | None = None,
    cu_seq_lens_q: torch.Tensor | None = None,
    max_length_q: int | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """The attention function of the implementation ``"docsplit_packed"``, as transformers calls it.

    ``query``: ``(1, heads, T, head_dim)``, the sequences one after the other; ``key``, ``value``: ``(1, key_heads, T,
    head_dim)``. ``cu_seq_lens_q``, ``(N + 1,)`` int32, has where the sequences begin, and where the last ends; without
    it the rows are not packed, and transformers' ``"sdpa"`` does the work. A token sees those less than
    ``sliding_window`` away. The result is ``(1, T, heads, head_dim)``, and None in place of the attention weights.
    ``NotImplementedError``: the module asks for something that cannot be done by sequence.
    """
    if cu_seq_lens_q is None:
        states, options = (query, key, value, attention_mask), {"sliding_window": sliding_window} | kwargs
        return sdpa_attention_forward(module, *states, dropout, scaling, is_causal, **options)
    for name in NOT_PACKED:
        if kwargs.get(name) is not None:
            raise NotImplementedError(f"its attention has {name}")
    causal = getattr(module, "is_causal", False) if is_causal is None else is_causal
    reach = None if sliding_window is None else sliding_window - 1
    dtype = compute_dtype(query.device, query.dtype)
    query, key, value = query.to(dtype), key.to(dtype), value.to(dtype)
    if query.is_cuda and has_flash(query.device, dtype) and query.shape[-1] % 8 == 0 and query.shape[-1] <= 192:
        # A private operator of torch 2.13. The public way, torch.nn.attention.varlen, takes no dropout.
        states = (tensor[0].transpose(0, 1) for tensor in (query, key, value))
        output = torch.ops.aten._flash_attention_forward(
            *states,
            *(cu_seq_lens_q, cu_seq_lens_q, max_length_q, max_length_q, dropout, causal, False),
            scale=scaling,
            window_size_left=reach,
            window_size_right=0 if causal else reach,
        )[0]
        return output[None], None
    if dropout:
        kept = drop(torch.ones_like(value[..., :1]), dropout)
        value = value * kept
    groups = query.shape[1] // key.shape[1]
    lengths = cu_seq_lens_q.diff().tolist()
    states = (query, repeat_kv(key, groups), repeat_kv(value, groups))
    return attention_by_sequence(*states, lengths, scaling, reach, causal), None


def compute_dtype(device: torch.device, dtype: torch.dtype) -> torch.dtype:
    """The dtype of matrix products: autocast's if that is on, or else that of the weights."""
    return torch.get_autocast_dtype(device.type) if torch.is_autocast_enabled(device.type) else dtype


def has_flash(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether a device has flash attention for sequences of different lengths: Nvidia from Ampere on, 16 bits."""
    return (
        device.type == "cuda"
        and torch.version.cuda is not None
        and dtype in FLASH_DTYPES
        and torch.backends.cuda.is_flash_attention_available()
        and torch.cuda.get_device_capability(device) >= (8, 0)
    )
