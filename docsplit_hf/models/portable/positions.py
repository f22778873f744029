"""How many tokens an encoder has positions for."""

from __future__ import annotations

from torch import nn
from transformers import PreTrainedModel


def max_positions(model: PreTrainedModel) -> int | None:
    """The longest input of a model, in tokens, special tokens included.

    Read from the table of position embeddings where there is one (RoBERTa's 514 rows hold 512 positions: the first two
    are taken by the padding index), otherwise from the configuration.

    Args:
        model: Any encoder of transformers.

    Returns:
        The number of positions, or None if the model states none.

    Example:

        >>> from transformers import RobertaConfig, RobertaModel
        >>> config = RobertaConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=1)
        >>> config.max_position_embeddings = 514
        >>> max_positions(RobertaModel(config))
        512
    """
    table = _position_embeddings(model)
    if table is not None:
        return table.num_embeddings - _first_position(table)
    stated = getattr(model.config, "max_position_embeddings", None)
    return stated if stated and stated > 0 else None


def position_offset(model: nn.Module) -> int:
    """The number that a model gives to its first position.

    Args:
        model: Any encoder of transformers.

    Returns:
        0, but for RoBERTa and its kin, which count from behind their padding index.

    Example:

        >>> from transformers import RobertaConfig, RobertaModel
        >>> config = RobertaConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=1)
        >>> position_offset(RobertaModel(config))
        2
    """
    table = _position_embeddings(model)
    return 0 if table is None else _first_position(table)


def check_max_length(max_length: int, model: PreTrainedModel) -> int:
    """Return ``max_length`` if the model has that many positions.

    Args:
        max_length: A length in tokens, special tokens included.
        model: The encoder that is to read it.

    Returns:
        The same length.

    Raises:
        ValueError: If the model has fewer positions.

    Example:

        >>> from transformers import BertConfig, BertModel
        >>> config = BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=1)
        >>> check_max_length(512, BertModel(config))
        512
    """
    positions = max_positions(model)
    if positions is not None and max_length > positions:
        raise ValueError(
            f"max_length={max_length} is more than the {positions} positions of {type(model).__name__}: use at most "
            f"{positions}, or a model for longer documents (Longformer, BigBird, ModernBERT)."
        )
    return max_length


def _position_embeddings(model: nn.Module) -> nn.Embedding | None:
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding):
            return module
    return None


def _first_position(table: nn.Embedding) -> int:
    return 0 if table.padding_idx is None else table.padding_idx + 1
