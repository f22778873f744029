"""Run an encoder over chunks of texts, in batches; ``text_embedder.py`` combines the embeddings of a text."""

from __future__ import annotations

import contextlib
import contextvars
import inspect
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeVar

import numpy as np
import torch
from torch import nn
from tqdm.auto import tqdm
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from .backends.precision import inference_mode, is_in_bfloat16
from .chunking import SINGLE_CHUNK, Chunk
from .portable.run_encoder import is_packed, run_encoder
from .text_embedder import EmbeddingOptions

logger = logging.getLogger(__name__)

DELAY_OF_BAR = 1.0  # seconds; texts that are read faster need none
LONG_TEXT = 1_000_000  # characters, as of a book; a CPU reads more in minutes
CPU_TOKENS_PER_BATCH = 2048  # more tokens do not fit into the caches
ACCELERATOR_TOKENS_PER_BATCH = 32_768
# Packed rows on CUDA: with fewer batches, less of the time is Python's, for which the GPU would wait. A batch fills at
# most a quarter of the GPU's memory: BERT takes about 50 bytes for each number of its last states, in bfloat16.
PACKED_TOKENS_PER_BATCH = 131_072
PACKED_BYTES_PER_STATE = 50
# Packed rows are padded again when they are pooled: the most padded tokens, in multiples of the batch's tokens.
PACKED_PADDING = 2
GROUP_TOKENS = 2**20  # tokens buffered at once, enough to sort chunks into batches of similar length
# Off the CPU, packed rows need no sorting, so that a group is about one batch: the device waits only for the first one.
# It has this many tokens less than a batch may have, so that the chunk that completes it does not begin another batch.
PACKED_GROUP_MARGIN = 2**12
# Batches that are started before the outputs of an earlier one are read, so that a GPU always has the next one.
RUNNING_BATCHES = {"cuda": 2}

T = TypeVar("T")
PoolStates = Callable[[torch.Tensor, torch.Tensor], Sequence[torch.Tensor]]


def embed_chunks(
    model: PreTrainedModel,
    name: str,
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[str],
    chunks: Iterable[Chunk],
    options: EmbeddingOptions,
    pool_states: PoolStates,
) -> Iterator[tuple[list[Chunk], list[torch.Tensor]]]:
    """Run the encoder of a model over chunks, and pool its states.

    Off the CPU, the chunks of the next group are made in a thread while the device computes.

    Args:
        model: The model that has the encoder.
        name: The model's name in errors.
        tokenizer: The tokenizer that the chunks were made with.
        texts: The texts of the chunks.
        chunks: The chunks, in the order of their texts.
        options: Options of the call; ``long_documents`` is the strategy that made the chunks.
        pool_states: Computes the outputs, ``(rows, size)`` each, from the states ``(rows, L, H)`` and their
            mask ``(rows, L)``.

    Yields:
        A group of chunks and its outputs, float32 ``(chunks, size)`` each, on the CPU.
    """
    encoder = model.base_model
    device = encoder.device
    in_bf16 = is_in_bfloat16(encoder, options.bf16, device)
    longest = max(map(len, texts), default=0)
    if longest > LONG_TEXT and options.long_documents not in SINGLE_CHUNK and options.max_passages is None:
        logger.warning("The longest text has %s characters, and all are read: max_passages limits it.", f"{longest:,}")
    progress = tqdm(
        total=len(texts),
        desc="Embedding",
        unit="text" if options.long_documents in SINGLE_CHUNK else "chunk",
        disable=not options.show_progress,
        delay=DELAY_OF_BAR,
        leave=None,  # a nested bar vanishes at the end
    )
    with inference_mode(device, in_bf16):
        packed = is_packed(encoder)  # depends on autocast, which is on in this thread only
    groups = _groups(encoder, tokenizer, texts, chunks, options, packed)
    if device.type != "cpu":
        groups = read_ahead(groups)
    with progress, contextlib.closing(groups):
        for group, numbers, values, copied in _run_batches(encoder, groups, in_bf16, pool_states):
            if copied is not None:
                copied.synchronize()
            progress.total = group.total
            if group.outputs is None:
                group.outputs = [torch.empty(len(group.chunks), value.shape[1]) for value in values]
            for output, value in zip(group.outputs, values, strict=True):
                refuse_non_finite(value, [group.chunks[number].text for number in numbers], texts, model, name)
                output.numpy()[numbers] = value.numpy()  # torch would start its threads for a copy
            progress.update(len(numbers))
            if numbers is group.batches[-1][0]:
                yield group.chunks, group.outputs
        progress.total = progress.n


@dataclass
class _Group:
    """Chunks that are sorted into batches together."""

    chunks: list[Chunk]
    total: int  # chunks of all texts, an estimate
    batches: list[tuple[list[int], dict[str, torch.Tensor]]]  # as from ``inference_batches``
    outputs: list[torch.Tensor] | None = None  # float32 (chunks, size) each, on the CPU, filled batch by batch


# A group, the numbers of its chunks in a batch, and their outputs, float32 on the CPU, valid after the event if any.
_RunningBatch = tuple[_Group, list[int], list[torch.Tensor], torch.cuda.Event | None]


def _groups(
    encoder: nn.Module,
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[str],
    chunks: Iterable[Chunk],
    options: EmbeddingOptions,
    packed: bool,
) -> Iterator[_Group]:
    """Put chunks into groups, and the chunks of each group into batches."""
    max_tokens = options.max_tokens_per_batch
    if max_tokens is None:
        max_tokens = tokens_per_batch(encoder, packed)
    group_tokens = GROUP_TOKENS
    if packed and encoder.device.type != "cpu":
        group_tokens = max(max_tokens, PACKED_TOKENS_PER_BATCH) - PACKED_GROUP_MARGIN
    characters = [0, *accumulate(len(text) for text in texts)]  # before each text
    known = 0
    for group in _grouped(chunks, group_tokens):
        known += len(group)
        read = characters[group[-1].text] + group[-1].end
        rows = _model_inputs(encoder, group)
        yield _Group(
            chunks=group,
            total=max(known, round(known * characters[-1] / max(read, 1))),
            batches=list(inference_batches(rows, tokenizer, encoder.device, max_tokens, options.batch_size, packed)),
        )


def _grouped(chunks: Iterable[Chunk], tokens_at_once: int) -> Iterator[list[Chunk]]:
    """Yield groups of ``tokens_at_once``; the last one may have fewer."""
    group: list[Chunk] = []
    tokens = 0
    for chunk in chunks:
        group.append(chunk)
        tokens += len(chunk.input_ids)
        if tokens >= tokens_at_once:
            yield group
            group = []
            tokens = 0
    if group:
        yield group


def _run_batches(
    encoder: nn.Module, groups: Iterable[_Group], in_bf16: bool, pool_states: PoolStates
) -> Iterator[_RunningBatch]:
    """Start all batches of groups, and yield each; on CUDA, after the batches behind it were started, too."""
    device = encoder.device
    is_cuda = device.type == "cuda"
    running: deque[_RunningBatch] = deque()
    for group in groups:
        for numbers, batch in group.batches:
            with inference_mode(device, in_bf16):
                inputs = {name: tensor.to(device, non_blocking=is_cuda) for name, tensor in batch.items()}
                token_count = int(batch["attention_mask"].sum())
                states = run_encoder(encoder, token_count=token_count, **inputs).last_hidden_state
                pooled = pool_states(states, inputs["attention_mask"])
                outputs = [output.float().to("cpu", non_blocking=is_cuda) for output in pooled]
            copied = torch.cuda.current_stream(device).record_event() if is_cuda else None
            running.append((group, numbers, outputs, copied))
            if len(running) > RUNNING_BATCHES.get(device.type, 0):
                yield running.popleft()
    yield from running


def read_ahead(items: Iterable[T]) -> Iterator[T]:
    """Yield items in order; a thread makes the next one, and no more than that, while the caller uses the current one.

    The thread has the caller's context variables. An error in the thread is raised here, after the items before it.
    When the generator ends, is closed or raises, the thread has ended; it makes at most its current item until then.

    Args:
        items: The items. Their code must release the GIL for most of its time, as tokenizers and numpy do.

    Yields:
        Each item.
    """
    iterator = iter(items)
    end = object()
    context = contextvars.copy_context()
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="read_ahead") as thread:
        following = thread.submit(context.run, next, iterator, end)
        while (item := following.result()) is not end:
            following = thread.submit(context.run, next, iterator, end)
            yield item


def tokens_per_batch(encoder: nn.Module, packed: bool) -> int:
    """The most tokens in a batch of an encoder, on its device, if a call gives no number."""
    device = encoder.device
    if device.type == "cpu":
        return CPU_TOKENS_PER_BATCH
    if device.type != "cuda" or not packed:
        return ACCELERATOR_TOKENS_PER_BATCH
    memory = torch.cuda.get_device_properties(device).total_memory // 4
    tokens = PACKED_TOKENS_PER_BATCH
    while (
        tokens > ACCELERATOR_TOKENS_PER_BATCH and tokens * encoder.config.hidden_size * PACKED_BYTES_PER_STATE > memory
    ):
        tokens //= 2  # the batches of a group stay equal
    return tokens


def _model_inputs(encoder: nn.Module, chunks: Sequence[Chunk]) -> list[dict[str, np.ndarray]]:
    """The encoder's inputs for each chunk, by name, int32 ``(n,)``."""
    takes_pairs = "token_type_ids" in inspect.signature(encoder.forward).parameters
    if not takes_pairs or all(chunk.token_type_ids is None for chunk in chunks):
        return [{"input_ids": chunk.input_ids} for chunk in chunks]
    rows = []
    for chunk in chunks:
        types = np.zeros_like(chunk.input_ids) if chunk.token_type_ids is None else chunk.token_type_ids
        rows.append({"input_ids": chunk.input_ids, "token_type_ids": types})
    return rows


def inference_batches(
    rows: Sequence[dict[str, np.ndarray]],
    tokenizer: PreTrainedTokenizerBase,
    device: torch.device,
    max_tokens: int,
    max_rows: int | None = None,
    packed: bool = False,
) -> Iterator[tuple[list[int], dict[str, torch.Tensor]]]:
    """Make batches for a device: yields the row numbers of each, and its tensors, int64 ``(B, L)``, on the CPU.

    ``rows``: the model's inputs for each chunk, by name, int32 ``(n,)``. Batches are padded on the right. For CUDA they
    are in pinned memory, from which they are copied while the GPU computes.
    """
    # On a CPU a packed batch is too small for its padding to matter.
    max_padded = PACKED_PADDING * max_tokens if packed and device.type != "cpu" else None
    padding = {"input_ids": tokenizer.pad_token_id or 0, "token_type_ids": tokenizer.pad_token_type_id}
    pinned = device.type == "cuda"
    lengths = [len(row["input_ids"]) for row in rows]
    for numbers in token_budget_batches(lengths, max_tokens, max_rows, packed, max_padded):
        row_lengths = torch.tensor([lengths[number] for number in numbers])
        is_token = torch.arange(int(row_lengths.max())) < row_lengths[:, None]
        batch = {}
        for name in rows[numbers[0]]:
            values = torch.full(is_token.shape, padding[name], dtype=torch.int64, pin_memory=pinned)
            values.numpy()[is_token.numpy()] = np.concatenate([rows[number][name] for number in numbers])
            batch[name] = values
        mask = is_token.long()
        batch["attention_mask"] = mask.pin_memory() if pinned else mask
        yield numbers, batch


def token_budget_batches(
    lengths: Sequence[int],
    max_tokens: int,
    max_rows: int | None = None,
    packed: bool = False,
    max_padded: int | None = None,
) -> list[list[int]]:
    """Put rows of similar length into batches of at most ``max_tokens`` each; a longer row has a batch of its own.

    The longest rows come first, so that a batch that is too large for the memory fails at once. ``packed``: rows are
    not padded, so that only their own tokens count. ``max_padded``: the most tokens of a packed batch with padding.
    """
    for name, limit in (("max_tokens_per_batch", max_tokens), ("batch_size", max_rows)):
        if limit is not None and limit < 1:
            raise ValueError(f"{name} must be at least 1, got {limit}.")
    batches: list[list[int]] = []
    tokens = 0
    padded = 0
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        last = batches[-1] if batches else []
        longest = lengths[last[0]] if last else lengths[row]
        padded += longest
        tokens += lengths[row] if packed else longest
        has_room = tokens <= max_tokens and (max_padded is None or padded <= max_padded)
        if last and has_room and len(last) != max_rows:
            last.append(row)
        else:
            batches.append([row])
            tokens = lengths[row]
            padded = lengths[row]
    return batches


def refuse_non_finite(
    values: torch.Tensor, numbers: Sequence[int], texts: Sequence[str], model: nn.Module, name: str
) -> None:
    """Refuse NaN and infinity in ``values``, ``(B, D)``; the error names the text, and broken weights if there are any.

    ``numbers``: the number of the text of each row; ``name``: the model's name.
    """
    finite = values.isfinite().all(1)
    if finite.all():
        return
    number = numbers[int(finite.logical_not().nonzero()[0])]
    reason = (
        f"Its weights are finite, so the states grow too large for {next(model.parameters()).dtype}: load it with "
        'dtype="float32", and compute without bf16'
    )
    damaged = next((name for name, weight in model.named_parameters() if not weight.isfinite().all()), None)
    if damaged is not None:
        reason = f"Its weights are broken, in {damaged}: train it again, or use another checkpoint"
    text = texts[number][:80] + "..." if len(texts[number]) > 80 else texts[number]
    raise ValueError(f"{name} gives NaN or infinity for text {number} of {len(texts)}, {text!r}. {reason}.")
