"""Batches for inference: texts of similar length together, as many as a budget of tokens allows."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedTokenizerBase

from .onednn import OneDNNLinear, is_worthwhile

T = TypeVar("T")

TOKENIZER_BATCH = 1000  # texts; enough for the tokenizer's threads, few enough for a progress bar that moves
TOKENIZER_CHARACTERS = 2**20  # of the texts of a batch; a tokenizer takes some 40 bytes for each
CPU_TOKENS_PER_BATCH = 2048  # more does not stay in the caches
ACCELERATOR_TOKENS_PER_BATCH = 32_768


def check_texts(texts: Sequence[str], name: str = "Text", first: int = 0) -> None:
    """Refuse what is no sequence of strings: one string, a generator, a mapping."""
    if isinstance(texts, str):
        raise TypeError("Expected a list of texts, got one string: pass [text].")
    # A generator would be empty afterwards, and of a mapping the keys would be read.
    if isinstance(texts, Mapping) or not (hasattr(texts, "__len__") and hasattr(texts, "__getitem__")):
        raise TypeError(f"Expected a list of texts, got {type(texts).__name__}: pass a list of strings.")
    for i, text in enumerate(texts, first):
        if not isinstance(text, str):
            raise TypeError(f"{name} {i} is {text!r}, not a string.")


def tokenizer_batches(texts: Iterable[T], characters_of: Callable[[T], int] = len) -> Iterator[list[T]]:
    """Texts in order, in batches of at most 1,000 and a million characters, which bounds a tokenizer's memory.

    One that is longer has a batch of its own.
    """
    batch: list[T] = []
    characters = 0
    for text in texts:
        characters += characters_of(text)
        if batch and (len(batch) == TOKENIZER_BATCH or characters > TOKENIZER_CHARACTERS):
            yield batch
            batch, characters = [], characters_of(text)
        batch.append(text)
    if batch:
        yield batch


def refuse_broken(
    values: torch.Tensor, numbers: Sequence[int], texts: Sequence[str], model: nn.Module, name: str
) -> None:
    """Refuse NaN and infinity in ``values``, ``(B, D)``, which nothing can be compared with.

    ``numbers`` has the number of each row's text, and ``name`` is what the model is called in the error.
    """
    finite = values.isfinite().all(1)
    if finite.all():
        return
    number = numbers[int(finite.logical_not().nonzero()[0])]
    weights = {name: weight for name, weight in model.named_parameters() if not weight.isfinite().all()}
    if weights:
        reason = f"Its weights are broken, in {next(iter(weights))}: train it again, or take another checkpoint"
    else:
        reason = (
            f"Its weights are finite, so the numbers grow too large for {next(model.parameters()).dtype}: load it with "
            'dtype="float32", and compute without bf16'
        )
    text = texts[number][:80] + "..." if len(texts[number]) > 80 else texts[number]
    raise ValueError(f"{name} gives NaN or infinity for text {number} of {len(texts)}, {text!r}. {reason}.")


def token_budget_batches(
    lengths: Sequence[int], max_tokens: int, max_rows: int | None = None, packed: bool = False
) -> list[list[int]]:
    """The numbers of rows of similar length, in batches of at most ``max_tokens``; a longer row has its own batch.

    The longest come first: what does not fit into memory fails at once. ``packed`` rows are not padded to the longest
    of their batch, so that only their own tokens count.
    """
    for name, limit in (("max_tokens_per_batch", max_tokens), ("batch_size", max_rows)):
        if limit is not None and limit < 1:
            raise ValueError(f"{name} must be at least 1, got {limit}.")
    batches: list[list[int]] = []
    tokens = 0
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        last = batches[-1] if batches else []
        tokens += lengths[row] if packed or not last else lengths[last[0]]
        if last and tokens <= max_tokens and len(last) != max_rows:
            last.append(row)
        else:
            batches.append([row])
            tokens = lengths[row]
    return batches


def inference_batches(
    rows: Sequence[dict[str, np.ndarray]],
    tokenizer: PreTrainedTokenizerBase,
    device: torch.device,
    max_tokens: int | None = None,
    max_rows: int | None = None,
    packed: bool = False,
) -> Iterator[tuple[list[int], dict[str, torch.Tensor]]]:
    """Yield the row numbers and the tensors, ``(B, L)`` int64 on the device, of one batch after the other.

    ``rows``: what the model reads of each text, by name, int32 ``(n,)``; ``input_ids`` at least. The tensors are padded
    on the right, where the pooling expects it, whatever the tokenizer's own side; ``attention_mask`` is added.
    """
    if max_tokens is None:
        max_tokens = CPU_TOKENS_PER_BATCH if device.type == "cpu" else ACCELERATOR_TOKENS_PER_BATCH
    padding = {"input_ids": tokenizer.pad_token_id or 0, "token_type_ids": tokenizer.pad_token_type_id}
    lengths = [len(row["input_ids"]) for row in rows]
    for numbers in token_budget_batches(lengths, max_tokens, max_rows, packed):
        columns = {name: [torch.from_numpy(rows[i][name]).long() for i in numbers] for name in rows[numbers[0]]}
        batch = {name: pad_sequence(column, True, padding[name]) for name, column in columns.items()}
        batch["attention_mask"] = pad_sequence([torch.ones_like(ids) for ids in columns["input_ids"]], True, 0)
        yield numbers, {name: tensor.to(device, non_blocking=True) for name, tensor in batch.items()}


@contextlib.contextmanager
def inference_mode(device: torch.device, bf16: bool = False) -> Iterator[None]:
    """No gradients, the fastest matrix products of the device, and bfloat16 for them (autocast) if asked for."""
    autocast = torch.autocast(device.type, torch.bfloat16) if bf16 else contextlib.nullcontext()
    products = OneDNNLinear() if not bf16 and is_worthwhile(device) else contextlib.nullcontext()
    with torch.inference_mode(), autocast, products:
        yield
