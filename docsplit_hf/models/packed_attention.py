"""Attention within each of the sequences that lie one after the other in a packed row."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import nn
from torch.nn.functional import dropout as drop
from torch.nn.functional import scaled_dot_product_attention
from transformers.integrations.sdpa_attention import repeat_kv, sdpa_attention_forward

FLASH_DTYPES = (torch.bfloat16, torch.float16)
NOT_PACKED = ("position_bias", "softcap", "s_aux")  # arguments that change the attention weights, by row


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

    Args:
        module: The attention module.
        query: ``(1, heads, T, head_dim)``, the sequences one after the other.
        key: ``(1, key_heads, T, head_dim)``.
        value: ``(1, key_heads, T, head_dim)``.
        attention_mask: Used for rows that are not packed only.
        dropout: The probability that an attention weight is dropped; see ``use_packing``.
        scaling: Multiplies the products of queries and keys. None: ``head_dim ** -0.5``.
        is_causal: Whether a token sees the tokens before it only. None: as the module says.
        sliding_window: A token sees those less than this far away. None: all.
        cu_seq_lens_q: ``(N + 1,)`` int32, where the sequences begin, and where the last ends. None: the rows are not
            packed, and transformers' ``"sdpa"`` does the work.
        max_length_q: The longest sequence or more.
        **kwargs: Passed to ``"sdpa"``.

    Returns:
        ``(1, T, heads, head_dim)``, and None in place of the attention weights.

    Raises:
        NotImplementedError: If the module asks for something that cannot be done by sequence.
    """
    if cu_seq_lens_q is None:
        return sdpa_attention_forward(
            module,
            query,
            key,
            value,
            attention_mask,
            dropout,
            scaling,
            is_causal,
            sliding_window=sliding_window,
            **kwargs,
        )
    for name in NOT_PACKED:
        if kwargs.get(name) is not None:
            raise NotImplementedError(f"its attention has {name}")
    causal = getattr(module, "is_causal", False) if is_causal is None else is_causal
    reach = None if sliding_window is None else sliding_window - 1
    if torch.is_autocast_enabled(query.device.type):
        dtype = torch.get_autocast_dtype(query.device.type)
        query, key, value = query.to(dtype), key.to(dtype), value.to(dtype)
    if _has_flash(query):
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


def attention_by_sequence(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    lengths: list[int],
    scaling: float | None = None,
    reach: int | None = None,
    causal: bool = False,
) -> torch.Tensor:
    """Attention within each sequence, without masks: neighbors of the same length are computed at once.

    Args:
        query: ``(1, heads, T, head_dim)``.
        key: ``(1, heads, T, head_dim)``.
        value: ``(1, heads, T, head_dim)``.
        lengths: The lengths of the sequences, which sum to T.
        scaling: Multiplies the products of queries and keys. None: ``head_dim ** -0.5``.
        reach: How far from itself a token sees. None: everything.
        causal: Whether a token sees the tokens before it only.

    Returns:
        ``(1, T, heads, head_dim)``.

    Example:

        >>> states = torch.randn(1, 2, 5, 4)
        >>> attention_by_sequence(states, states, states, [3, 1, 1]).shape
        torch.Size([1, 5, 2, 4])
    """
    runs = [(length, len(list(run))) for length, run in itertools.groupby(lengths) if length]
    # split, not slices: the backward of each slice fills a zero tensor of the size of the whole.
    sizes = [length * count for length, count in runs]
    parts = []
    for (length, count), *states in zip(runs, *(x.split(sizes, 2) for x in (query, key, value)), strict=True):
        # (1, heads, count * length, head_dim) -> (count, heads, length, head_dim)
        states = [x.unflatten(2, (count, length))[0].transpose(0, 1) for x in states]
        if reach is None or length <= reach + 1:
            output = scaled_dot_product_attention(*states, scale=scaling, is_causal=causal)
        else:
            output = _windowed(*states, scaling, reach, causal)
        parts.append(output.transpose(1, 2).flatten(0, 1))
    return torch.cat(parts)[None]


def _windowed(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float | None, reach: int, causal: bool
) -> torch.Tensor:
    """Attention of blocks of queries to the keys around them: linear in the length. (N, heads, L, head_dim)"""
    rows, heads, length, _ = query.shape
    block = max(reach, 1)
    blocks = -(-length // block)
    padded = blocks * block - length

    def around(x: torch.Tensor) -> torch.Tensor:  # (N, heads, L, D) -> (N * blocks, heads, block + 2 * reach, D)
        x = nn.functional.pad(x, (0, 0, reach, reach + padded))
        return x.unfold(2, block + 2 * reach, block).permute(0, 2, 1, 4, 3).flatten(0, 1)

    queries = nn.functional.pad(query, (0, 0, 0, padded)).unflatten(2, (blocks, block)).transpose(1, 2).flatten(0, 1)
    positions = torch.arange(blocks * block, device=query.device).view(blocks, block, 1)
    others = positions[:, :1] - reach + torch.arange(block + 2 * reach, device=query.device)
    seen = ((positions - others).abs() <= reach) & (others >= 0) & (others < length)
    if causal:
        seen &= others <= positions
    seen |= positions >= length  # what is made of the padding is cut off, but must not be NaN
    seen = seen.repeat(rows, 1, 1)[:, None]
    output = scaled_dot_product_attention(queries, around(key), around(value), attn_mask=seen, scale=scaling)
    return output.unflatten(0, (rows, blocks)).transpose(1, 2).flatten(2, 3)[:, :, :length]


def _has_flash(query: torch.Tensor) -> bool:
    head_dim = query.shape[-1]
    return (
        query.is_cuda
        and query.dtype in FLASH_DTYPES
        and head_dim % 8 == 0
        and head_dim <= 256
        and torch.backends.cuda.is_flash_attention_available()
        and torch.cuda.get_device_capability(query.device) >= (8, 0)
    )
