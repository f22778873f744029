"""How many tokens an encoder has positions for."""

from __future__ import annotations

from torch import nn
from transformers import PreTrainedModel


def max_positions(model: PreTrainedModel) -> int | None:
    """The longest input of a model in tokens, special tokens included; None if the model does not say."""
    table = _position_embeddings(model)
    if table is not None:
        return table.num_embeddings - position_offset(model)
    stated = getattr(model.config, "max_position_embeddings", None)
    return stated if stated and stated > 0 else None


def position_offset(model: nn.Module) -> int:
    """The number of the first position: 0, but RoBERTa and its kin count from behind their padding index."""
    table = _position_embeddings(model)
    return 0 if table is None or table.padding_idx is None else table.padding_idx + 1


def check_max_length(max_length: int, model: PreTrainedModel) -> int:
    """Return ``max_length`` if the model has that many positions."""
    positions = max_positions(model)
    if positions is not None and max_length > positions:
        name = type(model).__name__
        raise ValueError(
            f"max_length={max_length} is more than the {positions} positions of {name}: use at most {positions}."
        )
    return max_length


def _position_embeddings(model: nn.Module) -> nn.Embedding | None:
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding):
            return module
    return None
