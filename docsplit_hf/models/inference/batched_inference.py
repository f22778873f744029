"""Running a KNNClassifier over many texts: in batches of similar length, in the order of the texts."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from tqdm.auto import tqdm

from ...text.lone_surrogates import replace_lone_surrogates
from ...text.windows import input_beginnings
from ..portable.packing import is_packed
from ..portable.positions import check_max_length, max_positions
from .batching import check_texts, inference_batches, inference_mode, refuse_broken, tokenizer_batches
from .cut_texts import log_at_end, warn_of_cut_number
from .unfamiliar_texts import warn_of_unfamiliar_texts

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from ..portable.modeling_knn_classifier import KNNClassifier

logger = logging.getLogger(__name__)

NO_LIMIT = 1_000_000  # tokens; the maximum length of some tokenizers is too large for their own backend


class Predictions(NamedTuple):
    """What a ``KNNClassifier`` says of N texts, in their order."""

    logits: np.ndarray  # float32 (N, C); C is 0 without a classification head
    retrieval_embeddings: np.ndarray  # float32 (N, R)


def input_length(model: KNNClassifier, tokenizer: PreTrainedTokenizerBase) -> int:
    """The longest input in tokens: the configuration's, or as many as the encoder has positions."""
    own = model.config.max_length or max_positions(model.encoder) or tokenizer.model_max_length
    return min(own, NO_LIMIT)


def predict(
    model: KNNClassifier,
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[str],
    text_pairs: Sequence[str | None] | None = None,
    max_length: int | None = None,
    max_tokens_per_batch: int | None = None,
    batch_size: int | None = None,
    bf16: bool = False,
    show_progress: bool = False,
    log_cut: bool = True,
) -> Predictions:
    """Logits and retrieval embeddings of N texts, or of pairs of texts, in their order.

    A text pair of None stands for a text alone. None for ``max_tokens_per_batch``: 2,048 on a CPU, 32,768 elsewhere.
    Of a text of more than 65,536 characters, no more is tokenized than is read, if its tokenizer allows it. In a pair,
    where the one with more tokens is cut first, the tokens of two long texts are counted.
    """
    check_texts(texts)
    text_pairs = [None] * len(texts) if text_pairs is None else list(text_pairs)
    check_texts([pair for pair in text_pairs if pair is not None], "Text pair")
    if len(text_pairs) != len(texts):
        raise ValueError(f"{len(texts)} texts and {len(text_pairs)} text pairs: give one pair for each text.")
    texts = list(texts)  # a Series is read by its index
    max_length = check_max_length(max_length or input_length(model, tokenizer), model.encoder)
    special = tokenizer.num_special_tokens_to_add(pair=any(pair is not None for pair in text_pairs))
    if max_length <= special:
        raise ValueError(f"max_length={max_length} leaves no room for text beside the {special} special tokens.")
    valid = [[text and replace_lone_surrogates(text) for text in given] for given in (texts, text_pairs)]
    rows, cut = _tokenize(tokenizer, *valid, max_length)
    log_at_end(_log_empty, (), np.array([sum(not text.strip() for text in texts), len(texts)]))
    if log_cut:
        warn_of_cut_number(cut, len(texts), max_length)
        warn_of_unfamiliar_texts(texts, tokenizer)
    logits = np.empty((len(rows), model.config.num_labels), dtype=np.float32)
    embeddings = np.empty((len(rows), model.config.retrieval_size), dtype=np.float32)
    name = f"{type(model).__name__} {model.config.name_or_path}".rstrip()
    model.eval()
    bar = tqdm(total=len(rows), desc="Embedding", unit="text", disable=not show_progress)
    with inference_mode(model.device, bf16), bar as progress:
        limits = (max_tokens_per_batch, batch_size, is_packed(model.encoder))
        for numbers, batch in inference_batches(rows, tokenizer, model.device, *limits):
            output = model(**batch)
            for values in (output.logits, output.retrieval_embeddings):
                refuse_broken(values, numbers, texts, model, name)
            logits[numbers] = output.logits.float().cpu().numpy()
            embeddings[numbers] = output.retrieval_embeddings.cpu().numpy()
            progress.update(len(numbers))
    return Predictions(logits, embeddings)


def _log_empty(counts: np.ndarray, _: str) -> None:
    empty, texts = counts.tolist()
    if empty:
        logger.warning("%d of %d texts are empty: what is said of them is a guess.", empty, texts)


def _tokenize(
    tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], text_pairs: Sequence[str | None], max_length: int
) -> tuple[list[dict[str, np.ndarray]], int]:
    """What the model reads of each text, and how many texts were cut."""
    rows, cut = [{}] * len(texts), 0
    for is_paired in (False, True):
        numbers = [i for i, pair in enumerate(text_pairs) if (pair is not None) == is_paired]
        beginnings = input_beginnings(((texts[i], text_pairs[i]) for i in numbers), max_length, tokenizer)
        inputs = ((i, text, pair) for i, (text, pair) in zip(numbers, beginnings, strict=True))
        for batch in tokenizer_batches(inputs, lambda given: len(given[1]) + len(given[2] or "")):
            batch_numbers, first, second = (list(column) for column in zip(*batch, strict=True))
            options = {"truncation": True, "max_length": max_length, "return_attention_mask": False}
            encoding = tokenizer(first, second if is_paired else None, **options)
            # A tokenizer that is not fast does not say what it cut off: then a full row counts as cut.
            cut += (
                sum(bool(row.overflowing) for row in encoding.encodings)
                if encoding.encodings
                else sum(len(ids) == max_length for ids in encoding["input_ids"])
            )
            names = [name for name in encoding if name in ("input_ids", "token_type_ids")]
            for number, *values in zip(batch_numbers, *(encoding[name] for name in names), strict=True):
                rows[number] = {name: np.array(v, dtype=np.int32) for name, v in zip(names, values, strict=True)}
    return rows, cut
