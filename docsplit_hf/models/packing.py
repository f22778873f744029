"""Run an encoder without padding: the tokens of all rows as one row, and attention within each row alone."""

from __future__ import annotations

import contextlib
import inspect
import logging
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from weakref import WeakKeyDictionary

import torch
from torch import nn
from transformers import AttentionInterface, PreTrainedModel
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, AttentionMaskInterface
from transformers.utils import ModelOutput

from .packed_attention import packed_attention
from .positions import position_offset
from .sparse_attention import sparse_attention_arguments

logger = logging.getLogger(__name__)

PACKINGS = ("auto", "on", "off")
PACKED = "docsplit_packed"  # the name of the attention implementation; a packed encoder is known by it

_is_packed: ContextVar[bool] = ContextVar("is_packed", default=False)
_obstacles: WeakKeyDictionary[nn.Module, str | None] = WeakKeyDictionary()  # what was found out once an encoder


def run_encoder(
    encoder: nn.Module,
    input_ids: torch.Tensor,
    attention_mask: torch.Tensor,
    forward: Callable[..., ModelOutput] | None = None,
    **arguments: torch.Tensor,
) -> ModelOutput:
    """Run an encoder on padded rows; without the padding if ``use_packing`` has been switched on for it.

    The tokens of N rows become one row of T tokens with the positions of their own rows, and attention stays within
    each row. Embeddings and gradients are those of the padded rows, at the cost of the tokens that are there.

    Args:
        encoder: The base model, without a head.
        input_ids: ``(N, L)``, padded on the right.
        attention_mask: ``(N, L)``, 1 for tokens and 0 for padding; at least one token in all.
        forward: The function to call, where that is not the encoder itself.
        **arguments: Further arguments of the encoder, ``(N, L)`` each, such as ``token_type_ids``.

    Returns:
        The encoder's output with ``last_hidden_state`` of shape ``(N, L, H)``. Packed, it holds nothing else, and 0 at
        the padding.

    Example:

        >>> from transformers import BertConfig, BertModel
        >>> config = BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=1)
        >>> encoder, mask = BertModel(config).eval(), torch.tensor([[1, 1, 1], [1, 0, 0]])
        >>> padded = run_encoder(encoder, mask, mask).last_hidden_state
        >>> use_packing(encoder)
        True
        >>> packed = run_encoder(encoder, mask, mask).last_hidden_state
        >>> torch.allclose(packed[mask.bool()], padded[mask.bool()], atol=1e-6)
        True
    """
    if not is_packed(encoder):
        arguments |= sparse_attention_arguments(encoder, attention_mask, forward)
        return (forward or encoder)(input_ids=input_ids, attention_mask=attention_mask, **arguments)
    tokens = attention_mask.flatten().nonzero().flatten()
    lengths = attention_mask.sum(1)
    boundaries = nn.functional.pad(lengths.cumsum(0), (1, 0))
    positions = (attention_mask.cumsum(1) - 1).flatten()[tokens] + position_offset(encoder)
    packed = {name: values.flatten()[tokens][None] for name, values in arguments.items() if values is not None}
    with _packed_masks():
        output = (forward or encoder)(
            input_ids=input_ids.flatten()[tokens][None],
            position_ids=positions[None],
            cu_seq_lens_q=boundaries.int(),
            max_length_q=input_ids.shape[1],
            **packed,
        )
    states = output.last_hidden_state[0]
    padded = states.new_zeros(attention_mask.numel(), states.shape[1]).index_copy(0, tokens, states)
    return type(output)(last_hidden_state=padded.view(*input_ids.shape, -1))


def is_packed(encoder: nn.Module) -> bool:
    """Whether ``run_encoder`` runs an encoder without padding.

    Args:
        encoder: The base model, without a head.

    Returns:
        Whether its attention implementation is the packed one.
    """
    return encoder.config._attn_implementation == PACKED


def use_packing(model: PreTrainedModel, packing: str = "auto") -> bool:
    """Switch packing on for a model where its results stay the same, or off.

    A packed encoder has the attention implementation ``"docsplit_packed"``, which is transformers' ``"sdpa"`` for all
    callers but ``run_encoder``; nothing of it is saved. Whether an encoder can be packed is found out by running it
    both ways on a few tokens: one that has attention of its own (Longformer, BigBird, DeBERTa, ...) gives something
    else, and stays padded, which is said once in the log. So does one whose ``attn_implementation`` was chosen.

    Attention dropout: the flash attention of CUDA has it as it should be. That of the CPU has none, so there it drops
    whole keys of a head, the same for all tokens of a row, at the same rate and with the same expected value, which
    costs nothing; ``packing="off"`` drops each attention weight by itself, and costs a multiple.

    Args:
        model: An encoder, or a model around one.
        packing: ``"auto"``: where it gives the same. ``"on"``: the same, and an error where it does not. ``"off"``:
            never.

    Returns:
        Whether the model runs without padding now.

    Raises:
        ValueError: If there is no such choice, or packing is ``"on"`` and the model cannot be packed.
    """
    if packing not in PACKINGS:
        raise ValueError(f"packing must be one of {PACKINGS}, got {packing!r}.")
    encoder = model.base_model
    if packing == "off":
        if is_packed(encoder):
            encoder.set_attn_implementation("sdpa")
        return False
    if is_packed(encoder):
        return True
    known = encoder in _obstacles
    obstacle = _obstacles[encoder] if known else _obstacles.setdefault(encoder, _obstacle(encoder))
    if obstacle is None:
        encoder.set_attn_implementation(PACKED)
        return True
    if packing == "on":
        raise ValueError(f"{type(encoder).__name__} cannot run without padding: {obstacle}. Use packing='auto'.")
    if not known:
        logger.info("%s runs with padding: %s.", type(encoder).__name__, obstacle)
    return False


def _obstacle(encoder: PreTrainedModel) -> str | None:
    """Why the encoder cannot be packed; None if it can."""
    if encoder.config._attn_implementation != "sdpa":
        return f"its attention implementation is {encoder.config._attn_implementation!r}, not 'sdpa'"
    parameters = inspect.signature(encoder.forward).parameters
    if "position_ids" not in parameters or not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return "its forward takes no positions, or passes nothing on to its attention"
    if not encoder._can_set_attn_implementation():
        return "its attention does not go through transformers' attention interface"
    if any(parameter.is_meta or not parameter.numel() for parameter in encoder.parameters()):
        return "its weights are not there to try it with"
    # Longer than the window, if there is one, and not longer than the table of positions.
    longest = min(getattr(encoder.config, "sliding_window", None) or 1, 256) + 6
    lengths = torch.tensor([longest, 1, 3])
    attention_mask = (torch.arange(longest) < lengths[:, None]).long()
    input_ids = torch.arange(3 * longest).view(3, longest) * 7 % (encoder.config.vocab_size - 2) + 2
    input_ids[attention_mask == 0] = encoder.config.pad_token_id or 0
    inputs = input_ids.to(encoder.device), attention_mask.to(encoder.device)
    with torch.no_grad(), _evaluating(encoder):
        expected = run_encoder(encoder, *inputs).last_hidden_state
        encoder.set_attn_implementation(PACKED)
        try:
            found = run_encoder(encoder, *inputs).last_hidden_state
        except NotImplementedError as error:
            return str(error)
        finally:
            encoder.set_attn_implementation("sdpa")
    difference = (found - expected)[inputs[1].bool()].abs().max()
    same = difference <= 32 * torch.finfo(expected.dtype).eps * expected.abs().max()
    return None if same else "its results would not be the same"


@contextlib.contextmanager
def _evaluating(encoder: nn.Module) -> Iterator[None]:
    training = {module: module.training for module in encoder.modules()}
    encoder.eval()
    try:
        yield
    finally:
        for module, was_training in training.items():
            module.training = was_training


@contextlib.contextmanager
def _packed_masks() -> Iterator[None]:
    token = _is_packed.set(True)
    try:
        yield
    finally:
        _is_packed.reset(token)


def _mask(*args, **kwargs) -> torch.Tensor | None:
    # Packed rows need no mask; a window's alone would have the square of all tokens.
    return None if _is_packed.get() else ALL_MASK_ATTENTION_FUNCTIONS["sdpa"](*args, **kwargs)


AttentionInterface.register(PACKED, packed_attention)
AttentionMaskInterface.register(PACKED, _mask)
