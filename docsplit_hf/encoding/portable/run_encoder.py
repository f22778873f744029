"""Run an encoder on packed or padded rows, pool its states, and find its maximum length."""

from __future__ import annotations

import contextlib
import inspect
import logging
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import torch
from torch import nn
from transformers import AttentionInterface, PreTrainedModel
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, AttentionMaskInterface
from transformers.utils import ModelOutput

from .packed_attention import compute_dtype, has_flash, packed_attention

logger = logging.getLogger(__name__)

Engine = Callable[..., ModelOutput]  # replaces the forward of an encoder, such as a compiled copy
PACKINGS = ("auto", "on", "off")
POOLINGS = ("cls", "mean", "max", "last")
NO_WEIGHTS = "its weights are not loaded in this process, so that packing cannot be tried"
PACKED = "docsplit_packed"  # the attention implementation of packed encoders

# Relative differences of a token's state that rounding explains.
ROUNDING_TOLERANCE = {torch.float32: 1e-3, torch.float16: 1e-2, torch.bfloat16: 6e-2}

_engines: WeakKeyDictionary[nn.Module, Engine] = WeakKeyDictionary()  # copies and pickles of an encoder have none
_is_packed: ContextVar[bool] = ContextVar("is_packed", default=False)
# Why an encoder cannot be packed, as found by trying it; None if it can.
_tried: WeakKeyDictionary[nn.Module, str | None] = WeakKeyDictionary()
_logged_reason: WeakKeyDictionary[nn.Module, str] = WeakKeyDictionary()
_switched_off: WeakSet[nn.Module] = WeakSet()
_first_positions: WeakKeyDictionary[nn.Module, int] = WeakKeyDictionary()  # of packed encoders


def run_encoder(
    encoder: nn.Module,
    input_ids: torch.Tensor,
    attention_mask: torch.Tensor,
    token_count: int | None = None,
    **arguments: torch.Tensor,
) -> ModelOutput:
    """Run an encoder on rows ``(N, L)``, padded on the right: by its engine if it has one, packed if packing is on.

    Packing puts the tokens of all rows into one row, without padding. States and gradients equal those of padded rows;
    states at the padding are 0. ``token_count``: the sum of ``attention_mask``; if it is given, a packed run does not
    wait for the device to count them.
    """
    engine = engine_of(encoder)
    if engine is not None:
        return engine(input_ids=input_ids, attention_mask=attention_mask, **arguments)
    one_per_token = all(
        isinstance(value, torch.Tensor) and value.shape == input_ids.shape for value in arguments.values()
    )
    if is_packed(encoder) and one_per_token and "position_ids" not in arguments:
        return _run_packed(encoder, input_ids, attention_mask, arguments, token_count)
    arguments |= _sparse_attention_arguments(encoder, attention_mask)
    # A DocSplit model calls run_encoder from its own forward, and keeps the stock forward as stock_forward.
    forward = getattr(encoder, "stock_forward", encoder)
    return forward(input_ids=input_ids, attention_mask=attention_mask, **arguments)


def set_engine(encoder: nn.Module, engine: Engine | None) -> None:
    """Make ``run_encoder`` call ``engine`` in place of the encoder, in this process; None: the encoder itself."""
    if engine is None:
        _engines.pop(encoder, None)
    else:
        _engines[encoder] = engine


def engine_of(encoder: nn.Module) -> Engine | None:
    """The engine of an encoder; an encoder with an engine must not be in training mode."""
    engine = _engines.get(encoder)
    if engine is not None and encoder.training:
        raise ValueError(
            f"{type(encoder).__name__} runs as a compiled copy, which cannot be trained: load it in float32."
        )
    return engine


@contextlib.contextmanager
def without_engine(encoder: nn.Module) -> Iterator[None]:
    """Remove the engine of an encoder within the context."""
    engine = _engines.pop(encoder, None)
    try:
        yield
    finally:
        set_engine(encoder, engine)


def attention_implementation(encoder: nn.Module) -> str | None:
    """The name of an encoder's attention implementation, as set by ``set_attn_implementation``."""
    return encoder.config._attn_implementation  # private in transformers 5.23, which has no public way to read it


def is_packed(encoder: nn.Module) -> bool:
    """Whether ``run_encoder`` packs: packing is on, and a GPU, if used, has flash attention for the current dtype."""
    if attention_implementation(encoder) != PACKED or engine_of(encoder) is not None:
        return False
    device = next(encoder.parameters()).device
    return device.type == "cpu" or has_flash(device, compute_dtype(device, encoder.dtype))


def use_packing(model: PreTrainedModel, packing: str = "auto") -> bool:
    """Switch packing on or off for a model; return whether it is on.

    ``"auto"``: on if a trial with a few tokens gives the same results, unless it was switched off before. ``"on"``: an
    error if the results differ. Encoders with their own kind of attention (Longformer, DeBERTa, ...) stay padded, which
    is logged.
    """
    if packing not in PACKINGS:
        raise ValueError(f"packing must be one of {PACKINGS}, got {packing!r}.")
    encoder = model.base_model
    if packing == "off":
        _switched_off.add(encoder)
        if attention_implementation(encoder) == PACKED:
            encoder.set_attn_implementation("sdpa")
        return False
    if attention_implementation(encoder) == PACKED:
        return True
    if packing == "auto" and encoder in _switched_off:
        return False
    reason = _why_not_packed(encoder)
    # FSDP may load the weights in one process only, and the other processes must not fail.
    if reason is None or (packing == "on" and reason == NO_WEIGHTS):
        encoder.set_attn_implementation(PACKED)
        return True
    if packing == "on":
        raise ValueError(f"{type(encoder).__name__} cannot run without padding: {reason}. Use packing='auto'.")
    if _logged_reason.get(encoder) != reason:
        logger.info("%s runs with padding: %s.", type(encoder).__name__, reason)
        _logged_reason[encoder] = reason
    return False


def check_pooling(pooling: str) -> str:
    """Return ``pooling`` if there is one of that name; raise otherwise."""
    if pooling not in POOLINGS:
        raise ValueError(f"pooling must be one of {POOLINGS}, got {pooling!r}.")
    return pooling


def pool(
    hidden_states: torch.Tensor, attention_mask: torch.Tensor, pooling: str, first_pooled: int = 0
) -> torch.Tensor:
    """Pool the last hidden states ``(N, L, H)`` of rows that are padded on the right: ``(N, H)``, same dtype.

    ``attention_mask``: ``(N, L)``, 1 for tokens, at least one per row. Tokens before ``first_pooled`` are left out, but
    never the last token of a row.
    """
    rows = torch.arange(len(hidden_states), device=hidden_states.device)
    last = attention_mask.sum(1) - 1
    first = last.clamp(max=first_pooled)
    if pooling == "cls":
        return hidden_states[rows, first] if first_pooled else hidden_states[:, 0]
    if pooling == "last":
        return hidden_states[rows, last]
    mask = attention_mask.bool()
    if first_pooled:
        mask = mask & (torch.arange(mask.shape[1], device=mask.device) >= first[:, None])
    mask = mask[:, :, None]
    if pooling == "mean":
        # Summed in float32: in float16 the states of a long document overflow.
        dtype = torch.promote_types(hidden_states.dtype, torch.float32)
        total = hidden_states.masked_fill(~mask, 0).sum(1, dtype=dtype)
        return (total / mask.sum(1)).to(hidden_states.dtype)
    check_pooling(pooling)  # what is left is "max"
    return hidden_states.masked_fill(~mask, -torch.inf).amax(1)


class UnitNorm(nn.Module):
    """Scale rows to norm 1: the module Normalize of sentence-transformers, before a dense layer."""

    def forward(self, embeddings: torch.Tensor) -> torch.Tensor:
        """Scale the rows of ``(N, D)`` to norm 1."""
        return nn.functional.normalize(embeddings)


ACTIVATIONS = {kind.__name__: kind for kind in (nn.Identity, nn.Tanh, nn.ReLU, nn.GELU)}


def make_projection(settings: Mapping[str, Any], input_size: int) -> nn.Sequential:
    """Make dense layers after the pooling, from ``(N, input_size)`` on, with random weights.

    ``settings``: ``normalize_first``, and for each of ``layers`` its ``size``, ``bias`` and ``activation``.
    """
    modules: list[nn.Module] = [UnitNorm()] if settings["normalize_first"] else []
    for layer in settings["layers"]:
        modules.append(nn.Linear(input_size, layer["size"], bias=layer["bias"]))
        modules.append(ACTIVATIONS[layer["activation"]]())
        input_size = layer["size"]
    return nn.Sequential(*modules)


def describe_projection(projection: nn.Sequential) -> dict[str, Any]:
    """Describe dense layers, so that ``make_projection`` makes layers of the same form."""
    modules = list(projection)
    normalize_first = isinstance(modules[0], UnitNorm)
    dense = modules[1:] if normalize_first else modules
    layers = [
        {"size": linear.out_features, "bias": linear.bias is not None, "activation": type(activation).__name__}
        for linear, activation in zip(dense[::2], dense[1::2], strict=True)
    ]
    return {"normalize_first": normalize_first, "layers": layers}


def max_positions(model: PreTrainedModel) -> int | None:
    """The longest input of a model in tokens, including special tokens; None if its configuration has no limit."""
    table, first = _positions(model)
    if table is not None:
        return table.num_embeddings - first
    stated = getattr(model.config, "max_position_embeddings", None)
    return stated if stated and stated > 0 else None


def check_max_length(max_length: int, model: PreTrainedModel) -> int:
    """Return ``max_length`` if the model has that many positions; raise otherwise."""
    positions = max_positions(model)
    if positions is not None and max_length > positions:
        raise ValueError(
            f"max_length={max_length} is more than the {positions} positions of {type(model).__name__}: use at most "
            f"{positions}."
        )
    return max_length


def _positions(model: nn.Module) -> tuple[nn.Embedding | None, int]:
    """The table of learned absolute positions, if the model has one, and the number of the first position.

    This is 0, or for RoBERTa and related models their padding index plus 1.
    """
    tables = (module for name, module in model.named_modules() if name.endswith("position_embeddings"))
    table = next((table for table in tables if isinstance(table, nn.Embedding)), None)
    return table, 0 if table is None or table.padding_idx is None else table.padding_idx + 1


def _sparse_attention_arguments(encoder: nn.Module, attention_mask: torch.Tensor) -> dict[str, torch.Tensor]:
    """Arguments that give Longformer's first token global attention; BigBird's attention is reset to sparse."""
    # After a short batch BigBird stays with full attention.
    if hasattr(encoder, "set_attention_type") and encoder.attention_type != encoder.config.attention_type:
        encoder.set_attention_type(encoder.config.attention_type)
    if "global_attention_mask" not in _parameters(encoder):
        return {}
    global_attention_mask = torch.zeros_like(attention_mask)
    global_attention_mask[:, 0] = 1
    return {"global_attention_mask": global_attention_mask}


def _run_packed(
    encoder: nn.Module,
    input_ids: torch.Tensor,
    attention_mask: torch.Tensor,
    arguments: Mapping[str, torch.Tensor],
    token_count: int | None = None,
) -> ModelOutput:
    """Run the encoder on one row of all tokens, and return the states as padded rows, ``(N, L, H)``."""
    mask = attention_mask.flatten()
    places = mask.nonzero() if token_count is None else mask.nonzero_static(size=token_count)
    real = places.flatten()  # the places of tokens, not of padding
    tokens, lengths = _round_up(real, attention_mask.sum(1))
    boundaries = nn.functional.pad(lengths.cumsum(0), (1, 0))
    if encoder not in _first_positions:
        _, _first_positions[encoder] = _positions(encoder)  # once, as it takes a walk over all modules
    positions = (attention_mask.cumsum(1) - 1).flatten()[tokens] + _first_positions[encoder]
    packed = {name: values.flatten()[tokens][None] for name, values in arguments.items()}
    forward = getattr(encoder, "stock_forward", encoder)
    token = _is_packed.set(True)
    try:
        output = forward(
            input_ids=input_ids.flatten()[tokens][None],
            position_ids=positions[None],
            cu_seq_lens_q=boundaries.int(),
            max_length_q=input_ids.shape[1],
            **packed,
        )
    finally:
        _is_packed.reset(token)
    states = output.last_hidden_state[0, : len(real)]
    padded = states.new_zeros(attention_mask.numel(), states.shape[1]).index_copy(0, real, states)
    return type(output)(last_hidden_state=padded.view(*input_ids.shape, -1))


@torch.compiler.disable  # the number of tokens is unknown to the compiler
def _round_up(tokens: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """On a CPU, round the number of tokens up, by at most 3 %, by repeating the first tokens as further sequences.

    The states of repeated tokens are not used. oneDNN caches kernels for each number of tokens: without rounding, the
    memory of a training run grew by 7 MB per step.
    """
    if tokens.device.type != "cpu":
        return tokens, lengths
    missing = -len(tokens) % 2 ** max(len(tokens).bit_length() - 6, 0)
    repeated_lengths = (missing - (lengths.cumsum(0) - lengths)).clamp(min=0).minimum(lengths)
    return torch.cat([tokens, tokens[:missing]]), torch.cat([lengths, repeated_lengths])


def _parameters(encoder: nn.Module) -> Mapping[str, inspect.Parameter]:
    """The parameters of the stock forward."""
    return inspect.signature(getattr(encoder, "stock_forward", encoder.forward)).parameters


def _why_not_packed(encoder: PreTrainedModel) -> str | None:
    """Why the encoder cannot be packed; None if it can."""
    implementation = attention_implementation(encoder)
    if implementation != "sdpa":
        return f"its attention implementation is {implementation!r}, not 'sdpa'"
    parameters = _parameters(encoder)
    if "position_ids" not in parameters or not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return "its forward takes no position_ids, or passes no further arguments on to its attention"
    # Private in transformers 5.23. The public set_attn_implementation only logs a warning if it has no effect.
    if not encoder._can_set_attn_implementation():
        return "its attention does not go through transformers' attention interface"
    if any(parameter.is_meta or not parameter.numel() for parameter in encoder.parameters()):
        return NO_WEIGHTS
    if encoder not in _tried:
        _tried[encoder] = _try_packing(encoder)
    return _tried[encoder]


def _try_packing(encoder: PreTrainedModel) -> str | None:
    """Run the encoder on a few tokens with and without padding: None if the results agree, else the reason."""
    input_ids, attention_mask = _trial_rows(encoder)
    input_ids = input_ids.to(encoder.device)
    attention_mask = attention_mask.to(encoder.device)
    training = {module: module.training for module in encoder.modules()}
    encoder.eval()
    with torch.no_grad():
        forward = getattr(encoder, "stock_forward", encoder)
        expected = forward(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        encoder.set_attn_implementation(PACKED)
        try:
            found = _run_packed(encoder, input_ids, attention_mask, {}).last_hidden_state
        except (NotImplementedError, TypeError, ValueError, RuntimeError, AttributeError) as error:
            return f"without padding, it fails with {type(error).__name__} ({error})"
        finally:
            encoder.set_attn_implementation("sdpa")
            for module, was_training in training.items():
                module.training = was_training
    is_token = attention_mask.bool()
    expected = expected[is_token].float()
    found = found[is_token].float()
    difference = ((found - expected).norm(dim=1) / expected.norm(dim=1)).max()
    if difference <= ROUNDING_TOLERANCE.get(encoder.dtype, 1e-3):
        return None
    return "its results would not be the same"


def _trial_rows(encoder: PreTrainedModel) -> tuple[torch.Tensor, torch.Tensor]:
    """Input ids and mask of three short rows, one of them longer than the attention window if there is one."""
    config = encoder.config
    longest = min(getattr(config, "sliding_window", None) or 1, 256) + 6
    attention_mask = (torch.arange(longest) < torch.tensor([longest, 1, 3])[:, None]).long()
    tokens = encoder.get_input_embeddings().num_embeddings
    input_ids = torch.arange(3 * longest).view(3, longest) * 7 % (tokens - 2) + 2
    if getattr(config, "mask_token_id", None) is not None:
        input_ids[0, 2] = config.mask_token_id  # ESM's states depend on the share of masked tokens in a row
    padding = getattr(config, "pad_token_id", None) or 0
    return input_ids.masked_fill(attention_mask == 0, padding), attention_mask


def _attention_mask(*args, **kwargs) -> torch.Tensor | None:
    """The mask for the attention of a packed encoder: none for packed rows, else as with ``"sdpa"``."""
    # The mask of a sliding window would be quadratic in the number of all tokens.
    if _is_packed.get():
        return None
    return ALL_MASK_ATTENTION_FUNCTIONS["sdpa"](*args, **kwargs)


AttentionInterface.register(PACKED, packed_attention)
AttentionMaskInterface.register(PACKED, _attention_mask)
