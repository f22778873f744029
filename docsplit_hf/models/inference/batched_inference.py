"""Running a KNNClassifier over many texts: in batches of similar length, in the order of the texts."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from tqdm.auto import tqdm

from ...text.lone_surrogates import replace_lone_surrogates
from ...text.windows import input_beginnings
from ..portable.packing import is_packed
from ..portable.positions import check_max_length, max_positions
from ..special_tokens import special_tokens_around
from .backend import use_backend
from .batching import check_texts, inference_batches, inference_mode, refuse_broken, tokenizer_batches
from .bfloat16 import BFloat16, is_in_bfloat16
from .endpoint_classifier import EndpointClassifier
from .long_documents.cut_pieces import ADVICE
from .long_documents.cut_texts import log_at_end, warn_of_cut_texts
from .long_documents.pieces import Frame, grouped
from .long_documents.strategies import ONE_PIECE, SEVERAL_VECTORS, read_pieces
from .piece_embeddings import PassagesOfTexts, PieceAverages, read_in_batches
from .unfamiliar_texts import warn_of_unfamiliar_texts

if TYPE_CHECKING:
    from tokenizers import Encoding
    from transformers import PreTrainedTokenizerBase

    from ..portable.modeling_knn_classifier import KNNClassifier, KNNClassifierOutput
    from .passages import Passages

logger = logging.getLogger(__name__)

NO_LIMIT = 1_000_000  # tokens; the maximum length of some tokenizers is too large for their own backend


class Predictions(NamedTuple):
    """What a ``KNNClassifier`` says of N texts, in their order."""

    logits: np.ndarray  # float32 (N, C); C is 0 without a classification head
    retrieval_embeddings: np.ndarray  # float32 (N, R)
    shares: np.ndarray | None = None  # float64 (N,): how much of each text was read; about, of very long ones
    passages: Passages | None = None  # where texts have several embeddings, and any of these texts has


def input_length(model: KNNClassifier, tokenizer: PreTrainedTokenizerBase) -> int:
    """The longest input in tokens: the configuration's, or as many as the encoder has positions."""
    own = model.config.max_length or max_positions(model.encoder) or tokenizer.model_max_length
    return min(own, NO_LIMIT)


def check_reading(model: KNNClassifier, tokenizer: PreTrainedTokenizerBase, strategy: str) -> None:
    """Refuse a way to read long texts that the model has no positions or no pooling for."""
    config, most = model.config, input_length(model, tokenizer)
    if strategy == "late" and {config.pooling, config.retrieval_pooling or config.pooling} != {"mean"}:
        raise ValueError(f"Late chunking is for mean pooling, and the pooling is {config.pooling!r}: take 'passages'.")
    if config.passage_length is not None and config.passage_length > most:
        raise ValueError(f"passage_length={config.passage_length} is more than the {most} tokens that the model reads.")


def run_by_backend(
    model: KNNClassifier,
    tokenizer: PreTrainedTokenizerBase | None,
    backend: str | None,
    precision: str | None,
    calibration_texts: Sequence[str] | None,
) -> None:
    """Have a classifier's encoder computed as ``use_backend`` says."""
    given = backend, precision, calibration_texts
    if not isinstance(model, EndpointClassifier):
        use_backend(model.encoder, tokenizer, model.config.pooling, *given)
    elif any(value is not None for value in given):
        raise ValueError("backend, precision and calibration_texts do not reach an endpoint, which embeds elsewhere.")


def predict(
    model: KNNClassifier,
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[str],
    text_pairs: Sequence[str | None] | None = None,
    max_length: int | None = None,
    max_tokens_per_batch: int | None = None,
    batch_size: int | None = None,
    bf16: BFloat16 = None,
    show_progress: bool = False,
    log_cut: bool = True,
    long_documents: str | None = None,
) -> Predictions:
    """Logits and retrieval embeddings of N texts, or of pairs of texts, in their order.

    A text pair of None stands for a text alone. None for ``long_documents``: as the configuration says; for
    ``max_tokens_per_batch``: 2,048 on a CPU, 32,768 elsewhere.
    Of a text of more than 65,536 characters, no more is tokenized than is read, if its tokenizer allows it. In a pair,
    where the one with more tokens is cut first, the tokens of two long texts are counted.
    """
    if isinstance(model, EndpointClassifier):
        limits = {"max_length": max_length, "max_tokens_per_batch": max_tokens_per_batch, "bf16": bf16}
        embeddings = model.embed(texts, text_pairs, batch_size, show_progress, long_documents=long_documents, **limits)
        return Predictions(np.empty((len(embeddings), 0), dtype=np.float32), embeddings)
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
    log_at_end(_log_empty, (), np.array([sum(not text.strip() for text in texts), len(texts)]))
    if log_cut:
        warn_of_unfamiliar_texts(texts, tokenizer)
    strategy, limits = long_documents or model.config.long_documents, (max_tokens_per_batch, batch_size)
    check_reading(model, tokenizer, strategy)
    model.eval()
    unit = "text" if strategy in ONE_PIECE else "piece"
    bar = tqdm(total=len(texts), desc="Embedding", unit=unit, disable=not show_progress)
    with inference_mode(model.device, is_in_bfloat16(model.encoder, bf16, model.device)), bar as progress:
        if strategy == "first":
            return _of_inputs(model, tokenizer, texts, text_pairs, max_length, limits, progress, log_cut)
        return _of_pieces(model, tokenizer, texts, text_pairs, max_length, strategy, limits, progress)


def _of_inputs(
    model: KNNClassifier,
    tokenizer: PreTrainedTokenizerBase,
    texts: list[str],
    text_pairs: list[str | None],
    max_length: int,
    limits: tuple[int | None, int | None],
    progress: tqdm,
    log_cut: bool,
) -> Predictions:
    """Of the beginnings of texts, or of pairs of texts."""
    valid = [[text and replace_lone_surrogates(text) for text in given] for given in (texts, text_pairs)]
    rows, shares = _tokenize(tokenizer, *valid, max_length)
    if log_cut:
        lengths = [len(text) + len(pair or "") for text, pair in zip(texts, text_pairs, strict=True)]
        is_alone = all(pair is None for pair in text_pairs)
        advice = ADVICE if is_alone else ""
        warn_of_cut_texts(lengths, shares, max_length, "characters", advice, "tokens")
    logits = np.empty((len(rows), model.config.num_labels), dtype=np.float32)
    embeddings = np.empty((len(rows), model.config.retrieval_size), dtype=np.float32)
    for numbers, batch in inference_batches(rows, tokenizer, model.device, *limits, is_packed(model.encoder)):
        output = model(**batch)
        _refuse_broken(output, numbers, texts, model)
        logits[numbers] = output.logits.float().cpu().numpy()
        embeddings[numbers] = output.retrieval_embeddings.cpu().numpy()
        progress.update(len(numbers))
    return Predictions(logits, embeddings, shares)


def _of_pieces(
    model: KNNClassifier,
    tokenizer: PreTrainedTokenizerBase,
    texts: list[str],
    text_pairs: list[str | None],
    max_length: int,
    strategy: str,
    limits: tuple[int | None, int | None],
    progress: tqdm,
) -> Predictions:
    """Of all that a strategy reads of texts; a million tokens are held at a time."""
    config = model.config
    if any(pair is not None for pair in text_pairs):
        raise ValueError(
            f"long_documents={strategy!r} is for texts alone. Pairs are read from their beginnings: make a pipeline "
            "for them without it (long_documents='first')."
        )
    frame = Frame(tokenizer, *special_tokens_around(tokenizer), max_length)
    sizes = config.retrieval_size, config.num_labels
    embeddings, logits = PieceAverages(len(texts), sizes[0]), PieceAverages(len(texts), sizes[1], are_embeddings=False)
    passages, shares = PassagesOfTexts(len(texts), sizes[0]), np.ones(len(texts))
    keeps_passages = strategy in SEVERAL_VECTORS
    passage_length = config.passage_length and min(config.passage_length, max_length)
    for group, progress.total in grouped(read_pieces(texts, frame, strategy, passage_length), texts):
        parts = sum(len(piece.weights) for piece in group)
        found, said = (torch.empty(parts, size) for size in sizes)
        for read in read_in_batches(model.encoder, tokenizer, group, limits):
            output = model.read_states(read.states, read.attention_mask)
            _refuse_broken(output, read.texts, texts, model)
            found[read.places], said[read.places] = output.retrieval_embeddings.cpu(), output.logits.float().cpu()
            progress.update(read.pieces)
        embeddings.add(group, found)
        logits.add(group, said)
        shares[[piece.text for piece in group]] = [piece.share for piece in group]
        if keeps_passages:
            passages.add(group, found)
    several = passages.all() if keeps_passages else None
    if several is not None and (several.counts == 1).all():
        several = None
    return Predictions(logits.all().numpy(), embeddings.all().numpy(), shares, several)


def _refuse_broken(
    output: KNNClassifierOutput, numbers: Sequence[int], texts: Sequence[str], model: KNNClassifier
) -> None:
    name = f"{type(model).__name__} {model.config.name_or_path}".rstrip()
    for values in (output.logits, output.retrieval_embeddings):
        refuse_broken(values, numbers, texts, model, name)


def _log_empty(counts: np.ndarray, _: str) -> None:
    empty, texts = counts.tolist()
    if empty:
        logger.warning("%d of %d texts are empty: what is said of them is a guess.", empty, texts)


def _tokenize(
    tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], text_pairs: Sequence[str | None], max_length: int
) -> tuple[list[dict[str, np.ndarray]], np.ndarray]:
    """What the model reads of each text, and which share of the text that is; about, of what is not tokenized."""
    rows, shares = [{}] * len(texts), np.ones(len(texts))
    for is_paired in (False, True):
        numbers = [i for i, pair in enumerate(text_pairs) if (pair is not None) == is_paired]
        beginnings = input_beginnings(((texts[i], text_pairs[i]) for i in numbers), max_length, tokenizer)
        inputs = ((i, text, pair) for i, (text, pair) in zip(numbers, beginnings, strict=True))
        for batch in tokenizer_batches(inputs, lambda given: len(given[1]) + len(given[2] or "")):
            batch_numbers, first, second = (list(column) for column in zip(*batch, strict=True))
            options = {"truncation": True, "max_length": max_length, "return_attention_mask": False}
            encoding = tokenizer(first, second if is_paired else None, **options)
            names = [name for name in encoding if name in ("input_ids", "token_type_ids")]
            columns = zip(batch_numbers, *(encoding[name] for name in names), strict=True)
            for place, (number, *values) in enumerate(columns):
                rows[number] = {name: np.array(v, dtype=np.int32) for name, v in zip(names, values, strict=True)}
                if encoding.encodings:
                    whole = len(texts[number]) + len(text_pairs[number] or "")
                    shares[number] = _share_read(encoding.encodings[place], whole)
                elif len(values[0]) == max_length:  # a tokenizer that is not fast does not say what it cuts off
                    shares[number] = max_length / len(tokenizer(texts[number], text_pairs[number])["input_ids"])
    return rows, shares


def _share_read(row: Encoding, whole: int) -> float:
    """Which share of the ``whole`` characters of an input is in its tokens, below 1 if anything was cut off."""
    if not row.overflowing:
        return 1.0
    ends = [0, 0]
    for sequence, (_, end) in zip(row.sequence_ids, row.offsets, strict=True):
        if sequence is not None:
            ends[sequence] = max(ends[sequence], end)
    return min(sum(ends) / whole, float(np.nextafter(1, 0)))
