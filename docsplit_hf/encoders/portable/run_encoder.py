"""run_encoder: run an encoder on packed or padded rows; pooling and maximum lengths."""

from __future__ import annotations

import contextlib
import inspect
import logging
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
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
NO_WEIGHTS = "its weights are not there to try it with"
PACKED = "docsplit_packed"  # the attention implementation of packed encoders

TOLERANCE = {torch.float32: 1e-3, torch.float16: 1e-2, torch.bfloat16: 6e-2}  # relative, per token: rounding

_engines: WeakKeyDictionary[nn.Module, Engine] = WeakKeyDictionary()  # copies and pickles of an encoder have none
_is_packed: ContextVar[bool] = ContextVar("is_packed", default=False)
_found_obstacle: WeakKeyDictionary[nn.Module, str | None] = WeakKeyDictionary()  # results of trying an encoder
_logged_obstacle: WeakKeyDictionary[nn.Module, str] = WeakKeyDictionary()
_switched_off: WeakSet[nn.Module] = WeakSet()


def run_encoder(
    encoder: nn.Module, input_ids: torch.Tensor, attention_mask: torch.Tensor, **arguments: torch.Tensor
) -> ModelOutput:
    """Run an encoder on rows ``(N, L)``, padded on the right: by its engine, if it has one, or packed, if that is on.

    Packing puts all tokens into one row. States and gradients equal those of padded rows, and are 0 at the padding.
    """
    engine = engine_of(encoder)
    if engine is not None:
        return engine(input_ids=input_ids, attention_mask=attention_mask, **arguments)
    one_per_token = all(
        isinstance(value, torch.Tensor) and value.shape == input_ids.shape for value in arguments.values()
    )
    if is_packed(encoder) and one_per_token and "position_ids" not in arguments:
        return _run_packed(encoder, input_ids, attention_mask, arguments)
    arguments |= _sparse_attention_arguments(encoder, attention_mask)
    return _stock(encoder)(input_ids=input_ids, attention_mask=attention_mask, **arguments)


def set_engine(encoder: nn.Module, engine: Engine | None) -> None:
    """Have ``run_encoder`` call ``engine`` in place of the encoder, in this process; None: the encoder itself."""
    if engine is None:
        _engines.pop(encoder, None)
    else:
        _engines[encoder] = engine


def engine_of(encoder: nn.Module) -> Engine | None:
    """The engine of an encoder; an encoder with an engine must not be in training mode."""
    engine = _engines.get(encoder)
    if engine is not None and encoder.training:
        name = type(encoder).__name__
        raise ValueError(f"{name} runs as a compiled copy, which does not learn: load it without backend=.")
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
    """The value of ``set_attn_implementation``. transformers 5.23 has no public way to read it."""
    return encoder.config._attn_implementation


def is_packed(encoder: nn.Module) -> bool:
    """Whether ``run_encoder`` packs: packing is on, and a GPU has flash attention for the current dtype."""
    if attention_implementation(encoder) != PACKED or engine_of(encoder) is not None:
        return False
    device = next(encoder.parameters()).device
    return device.type == "cpu" or has_flash(device, compute_dtype(device, encoder.dtype))


def use_packing(model: PreTrainedModel, packing: str = "auto") -> bool:
    """Switch packing on or off for a model; return whether it is on.

    ``"auto"``: on if packed results are the same, unless it was switched off before; ``"on"``: raise if they are not. A
    few tokens are used to find out. Encoders with attention of their own (Longformer, DeBERTa, ...) stay padded, which
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
    obstacle = _obstacle(encoder)
    # FSDP may load the weights in one process only: the other processes must not fail.
    if obstacle is None or (packing == "on" and obstacle == NO_WEIGHTS):
        encoder.set_attn_implementation(PACKED)
        return True
    if packing == "on":
        raise ValueError(f"{type(encoder).__name__} cannot run without padding: {obstacle}. Use packing='auto'.")
    if _logged_obstacle.get(encoder) != obstacle:
        logger.info("%s runs with padding: %s.", type(encoder).__name__, obstacle)
        _logged_obstacle[encoder] = obstacle
    return False


def check_pooling(pooling: str) -> str:
    """Return ``pooling`` if it exists, or else raise."""
    if pooling not in POOLINGS:
        raise ValueError(f"pooling must be one of {POOLINGS}, got {pooling!r}.")
    return pooling


def pool(
    hidden_states: torch.Tensor, attention_mask: torch.Tensor, pooling: str, prompt_length: int = 0
) -> torch.Tensor:
    """Pool the last hidden states ``(N, L, H)`` of rows that are padded on the right: ``(N, H)``, same dtype.

    ``attention_mask``: ``(N, L)``, 1 for tokens, at least one per row. ``"mean"`` and ``"max"`` leave out a prompt, the
    first ``prompt_length`` tokens of each row, but never the last token.
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


def max_positions(model: PreTrainedModel) -> int | None:
    """The longest input of a model in tokens, including special tokens; None if its configuration has no limit."""
    table = _position_embeddings(model)
    if table is not None:
        return table.num_embeddings - position_offset(model)
    stated = getattr(model.config, "max_position_embeddings", None)
    return stated if stated and stated > 0 else None


def position_offset(model: nn.Module) -> int:
    """The number of the first position: 0, or for RoBERTa and related models their padding index plus 1."""
    table = _position_embeddings(model)
    if table is None or table.padding_idx is None:
        return 0
    return table.padding_idx + 1


def check_max_length(max_length: int, model: PreTrainedModel) -> int:
    """Return ``max_length`` if the model has that many positions, or else raise."""
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


def _sparse_attention_arguments(encoder: nn.Module, attention_mask: torch.Tensor) -> dict[str, torch.Tensor]:
    """Arguments that give Longformer's first token global attention; also reset BigBird's attention."""
    # BigBird changes from sparse to full attention permanently after a short batch.
    if hasattr(encoder, "set_attention_type") and encoder.attention_type != encoder.config.attention_type:
        encoder.set_attention_type(encoder.config.attention_type)
    if "global_attention_mask" not in _parameters(encoder):
        return {}
    global_attention_mask = torch.zeros_like(attention_mask)
    global_attention_mask[:, 0] = 1
    return {"global_attention_mask": global_attention_mask}


def _run_packed(
    encoder: nn.Module, input_ids: torch.Tensor, attention_mask: torch.Tensor, arguments: Mapping[str, torch.Tensor]
) -> ModelOutput:
    real = attention_mask.flatten().nonzero().flatten()
    tokens, lengths = _fill_up(real, attention_mask.sum(1))
    boundaries = nn.functional.pad(lengths.cumsum(0), (1, 0))
    positions = (attention_mask.cumsum(1) - 1).flatten()[tokens] + position_offset(encoder)
    packed = {name: values.flatten()[tokens][None] for name, values in arguments.items()}
    token = _is_packed.set(True)
    try:
        output = _stock(encoder)(
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


@torch.compiler.disable  # the compiler does not know the number of tokens
def _fill_up(tokens: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """On a CPU, repeat the first tokens, up to 3 %, as further sequences; their states are not used.

    This rounds the number of tokens: oneDNN keeps kernels for each number, and training grew by 7 MB a step.
    """
    if tokens.device.type != "cpu":
        return tokens, lengths
    more = -len(tokens) % 2 ** max(len(tokens).bit_length() - 6, 0)
    again = (more - (lengths.cumsum(0) - lengths)).clamp(min=0).minimum(lengths)
    return torch.cat([tokens, tokens[:more]]), torch.cat([lengths, again])


# A DocSplit model calls run_encoder from its own forward, and keeps the stock forward as stock_forward.


def _stock(encoder: nn.Module) -> Callable[..., ModelOutput]:
    return getattr(encoder, "stock_forward", encoder)


def _parameters(encoder: nn.Module) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(getattr(encoder, "stock_forward", encoder.forward)).parameters


def _obstacle(encoder: PreTrainedModel) -> str | None:
    """Why the encoder cannot be packed; None if it can."""
    implementation = attention_implementation(encoder)
    if implementation != "sdpa":
        return f"its attention implementation is {implementation!r}, not 'sdpa'"
    parameters = _parameters(encoder)
    if "position_ids" not in parameters or not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return "its forward takes no positions, or passes nothing on to its attention"
    # Private in transformers 5.23. The public set_attn_implementation only logs a warning if it has no effect.
    if not encoder._can_set_attn_implementation():
        return "its attention does not go through transformers' attention interface"
    if any(parameter.is_meta or not parameter.numel() for parameter in encoder.parameters()):
        return NO_WEIGHTS
    if encoder not in _found_obstacle:
        _found_obstacle[encoder] = _try(encoder)
    return _found_obstacle[encoder]


def _try(encoder: PreTrainedModel) -> str | None:
    """Why the encoder's results differ without padding; None if they are the same."""
    input_ids, attention_mask = _example(encoder)
    input_ids = input_ids.to(encoder.device)
    attention_mask = attention_mask.to(encoder.device)
    training = {module: module.training for module in encoder.modules()}
    encoder.eval()
    with torch.no_grad():
        expected = _stock(encoder)(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        encoder.set_attn_implementation(PACKED)
        try:
            found = _run_packed(encoder, input_ids, attention_mask, {}).last_hidden_state
        except (NotImplementedError, TypeError, ValueError, RuntimeError, AttributeError) as error:
            return f"without it, it fails with {type(error).__name__} ({error})"
        finally:
            encoder.set_attn_implementation("sdpa")
            for module, was_training in training.items():
                module.training = was_training
    is_token = attention_mask.bool()
    expected = expected[is_token].float()
    found = found[is_token].float()
    difference = ((found - expected).norm(dim=1) / expected.norm(dim=1)).max()
    return None if difference <= TOLERANCE.get(encoder.dtype, 1e-3) else "its results would not be the same"


def _example(encoder: PreTrainedModel) -> tuple[torch.Tensor, torch.Tensor]:
    """Input ids and mask of three short rows, one of them longer than the attention window, if any."""
    config = encoder.config
    longest = min(getattr(config, "sliding_window", None) or 1, 256) + 6
    attention_mask = (torch.arange(longest) < torch.tensor([longest, 1, 3])[:, None]).long()
    tokens = encoder.get_input_embeddings().num_embeddings
    input_ids = torch.arange(3 * longest).view(3, longest) * 7 % (tokens - 2) + 2
    if getattr(config, "mask_token_id", None) is not None:
        input_ids[0, 2] = config.mask_token_id  # ESM's states depend on the share of masked tokens in a row
    padding = getattr(config, "pad_token_id", None) or 0
    return input_ids.masked_fill(attention_mask == 0, padding), attention_mask


def _mask(*args, **kwargs) -> torch.Tensor | None:
    # Packed rows need no mask, and the mask of a window would be quadratic in the number of all tokens.
    if _is_packed.get():
        return None
    return ALL_MASK_ATTENTION_FUNCTIONS["sdpa"](*args, **kwargs)


AttentionInterface.register(PACKED, packed_attention)
AttentionMaskInterface.register(PACKED, _mask)
