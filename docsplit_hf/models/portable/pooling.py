"""Pooling: from the hidden states of the tokens to one embedding a text."""

from __future__ import annotations

import torch

POOLINGS = ("cls", "mean", "max", "last")


def check_pooling(pooling: str) -> str:
    """Return ``pooling`` if there is one of that name.

    Args:
        pooling: One of ``POOLINGS``.

    Returns:
        The same name.

    Raises:
        ValueError: If it is none of them.

    Example:

        >>> check_pooling("cls")
        'cls'
    """
    if pooling not in POOLINGS:
        raise ValueError(f"pooling must be one of {POOLINGS}, got {pooling!r}.")
    return pooling


def pool(
    hidden_states: torch.Tensor, attention_mask: torch.Tensor, pooling: str, prompt_length: int = 0
) -> torch.Tensor:
    """Pool the last hidden states of right-padded rows.

    Args:
        hidden_states: Float of shape ``(N, L, H)``.
        attention_mask: ``(N, L)``, 1 for tokens and 0 for the padding after them; at least one token a row.
        pooling: ``"cls"``, the first token (the papers' choice); ``"mean"`` or ``"max"`` over all tokens, special ones
            included; ``"last"``, the last token.
        prompt_length: How many tokens at the beginning of each row ``"mean"`` and ``"max"`` leave out, because they
            belong to a prompt that all texts have before them. The last token of a row is always pooled.

    Returns:
        Embeddings of shape ``(N, H)`` and the dtype of the hidden states.

    Raises:
        ValueError: If there is no pooling of that name.

    Example:

        >>> hidden_states = torch.tensor([[[1.0], [3.0], [9.0]]])
        >>> pool(hidden_states, torch.tensor([[1, 1, 0]]), "mean")
        tensor([[2.]])
        >>> pool(hidden_states, torch.tensor([[1, 1, 1]]), "mean", prompt_length=1)
        tensor([[6.]])
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
