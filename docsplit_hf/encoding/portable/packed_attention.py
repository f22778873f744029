"""Attention within each sequence of a packed row: a row that holds all sequences of a batch without padding."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import nn
from torch.nn.functional import dropout as drop
from torch.nn.functional import scaled_dot_product_attention
from transformers.integrations.sdpa_attention import repeat_kv, sdpa_attention_forward

HALF_PRECISION = (torch.bfloat16, torch.float16)
# Arguments that change the attention weights row by row, and have no packed form here.
UNSUPPORTED_ARGUMENTS = ("position_bias", "softcap", "s_aux")
SHORT_LENGTH = 384  # tokens; for longer sequences the backward of torch's flash attention is faster
WEIGHTS_AT_ONCE = 300_000  # attention weights; more do not fit into the caches


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

    ``query``: ``(1, heads, T, head_dim)``, all sequences in a row. ``cu_seq_lens_q``, ``(N + 1,)`` int32: the start of
    each sequence, and the end of the last; None: attention as with ``"sdpa"``. Returns ``(1, T, heads, head_dim)``.
    """
    if cu_seq_lens_q is None:
        return sdpa_attention_forward(
            module,
            query,
            key,
            value,
            attention_mask,
            dropout=dropout,
            scaling=scaling,
            is_causal=is_causal,
            sliding_window=sliding_window,
            **kwargs,
        )
    for name in UNSUPPORTED_ARGUMENTS:
        if kwargs.get(name) is not None:
            raise NotImplementedError(f"its attention has {name}")
    causal = getattr(module, "is_causal", False) if is_causal is None else is_causal
    reach = None if sliding_window is None else sliding_window - 1
    dtype = compute_dtype(query.device, query.dtype)
    query = query.to(dtype)
    key = key.to(dtype)
    value = value.to(dtype)
    if query.is_cuda and has_flash(query.device, dtype) and query.shape[-1] % 8 == 0 and query.shape[-1] <= 192:
        output = _flash_attention(
            query,
            key,
            value,
            boundaries=cu_seq_lens_q,
            longest=max_length_q,
            dropout=dropout,
            scaling=scaling,
            reach=reach,
            causal=causal,
        )
        return output, None
    output = attention_by_sequence(
        query,
        key,
        value,
        boundaries=cu_seq_lens_q,
        dropout=dropout,
        scaling=scaling,
        reach=reach,
        causal=causal,
    )
    return output, None


def _flash_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    boundaries: torch.Tensor,
    longest: int | None,
    dropout: float,
    scaling: float | None,
    reach: int | None,
    causal: bool,
) -> torch.Tensor:
    """Attention within each sequence by flash attention on a GPU: ``(1, T, heads, head_dim)``; it can be compiled."""
    # A private operator of torch 2.13. The public way, torch.nn.attention.varlen, takes no dropout.
    output = torch.ops.aten._flash_attention_forward(
        query[0].transpose(0, 1),
        key[0].transpose(0, 1),
        value[0].transpose(0, 1),
        boundaries,  # of the queries
        boundaries,  # of the keys
        longest,  # of the queries
        longest,  # of the keys
        dropout,
        causal,
        False,  # return_debug_mask
        scale=scaling,
        window_size_left=reach,
        window_size_right=0 if causal else reach,
    )[0]
    return output[None]


def compute_dtype(device: torch.device, dtype: torch.dtype) -> torch.dtype:
    """The dtype of matrix products: autocast's if it is on, else the dtype of the weights."""
    return torch.get_autocast_dtype(device.type) if torch.is_autocast_enabled(device.type) else dtype


def has_flash(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether a device has flash attention for sequences of different lengths: Nvidia since Ampere, in 16 bits."""
    return (
        device.type == "cuda"
        and torch.version.cuda is not None
        and dtype in HALF_PRECISION
        and torch.backends.cuda.is_flash_attention_available()
        and torch.cuda.get_device_capability(device) >= (8, 0)
    )


@torch.compiler.disable  # the shapes are the lengths of the texts: each batch would be compiled again
def attention_by_sequence(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    boundaries: torch.Tensor,
    dropout: float = 0.0,
    scaling: float | None = None,
    reach: int | None = None,
    causal: bool = False,
) -> torch.Tensor:
    """Attention within each sequence, without flash attention; consecutive sequences of equal length form a batch.

    Shapes are those of ``packed_attention``; ``boundaries``: its ``cu_seq_lens_q``. A token attends to tokens at most
    ``reach`` positions away; None: to all tokens of its sequence.
    """
    if dropout:
        value = value * drop(torch.ones_like(value[..., :1]), dropout)
    groups = query.shape[1] // key.shape[1]
    states = (query, repeat_kv(key, groups), repeat_kv(value, groups))
    runs = [(length, len(list(run))) for length, run in itertools.groupby(boundaries.diff().tolist()) if length]
    # split, not slices: the backward of a slice allocates zeros of the size of the whole tensor.
    sizes = [length * count for length, count in runs]
    split = [one.split(sizes, 2) for one in states]
    outputs = []
    for (length, count), *parts in zip(runs, *split, strict=True):
        # From (1, heads, count * length, head_dim) to (count, heads, length, head_dim).
        queries, keys, values = (part.unflatten(2, (count, length))[0].transpose(0, 1) for part in parts)
        if reach is not None and length > reach + 1:
            output = _windowed(queries, keys, values, scaling, reach, causal)
        elif length <= SHORT_LENGTH and query.dtype in HALF_PRECISION and query.device.type == "cpu" and not causal:
            scale = query.shape[-1] ** -0.5 if scaling is None else scaling
            output = _ShortAttention.apply(queries, keys, values, scale)
        else:
            output = scaled_dot_product_attention(queries, keys, values, scale=scaling, is_causal=causal)
        outputs.append(output.transpose(1, 2).flatten(0, 1))
    return torch.cat(outputs)[None]


def _windowed(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float | None, reach: int, causal: bool
) -> torch.Tensor:
    """Sliding-window attention, ``(N, heads, L, head_dim)``, in blocks of queries: time is linear in the length."""
    rows, heads, length, _ = query.shape
    block = max(reach, 1)
    blocks = -(-length // block)
    padded = blocks * block - length

    def extend(x: torch.Tensor) -> torch.Tensor:
        """Keys or values around each block: ``(N, heads, L, D)`` to ``(N * blocks, heads, block + 2 * reach, D)``."""
        x = nn.functional.pad(x, (0, 0, reach, reach + padded))
        return x.unfold(2, block + 2 * reach, block).permute(0, 2, 1, 4, 3).flatten(0, 1)

    queries = nn.functional.pad(query, (0, 0, 0, padded)).unflatten(2, (blocks, block)).transpose(1, 2).flatten(0, 1)
    positions = torch.arange(blocks * block, device=query.device).view(blocks, block, 1)
    others = positions[:, :1] - reach + torch.arange(block + 2 * reach, device=query.device)
    seen = ((positions - others).abs() <= reach) & (others >= 0) & (others < length)
    if causal:
        seen &= others <= positions
    seen |= positions >= length  # the rows of the padding are cut off below; all masked, they would be NaN
    seen = seen.repeat(rows, 1, 1)[:, None]
    output = scaled_dot_product_attention(queries, extend(key), extend(value), attn_mask=seen, scale=scaling)
    return output.unflatten(0, (rows, blocks)).transpose(1, 2).flatten(2, 3)[:, :, :length]


class _ShortAttention(torch.autograd.Function):
    """Attention with a backward that computes the attention weights again, by matrix products.

    On a CPU, in half precision and up to a few hundred tokens, torch's own backward takes 3 to 10 times as long.
    """

    @staticmethod
    def forward(ctx, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float) -> torch.Tensor:
        ctx.save_for_backward(query, key, value)
        ctx.scaling = scaling
        return scaled_dot_product_attention(query, key, value, scale=scaling)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        count, heads, length, _ = gradient.shape
        at_once = max(1, WEIGHTS_AT_ONCE // length**2)
        query, key, value = (tensor.flatten(0, 1).split(at_once) for tensor in ctx.saved_tensors)
        gradient_parts = gradient.flatten(0, 1).split(at_once)
        query_gradients = []
        key_gradients = []
        value_gradients = []
        for number, gradient_part in enumerate(gradient_parts):
            for_query, for_key, for_value = _attention_gradients(
                query[number], key[number], value[number], gradient_part, ctx.scaling
            )
            query_gradients.append(for_query)
            key_gradients.append(for_key)
            value_gradients.append(for_value)
        return (
            torch.cat(query_gradients).unflatten(0, (count, heads)),
            torch.cat(key_gradients).unflatten(0, (count, heads)),
            torch.cat(value_gradients).unflatten(0, (count, heads)),
            None,  # of the scaling
        )


def _attention_gradients(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, gradient: torch.Tensor, scaling: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The gradients of query, key and value, ``(N, L, head_dim)`` each, given the gradient of the output."""
    query = query * scaling
    weights = (query @ key.mT).softmax(-1)
    weights_gradient = gradient @ value.mT
    # A private operator of torch 2.13. The public ways are up to 39 % slower (torch.autograd.grad of softmax) or round
    # differently: weights * (g - (weights * g).sum(-1, keepdim=True)).
    scores_gradient = torch.ops.aten._softmax_backward_data(weights_gradient, weights, -1, weights.dtype)
    return scores_gradient @ key * scaling, scores_gradient.mT @ query, weights.mT @ gradient
