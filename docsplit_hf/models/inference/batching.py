"""Batches for inference: texts of similar length together, as many as a budget of tokens allows."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from typing import TypeVar

import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from tqdm.auto import tqdm
from transformers import PreTrainedTokenizerBase

from .onednn import OneDNNLinear, is_worthwhile

T = TypeVar("T", bound=Sized)

TOKENIZER_BATCH = 1000  # texts; enough for the tokenizer's threads, little enough for a progress bar that moves
TOKENIZER_CHARACTERS = 2**20  # of the texts of a batch; a tokenizer takes some 40 bytes for each
CPU_TOKENS_PER_BATCH = 2048  # more does not stay in the caches
ACCELERATOR_TOKENS_PER_BATCH = 32_768


def check_texts(texts: Sequence[str], name: str = "Text", first: int = 0) -> None:
    """Make sure that there is nothing but strings.

    Args:
        texts: The texts.
        name: What they are called in the error.
        first: The number of the first.

    Raises:
        TypeError: If one of them is not a string, or if they are not a sequence: one string, a generator, a mapping.

    Example:

        >>> check_texts(["a text", None])
        Traceback (most recent call last):
        TypeError: Text 1 is None, not a string.
    """
    if isinstance(texts, str):
        raise TypeError("Expected a list of texts, got one string: pass [text].")
    # Of a generator, which is read here, the caller would have nothing left; of a mapping, the keys.
    if isinstance(texts, Mapping) or not (hasattr(texts, "__len__") and hasattr(texts, "__getitem__")):
        raise TypeError(f"Expected a list of texts, got {type(texts).__name__}: pass a list of strings.")
    for i, text in enumerate(texts, first):
        if not isinstance(text, str):
            raise TypeError(f"{name} {i} is {text!r}, not a string.")


def tokenizer_batches(texts: Iterable[T]) -> Iterator[list[T]]:
    """Texts in batches for a tokenizer, which bound its memory.

    Args:
        texts: Texts, or anything whose length is a number of characters.

    Yields:
        Up to 1,000 of them, in order, of a million characters; one that is longer has a batch of its own.

    Example:

        >>> [len(batch) for batch in tokenizer_batches(["a text"] * 1500)]
        [1000, 500]
    """
    batch: list[T] = []
    characters = 0
    for text in texts:
        characters += len(text)
        if batch and (len(batch) == TOKENIZER_BATCH or characters > TOKENIZER_CHARACTERS):
            yield batch
            batch, characters = [], len(text)
        batch.append(text)
    if batch:
        yield batch


def refuse_broken(
    values: torch.Tensor, numbers: Sequence[int], texts: Sequence[str], model: nn.Module, name: str
) -> None:
    """Refuse NaN and infinity, which nothing can be compared with.

    Args:
        values: What a model gave, ``(B, D)``.
        numbers: The number of the text of each row.
        texts: All texts.
        model: The model.
        name: What it is called in the error.

    Raises:
        ValueError: If a number is not finite.

    Example:

        >>> values, model = torch.tensor([[1.0], [torch.nan]]), torch.nn.Linear(1, 1)
        >>> refuse_broken(values, [1, 0], ["a text", "another"], model, "Linear")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ValueError: Linear gives NaN or infinity for text 0 of 2, 'a text'. ...
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
    """Batches of rows of similar length that hold at most so many tokens each.

    Args:
        lengths: N lengths in tokens.
        max_tokens: The most that a batch may hold. A row that is longer has a batch of its own.
        max_rows: The most rows that a batch may hold. None: as many as the tokens allow.
        packed: Whether the rows are not padded to the longest of their batch.

    Returns:
        Row numbers, longest first: what does not fit into memory fails at once.

    Raises:
        ValueError: If a limit is not positive.

    Example:

        >>> token_budget_batches([2, 9, 3, 3], max_tokens=6)
        [[1], [2, 3], [0]]
        >>> token_budget_batches([2, 9, 3, 3], max_tokens=8, packed=True)
        [[1], [2, 3, 0]]
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
    show_progress: bool = False,
    progress: tqdm | None = None,
) -> Iterator[tuple[list[int], dict[str, torch.Tensor]]]:
    """The batches of tokenized texts, one after the other, beside a progress bar.

    Args:
        rows: What the model reads of each text, by name: int32 arrays of shape ``(n,)``; ``input_ids`` at least.
        tokenizer: It says what padding is.
        device: Where the batches go.
        max_tokens: The most tokens in a batch. None: 2,048 on a CPU, 32,768 elsewhere.
        max_rows: The most rows in a batch. None: as many as the tokens allow.
        packed: Whether the model reads no padding, so that only the tokens themselves count.
        show_progress: Whether to show the progress bar.
        progress: A progress bar that goes on, in place of one of its own.

    Yields:
        The numbers of a batch's rows, and their tensors, ``(B, L)`` int64 on the device: padded on the right, where the
        pooling expects it, whatever the tokenizer's own side; ``attention_mask`` among them.
    """
    if max_tokens is None:
        max_tokens = CPU_TOKENS_PER_BATCH if device.type == "cpu" else ACCELERATOR_TOKENS_PER_BATCH
    padding = {"input_ids": tokenizer.pad_token_id or 0, "token_type_ids": tokenizer.pad_token_type_id}
    lengths = [len(row["input_ids"]) for row in rows]
    own = tqdm(total=len(rows), desc="Embedding", unit="text", disable=not show_progress or progress is not None)
    with own:
        for numbers in token_budget_batches(lengths, max_tokens, max_rows, packed):
            columns = {name: [torch.from_numpy(rows[i][name]).long() for i in numbers] for name in rows[numbers[0]]}
            batch = {name: pad_sequence(column, True, padding[name]) for name, column in columns.items()}
            batch["attention_mask"] = pad_sequence([torch.ones_like(ids) for ids in columns["input_ids"]], True, 0)
            yield numbers, {name: tensor.to(device, non_blocking=True) for name, tensor in batch.items()}
            (progress or own).update(len(numbers))


@contextlib.contextmanager
def inference_mode(device: torch.device, bf16: bool = False) -> Iterator[None]:
    """No gradients, the fastest matrix products of the device, and bfloat16 for them if asked for.

    Args:
        device: Where the model is.
        bf16: Whether to compute in bfloat16 where that costs little accuracy (autocast). The weights stay as they are.

    Raises:
        ValueError: If the GPU has no bfloat16.
    """
    if bf16 and device.type == "cuda" and not torch.cuda.is_bf16_supported(including_emulation=False):
        raise ValueError("bf16=True, but this GPU has no bfloat16: load the model with dtype='float16' instead.")
    autocast = torch.autocast(device.type, torch.bfloat16) if bf16 else contextlib.nullcontext()
    products = OneDNNLinear() if not bf16 and is_worthwhile(device) else contextlib.nullcontext()
    with torch.inference_mode(), autocast, products:
        yield
