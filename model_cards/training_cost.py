"""What a training run costs, by arithmetic: floating point operations, and hours on a GPU at an assumed utilization."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# Of a product of matrices, a multiplication and an addition for each weight and token; the backward pass takes two such
# products, one for the weights and one for what goes in: 2 + 4. Attention has two products, of queries with keys and of
# weights with values, each with 2 + 4 operations for each dimension and pair of tokens: 12.
FLOP_A_WEIGHT_AND_TOKEN = 6
FLOP_A_DIMENSION_AND_PAIR = 12
MASKED_SHARE = 0.15  # of the tokens, for which alone the MLM head runs


@dataclass(frozen=True)
class EncoderShape:
    """What the cost of an encoder depends on.

    Args:
        weights: Weights of the encoder's matrix products, which each token goes through once.
        head_weights: The same of the MLM head.
        hidden_size: Dimensions of the hidden states.
        windows: For each layer the number of tokens that a token attends to; None where it is all of its text.

    Example:

        >>> EncoderShape(100, 50, 8, (None, 4)).windows
        (None, 4)
    """

    weights: int
    head_weights: int
    hidden_size: int
    windows: tuple[int | None, ...]


def encoder_shape(model_type: str, overrides: Mapping[str, Any] | None = None) -> EncoderShape:
    """The shape of an architecture of transformers, counted on a model without memory.

    Args:
        model_type: As in ``config.json``. The defaults of a configuration are the base model's.
        overrides: What differs from them.

    Returns:
        The shape.

    Example:

        >>> shape = encoder_shape("bert")
        >>> shape.weights, shape.head_weights == 768 * 768 + 768 * 30522
        (84934656, True)
    """
    import torch
    from transformers import AutoConfig, AutoModelForMaskedLM

    config = AutoConfig.for_model(model_type, **(overrides or {}))
    with torch.device("meta"):
        model = AutoModelForMaskedLM.from_config(config)
    weights, head_weights = 0, 0
    for name, module in model.named_modules():
        # Longformer's query_global is for its one global token.
        if isinstance(module, torch.nn.Linear) and not name.endswith("query_global"):
            if name.startswith(f"{model.base_model_prefix}."):
                weights += module.weight.numel()
            else:
                head_weights += module.weight.numel()
    return EncoderShape(weights, head_weights, config.hidden_size, tuple(_windows(config)))


def _windows(config: Any) -> list[int | None]:
    if layer_types := getattr(config, "layer_types", None):
        window = 2 * config.sliding_window + 1  # so many to each side, and the token itself
        return [window if kind == "sliding_attention" else None for kind in layer_types]
    if windows := getattr(config, "attention_window", None):
        windows = windows if isinstance(windows, list) else [windows] * config.num_hidden_layers
        return [window + 2 for window in windows]  # half of it to each side, the token itself, and the global token
    return [None] * config.num_hidden_layers


def document_cost(shape: EncoderShape, tokens: float, squared_tokens: float, rows: float) -> dict[str, float]:
    """Operations of a training step for one document, with its two views and their masked copies.

    Norms, activations, softmax, the loss and the optimizer are left out: they are few beside the matrix products.

    Args:
        shape: The encoder's.
        tokens: Tokens of the two views together.
        squared_tokens: The sum of the squares of their lengths.
        rows: Tokens that go through the encoder for them: ``tokens``, or more where rows are padded.

    Returns:
        ``products``, ``attention`` and ``head``, in operations.

    Example:

        >>> document_cost(EncoderShape(100, 50, 8, (None,)), tokens=10, squared_tokens=50, rows=10)
        {'products': 12000.0, 'attention': 9600.0, 'head': 450.0}
    """
    read = 2.0 * rows  # the views, and their masked copies
    pairs = sum(2.0 * squared_tokens if window is None else read * window for window in shape.windows)
    return {
        "products": FLOP_A_WEIGHT_AND_TOKEN * shape.weights * read,
        "attention": FLOP_A_DIMENSION_AND_PAIR * shape.hidden_size * pairs,
        "head": FLOP_A_WEIGHT_AND_TOKEN * shape.head_weights * MASKED_SHARE * tokens,
    }
