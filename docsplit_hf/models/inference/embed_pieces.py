"""Run an encoder over chunks of texts, in batches, and combine the embeddings of each text's chunks."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import nn
from torch.nn.functional import normalize
from torch.nn.utils.rnn import pad_sequence
from tqdm.auto import tqdm
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..portable.run_encoder import is_packed, run_encoder
from .backend import BFloat16, inference_mode, is_in_bfloat16
from .long_documents import Chunk, ChunkSettings, Passages, grouped
from .time_estimate import TimeEstimate

CPU_TOKENS_PER_BATCH = 2048  # more does not stay in the caches
ACCELERATOR_TOKENS_PER_BATCH = 32_768


class Run(NamedTuple):
    """The options of a call: the limits of a batch, the precision, the progress bar. None: the default."""

    unit: str  # of the progress bar
    max_tokens: int | None = None
    max_chunks: int | None = None
    bf16: BFloat16 = None
    show_progress: bool = False
    delay: float = 0  # seconds, after which the bar is shown
    max_passages: int | None = None  # of a text


def embed_chunks(
    model: PreTrainedModel,
    name: str,
    settings: ChunkSettings,
    texts: Sequence[str],
    chunks: Iterable[Chunk],
    run: Run,
    sizes: Sequence[int],
    pool_states: Callable[[torch.Tensor, torch.Tensor, int], Sequence[torch.Tensor]],
) -> Iterator[tuple[list[Chunk], list[torch.Tensor]]]:
    """Run the encoder of a model over chunks, and pool its states: groups of chunks, and tensors ``(rows, size)``.

    ``pool_states`` gets the states ``(rows, L, H)``, a row for each embedding, their mask ``(rows, L)``, and how many
    tokens of each are a prompt. ``name``: what errors call the model.
    """
    encoder = model.base_model
    in_bf16 = is_in_bfloat16(encoder, run.bf16, encoder.device)
    reads_pairs = "token_type_ids" in inspect.signature(encoder.forward).parameters
    options = {"desc": "Embedding", "unit": run.unit, "disable": not run.show_progress, "delay": run.delay}
    time_estimate = TimeEstimate(texts, run.max_passages)
    with tqdm(total=len(texts), leave=None, **options) as progress:  # below another bar it vanishes at the end
        for group, progress.total in grouped(chunks, texts):
            time_estimate.begin(group)
            counts = [len(chunk.weights) for chunk in group]
            places = np.split(np.arange(sum(counts)), np.cumsum(counts)[:-1])
            said = [torch.empty(sum(counts), size) for size in sizes]
            rows = [{"input_ids": chunk.input_ids} for chunk in group]
            if reads_pairs and any(chunk.token_type_ids is not None for chunk in group):
                for row, chunk in zip(rows, group, strict=True):
                    types = chunk.token_type_ids
                    row["token_type_ids"] = np.zeros_like(chunk.input_ids) if types is None else types
            with inference_mode(encoder.device, in_bf16):
                limits = run.max_tokens, run.max_chunks, is_packed(encoder)
                for numbers, batch in inference_batches(rows, settings.tokenizer, encoder.device, *limits):
                    states = run_encoder(encoder, **batch).last_hidden_state
                    read = [group[number] for number in numbers]
                    owners = np.repeat([chunk.text for chunk in read], [counts[number] for number in numbers])
                    parts = _parts_of(states, batch["attention_mask"], read, settings.prompt_length)
                    rows_of_batch = np.concatenate([places[number] for number in numbers])
                    for values, found in zip(said, pool_states(*parts), strict=True):
                        refuse_broken(found, owners, texts, model, name)
                        values[rows_of_batch] = found.float().cpu()
                    progress.update(len(numbers))
                    time_estimate.add(sum(len(chunk.input_ids) for chunk in read))
            yield group, said


def inference_batches(
    rows: Sequence[dict[str, np.ndarray]],
    tokenizer: PreTrainedTokenizerBase,
    device: torch.device,
    max_tokens: int | None = None,
    max_rows: int | None = None,
    packed: bool = False,
) -> Iterator[tuple[list[int], dict[str, torch.Tensor]]]:
    """The row numbers and the tensors, ``(B, L)`` int64 on the device, of one batch after the other.

    ``rows``: what the model reads of each text, by name, int32 ``(n,)``. They are padded on the right.
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


def token_budget_batches(
    lengths: Sequence[int], max_tokens: int, max_rows: int | None = None, packed: bool = False
) -> list[list[int]]:
    """The numbers of rows of similar length, in batches of at most ``max_tokens``; a longer row has its own batch.

    The longest come first: what does not fit into memory fails at once. ``packed`` rows are not padded.
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


def refuse_broken(
    values: torch.Tensor, numbers: Sequence[int], texts: Sequence[str], model: nn.Module, name: str
) -> None:
    """Refuse NaN and infinity in ``values``, ``(B, D)``, of the texts with these ``numbers``; ``name``: the model's."""
    finite = values.isfinite().all(1)
    if finite.all():
        return
    number = numbers[int(finite.logical_not().nonzero()[0])]
    reason = (
        f"Its weights are finite, so the numbers grow too large for {next(model.parameters()).dtype}: load it with "
        'dtype="float32", and compute without bf16'
    )
    broken = next((name for name, weight in model.named_parameters() if not weight.isfinite().all()), None)
    if broken is not None:
        reason = f"Its weights are broken, in {broken}: train it again, or take another checkpoint"
    text = texts[number][:80] + "..." if len(texts[number]) > 80 else texts[number]
    raise ValueError(f"{name} gives NaN or infinity for text {number} of {len(texts)}, {text!r}. {reason}.")


class ChunkAverages:
    """The values of N texts, from those of their chunks: the average weighted by tokens, or that of the only chunk.

    Of embeddings both directions and norms are averaged, so that chunks of norm 1 give a text of norm 1. With the
    strategy ``whole`` the first chunk counts once more, as much as the average of all.
    """

    def __init__(self, texts: int, dimension: int, strategy: str, are_embeddings: bool = True) -> None:
        self._are_embeddings = are_embeddings
        self._beginnings = torch.zeros(texts, dimension) if strategy == "whole" else None
        self._sums, self._weights, self._norms = torch.zeros(texts, dimension), torch.zeros(texts), torch.zeros(texts)

    def add(self, chunks: Sequence[Chunk], values: torch.Tensor) -> None:
        """Add the values of chunks, ``(rows, D)``, a row for each embedding."""
        owners, is_only = torch.tensor([(chunk.text, chunk.is_only) for chunk in chunks for _ in chunk.weights]).T
        is_only = is_only.bool()
        weights = torch.from_numpy(np.concatenate([chunk.weights for chunk in chunks])).float()
        self._sums[owners[is_only]] = values[is_only]
        if self._beginnings is not None:
            is_first = torch.tensor([chunk.is_first and not chunk.is_only for chunk in chunks])
            self._beginnings[owners[is_first]] = values[is_first]  # each chunk has one embedding here
        owners, values, weights = owners[~is_only], values[~is_only], weights[~is_only]
        self._weights.index_add_(0, owners, weights)
        self._norms.index_add_(0, owners, values.norm(dim=1) * weights)
        self._sums.index_add_(0, owners, (normalize(values) if self._are_embeddings else values) * weights[:, None])

    def all(self) -> torch.Tensor:
        """The averages, float32 ``(N, D)``."""
        averaged, values = self._weights > 0, self._sums.clone()
        sums, weights = values[averaged], self._weights[averaged, None]
        first = None if self._beginnings is None else self._beginnings[averaged]
        if self._are_embeddings:
            directions = normalize(sums) if first is None else normalize(normalize(sums) + normalize(first))
            values[averaged] = directions * self._norms[averaged, None] / weights
        else:
            values[averaged] = sums / weights if first is None else (sums / weights + first) / 2
        return values


class PassagesOfTexts:
    """Collects the passages of N texts, chunk by chunk."""

    def __init__(self, texts: int, dimension: int) -> None:
        self._counts = np.zeros(texts, dtype=np.int64)
        self._embeddings = [np.empty((0, dimension), dtype=np.float32)]
        self._spans = [np.empty((0, 2), dtype=np.int64)]

    def add(self, chunks: Sequence[Chunk], embeddings: torch.Tensor) -> None:
        """Add the values of chunks, ``(rows, D)``, a row for each embedding."""
        self._embeddings.append(embeddings.numpy())
        for chunk in chunks:
            self._counts[chunk.text] += len(chunk.spans)
            self._spans.append(chunk.spans)

    def all(self) -> Passages:
        """All of them."""
        return Passages(np.concatenate(self._embeddings), self._counts, np.concatenate(self._spans))


def _parts_of(
    states: torch.Tensor, attention_mask: torch.Tensor, chunks: Sequence[Chunk], prompt_length: int
) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Hidden states and mask of each embedding, and the length of the prompt in them."""
    if all(chunk.parts is None for chunk in chunks):
        return states, attention_mask, prompt_length
    rows = []
    for row, chunk in zip(states, chunks, strict=True):
        length = len(chunk.input_ids)
        whole = [(min(prompt_length, length - 1), length)]
        rows += [row[start:end] for start, end in (whole if chunk.parts is None else chunk.parts[:, :2].tolist())]
    masks = [torch.ones(len(row), dtype=attention_mask.dtype, device=states.device) for row in rows]
    return pad_sequence(rows, True), pad_sequence(masks, True), 0
