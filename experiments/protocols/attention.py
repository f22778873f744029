"""attention: which words an encoder looks at, by the last layer's attention from the first token (SimLTE, figure 3)."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from tqdm.auto import tqdm
from transformers import PreTrainedModel
from transformers.utils import ModelOutput

from docsplit_hf.encoding.backends.precision import inference_mode
from docsplit_hf.encoding.chunking import ChunkSettings
from docsplit_hf.encoding.document_encoder import DocumentEncoder
from docsplit_hf.encoding.embed_chunks import inference_batches
from docsplit_hf.encoding.portable.run_encoder import attention_implementation, run_encoder
from docsplit_hf.evaluation.systems import System
from docsplit_hf.reading.characters import replace_lone_surrogates
from docsplit_hf.reading.text_warnings import read_fractions, warn_of_cut_texts
from docsplit_hf.reading.tokenization import TOKENIZER_BATCH

from ..evaluation.experiment import Evaluation, Experiment, Plan, PlannedMeasurement
from ..evaluation.tasks import EvaluationTask
from ..papers_options import NO_SEED, PaperSettings
from ..systems import document_encoder
from ..taggers.load_tagger import load_tagger, tagger_settings
from ..taggers.parts_of_speech import GROUPS, Tagger, Word
from .jackknife import ratio_without_each, with_intervals

logger = logging.getLogger(__name__)

TOKENS_PER_BATCH = 2048  # the weights of all layers and heads: 600 MB for BERT base with rows of 512 tokens


def attention_by_part_of_speech(
    encoder: DocumentEncoder, texts: Sequence[str], tagger: Tagger, max_length: int
) -> dict[str, float]:
    """Mean attention from the first token to nouns, verbs, adjectives and other words.

    As in appendix C: the last layer's weights from the first token to all others, averaged over the heads; then the
    mean over all nouns of all texts, over all verbs, and so on. A group without words has no metric. The weight of a
    word is the mean over its tokens. The paper leaves this open; a sum would favor words that the tokenizer splits into
    many tokens. Weights are not rescaled: the attention to special tokens, punctuation and the first token itself is in
    no mean. The first token of Longformer attends globally, as when it embeds. Memory grows with ``max_length``
    squared.
    """
    _check(encoder)
    tokenized = _tokenize(encoder, texts, min(max_length, encoder.max_length))
    weights = _first_token_weights(encoder, tokenized.rows)
    sums = np.zeros((len(GROUPS), len(texts)))  # by group and document
    counts = np.zeros((len(GROUPS), len(texts)))
    unseen = 0
    for number, words in enumerate(tagger.tag(tokenized.texts)):
        found = word_weights(words, tokenized.spans[number], weights[number])
        known = ~np.isnan(found)
        unseen += int((~known).sum())
        groups = np.array([GROUPS.index(word.group) for word in words], dtype=np.int64)[known]
        sums[:, number] = np.bincount(groups, found[known], len(GROUPS))
        counts[:, number] = np.bincount(groups, minlength=len(GROUPS))
    seen = int(counts.sum())
    if not seen:
        raise ValueError(
            f"None of {len(texts)} texts has a word that {type(encoder.model).__name__} reads: give others."
        )
    present = {group: i for i, group in enumerate(GROUPS) if counts[i].any()}
    missing = [group for group in GROUPS if group not in present]
    if unseen or missing:
        logger.warning(
            "Attention: %d of %d words have no token and are left out; groups without a word: %s.",
            unseen,
            unseen + seen,
            ", ".join(missing) or "none",
        )
    means = {group: float(sums[i].sum() / counts[i].sum()) for group, i in present.items()}
    return with_intervals(means, {group: ratio_without_each(sums[i], counts[i]) for group, i in present.items()})


def word_weights(words: Sequence[Word], spans: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The mean weight of the tokens that overlap each word, float64 ``(W,)``; NaN for a word without tokens.

    ``spans``: the first character of each of T tokens and the one after its last, ``(T, 2)``.
    """
    word_starts = np.array([word.start for word in words], dtype=np.int64)[:, None]
    word_ends = np.array([word.end for word in words], dtype=np.int64)[:, None]
    starts, ends = spans.T
    overlaps = (starts < word_ends) & (ends > word_starts) & (starts < ends)
    tokens = overlaps.sum(axis=1)
    return np.where(tokens > 0, overlaps @ weights.astype(np.float64) / np.maximum(tokens, 1), np.nan)


def _check(encoder: DocumentEncoder) -> None:
    name = type(encoder.tokenizer).__name__
    if not encoder.tokenizer.is_fast:
        raise ValueError(
            f"{name} does not say which characters of the text a token stands for, as only fast tokenizers do: load it "
            "with AutoTokenizer.from_pretrained(name), or leave this model out of the attention experiment."
        )
    if not encoder.chunk_settings.prefix:
        raise ValueError(f"{name} puts no token before a text: leave this model out of the attention experiment.")


class _Tokenized(NamedTuple):
    """Truncated texts, the character spans of their tokens, and the model's input."""

    texts: list[str]
    spans: list[np.ndarray]  # int64 (T, 2) of each text
    rows: list[dict[str, np.ndarray]]


def _tokenize(encoder: DocumentEncoder, texts: Sequence[str], max_length: int) -> _Tokenized:
    """Tokenize and truncate the texts."""
    chunk_settings = ChunkSettings.of(encoder.tokenizer, max_length)
    tokenized = _Tokenized(texts=[], spans=[], rows=[])
    lengths = []
    for start in range(0, len(texts), TOKENIZER_BATCH):
        batch = [replace_lone_surrogates(text) for text in texts[start : start + TOKENIZER_BATCH]]
        encoding = encoder.tokenizer(
            batch,
            verbose=False,
            add_special_tokens=False,
            return_attention_mask=False,
            return_offsets_mapping=True,
        )
        for text, ids, offsets in zip(batch, encoding["input_ids"], encoding["offset_mapping"], strict=True):
            lengths.append(len(ids))
            spans = np.array(offsets[: chunk_settings.max_text_tokens], dtype=np.int64).reshape(-1, 2)
            tokenized.spans.append(spans)
            # The tagger skips what the encoder truncates; the last word that it reads may be incomplete.
            tokenized.texts.append(text[: spans[:, 1].max()] if len(ids) > chunk_settings.max_text_tokens else text)
            kept = np.array(ids[: chunk_settings.max_text_tokens], dtype=np.int32)
            [input_ids] = chunk_settings.with_special_tokens([kept])
            tokenized.rows.append({"input_ids": input_ids})
    warn_of_cut_texts(lengths, read_fractions(lengths, chunk_settings.max_text_tokens), max_length)
    return tokenized


def _first_token_weights(encoder: DocumentEncoder, rows: list[dict[str, np.ndarray]]) -> list[np.ndarray]:
    """The last layer's attention from the first token to the text's tokens, mean over heads, one array per row."""
    weights: list[np.ndarray] = [np.empty(0)] * len(rows)
    prefix = len(encoder.chunk_settings.prefix)
    suffix = len(encoder.chunk_settings.suffix)
    device = encoder.model.device
    name = type(encoder.model).__name__
    progress = tqdm(total=len(rows), desc="Embedding", unit="text")
    with inference_mode(device), _eager_attention(encoder.model), progress:
        for numbers, batch in inference_batches(rows, encoder.tokenizer, device, TOKENS_PER_BATCH):
            batch = {name: tensor.to(device) for name, tensor in batch.items()}
            output = run_encoder(encoder.model, **batch, output_attentions=True)
            heads = _from_first_token(output, batch["input_ids"].shape[1], name)
            for number, row in zip(numbers, heads.float().mean(1).cpu().numpy(), strict=True):
                weights[number] = row[prefix : len(rows[number]["input_ids"]) - suffix]
                if not np.isfinite(weights[number]).all():
                    raise ValueError(f"{name} gives NaN as attention weights of text {number}: it has broken.")
            progress.update(len(numbers))
    return weights


def _from_first_token(output: ModelOutput, length: int, name: str) -> torch.Tensor:
    """The last layer's attention weights from the first token, ``(B, heads, L)``."""
    # Longformer keeps the weights of tokens with global attention apart: (B, heads, L, tokens with global attention).
    if getattr(output, "global_attentions", None):
        return output.global_attentions[-1][:, :, :length, 0]
    last = (getattr(output, "attentions", None) or [None])[-1]
    if last is None or last.ndim != 4 or min(last.shape[2:]) < length:
        raise ValueError(
            f"{name} gives {'no attention weights' if last is None else f'weights of shape {tuple(last.shape)}'}, not "
            "one for each head and pair of tokens: leave this model out of the attention experiment."
        )
    return last[:, :, 0, :length]


@contextlib.contextmanager
def _eager_attention(model: PreTrainedModel) -> Iterator[None]:
    """Use eager attention, the only implementation that returns weights, and restore the model's own afterwards."""
    own = attention_implementation(model)
    if own != "eager":
        model.set_attn_implementation("eager")
    try:
        yield
    finally:
        if own != "eager":
            model.set_attn_implementation(own)


def _refuses(system: System) -> str | None:
    return "whose weights are here" if document_encoder(system) is None else None


def _plan(task: EvaluationTask, settings: PaperSettings) -> Plan:
    chosen = tagger_settings(settings.tagger) | {"max_length": settings.max_length}
    return [PlannedMeasurement("attention", chosen, NO_SEED, _measure)], []


def _measure(evaluation: Evaluation, settings: Mapping[str, Any], seed: int) -> dict[str, float]:
    encoder = document_encoder(evaluation.system)
    tagger = load_tagger(settings["tagger"])
    return attention_by_part_of_speech(encoder, evaluation.task.texts, tagger, settings["max_length"])


ATTENTION = Experiment("what the first token looks at, by part of speech", None, _plan, _refuses)
