"""Reader: what turns texts into embeddings and logits, wherever that is computed."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ...text.tokenization import check_texts
from ..checkpoints.checkpoint import load_tokenizer
from ..checkpoints.fingerprint import PROBE_LENGTH, PROBE_TEXTS, make_probe
from ..portable.modeling_knn_classifier import KNNClassifier
from ..portable.run_encoder import check_max_length, max_positions, use_packing
from .backend import BFloat16, use_backend
from .embed_chunks import ChunkAverages, PassagesOfTexts, Run, embed_chunks
from .endpoint import EndpointClassifier
from .long_documents import SEVERAL_VECTORS, SINGLE_CHUNK, Frame, Passages, Piece, read_chunks, read_pair_chunks
from .text_warnings import log_at_end, unlogged, warn_of_unfamiliar_texts

logger = logging.getLogger(__name__)

NO_LIMIT = 1_000_000  # tokens; the maximum length of some tokenizers is too large for their own backend


class Predictions(NamedTuple):
    """The output of a ``KNNClassifier`` for N texts, in their order."""

    logits: np.ndarray  # float32 (N, C); C is 0 without a classification head
    retrieval_embeddings: np.ndarray  # float32 (N, R)
    shares: np.ndarray | None = None  # float64 (N,): how much of each text was read; about, of very long ones
    passages: Passages | None = None  # where texts have several embeddings, and any of these texts has


@dataclass(frozen=True)
class Reader:
    """A classifier with its tokenizer, and how it reads, None as the model says: ``Reader.of`` makes the right one."""

    model: KNNClassifier
    tokenizer: PreTrainedTokenizerBase | None
    max_length: int | None = None
    max_tokens_per_batch: int | None = None
    batch_size: int | None = None
    bf16: BFloat16 = None
    long_documents: str | None = None
    max_passages: int | None = None
    show_progress: bool = False
    progress_delay: float = 0.0  # seconds before the bar appears

    is_here = True  # the model runs in this process, and says what it reads

    @staticmethod
    def of(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase | None = None, **options: Any) -> Reader:
        """The reader for a model, by its own tokenizer if none is given; ``options`` are the fields."""
        if isinstance(model, EndpointClassifier):
            return EndpointReader(model, None, **options)
        return Reader(model, _own_tokenizer(model) if tokenizer is None else tokenizer, **options)

    def with_options(self, **options: Any) -> Reader:
        """The same with other fields."""
        return replace(self, **options)

    @property
    def length(self) -> int | None:
        """The longest input in tokens: as many as the configuration says, or as the encoder has positions."""
        own = self.model.config.max_length or max_positions(self.model.encoder) or self.tokenizer.model_max_length
        return self.max_length or min(own, NO_LIMIT)

    def run_by(self, packing: str | None = None, *backend: Any) -> None:
        """Set how the encoder is computed: with packing or not, and as ``use_backend`` takes it; None: no change."""
        if packing is not None:
            use_packing(self.model, packing)
        use_backend(self.model.encoder, self.tokenizer, self.model.config.pooling, *backend)

    def check(self) -> None:
        """Refuse settings for long texts that do not fit the model."""
        config, most = self.model.config, replace(self, max_length=None).length
        strategy = self.long_documents or config.long_documents
        if strategy == "late" and {config.pooling, config.retrieval_pooling or config.pooling} != {"mean"}:
            raise ValueError(f"Late chunking is for mean pooling, and this is {config.pooling!r}: take 'passages'.")
        length = config.passage_length
        if length is not None and length > most:
            raise ValueError(f"passage_length={length} is more than the {most} tokens that the model reads.")

    def probe(self) -> np.ndarray:
        """By what a datastore knows the encoder: its retrieval embeddings of a few fixed texts, float32 ``(3, R)``.

        They are computed by torch, and of an encoder that runs in int8 again in int8, ``(6, R)``.
        """
        fixed = Reader(self.model, self.tokenizer, PROBE_LENGTH, bf16=False, long_documents="first")
        with unlogged():
            return make_probe(self.model.encoder, lambda texts: fixed.read(texts).retrieval_embeddings)

    def read(self, texts: Sequence[str], text_pairs: Sequence[str | None] | None = None) -> Predictions:
        """Logits and retrieval embeddings of N texts, or of pairs, in their order; a pair of None is a text alone."""
        model, config = self.model, self.model.config
        check_texts(texts)
        text_pairs = [None] * len(texts) if text_pairs is None else list(text_pairs)
        check_texts([pair for pair in text_pairs if pair is not None], "Text pair")
        if len(text_pairs) != len(texts):
            raise ValueError(f"{len(texts)} texts and {len(text_pairs)} text pairs: give one pair for each text.")
        texts = list(texts)  # a Series is read by its index
        log_at_end(_log_empty, (), np.array([sum(not text.strip() for text in texts), len(texts)]))
        warn_of_unfamiliar_texts(texts, self.tokenizer)
        self.check()
        model.eval()
        strategy = self.long_documents or config.long_documents
        sizes = config.retrieval_size, config.num_labels
        embeddings = ChunkAverages(len(texts), sizes[0], strategy)
        logits = ChunkAverages(len(texts), sizes[1], strategy, are_embeddings=False)
        passages, shares = PassagesOfTexts(len(texts), sizes[0]), np.ones(len(texts))
        name = f"{type(model).__name__} {config.name_or_path}".rstrip()

        def pool_states(states: torch.Tensor, mask: torch.Tensor, _: int) -> tuple[torch.Tensor, torch.Tensor]:
            output = model.read_states(states, mask)
            return output.retrieval_embeddings, output.logits

        unit = "text" if strategy in SINGLE_CHUNK else "piece"
        run = Run(
            unit,
            max_tokens=self.max_tokens_per_batch,
            max_chunks=self.batch_size,
            bf16=self.bf16,
            show_progress=self.show_progress,
            delay=self.progress_delay,
            max_passages=self.max_passages,
        )
        is_paired = any(pair is not None for pair in text_pairs)
        frame = Frame.of(self.tokenizer, check_max_length(self.length, model.encoder), is_paired=is_paired)
        pieces = self._pieces(texts, text_pairs, frame, strategy)
        for group, (found, said) in embed_chunks(model, name, frame, texts, pieces, run, sizes, pool_states):
            embeddings.add(group, found)
            logits.add(group, said)
            shares[[piece.text for piece in group]] = [piece.share for piece in group]
            if strategy in SEVERAL_VECTORS:
                passages.add(group, found)
        several = passages.all()
        has_several = (several.counts > 1).any()
        return Predictions(logits.all().numpy(), embeddings.all().numpy(), shares, several if has_several else None)

    def _pieces(self, texts: list[str], text_pairs: list[str | None], frame: Frame, strategy: str) -> Iterator[Piece]:
        """The pieces of texts, or of pairs of texts."""
        if all(pair is None for pair in text_pairs):
            passage_length = self.model.config.passage_length
            length = passage_length and min(passage_length, frame.max_length)
            return read_chunks(texts, frame, strategy, length, self.max_passages)
        if self.max_passages is not None:
            raise ValueError(f"max_passages={self.max_passages!r} is for texts alone: leave it out for pairs.")
        if strategy not in ("first", "whole"):
            raise ValueError(f"long_documents={strategy!r} is for texts alone: for pairs take 'first' or 'whole'.")
        return read_pair_chunks(texts, text_pairs, frame)


class EndpointReader(Reader):
    """An endpoint, which reads texts as it does: how much of a long one, nobody here knows."""

    is_here = False
    length = None

    def run_by(self, packing: str | None = None, *given: Any) -> None:
        """Refused but for packing, which an endpoint has no use for."""
        if any(value is not None for value in given):
            raise ValueError("backend, precision and calibration_texts do not reach an endpoint: leave them out.")

    def check(self) -> None:
        """Refuse what does not reach the endpoint."""
        options = ("max_length", "max_tokens_per_batch", "bf16", "long_documents", "passage_length", "max_passages")
        for name in options:
            value = getattr(self, name, None) or getattr(self.model.config, name, None)
            if value not in (None, False, "first"):
                raise ValueError(
                    f"{name}={value!r} does not reach {self.model.endpoint!r}, which reads texts as it does: leave it "
                    "out. 'https://HOST/v1#MODEL#max_characters=N' sends no more than N characters of a text."
                )

    def probe(self) -> np.ndarray:
        """The fingerprint of the encoder: its embeddings of a few fixed texts, float32 ``(3, R)``."""
        return EndpointReader(self.model, None).read(PROBE_TEXTS).retrieval_embeddings

    def read(self, texts: Sequence[str], text_pairs: Sequence[str | None] | None = None) -> Predictions:
        """Embeddings of N texts, of norm 1, without logits."""
        if any(pair is not None for pair in text_pairs or ()):
            raise ValueError(f"{self.model.endpoint!r} embeds no pairs: join the two texts of a pair into one.")
        self.check()
        embeddings = self.model.endpoint.encode(texts, show_progress=self.show_progress, batch_size=self.batch_size)
        return Predictions(np.empty((len(embeddings), 0), dtype=np.float32), embeddings)


def _log_empty(counts: np.ndarray, _: str) -> None:
    empty, texts = counts.tolist()
    if empty:
        logger.warning("%d of %d texts are empty: what is said of them is a guess.", empty, texts)


def _own_tokenizer(model: PreTrainedModel) -> PreTrainedTokenizerBase:
    """Ask once more for the tokenizer that transformers did not find, for its reason."""
    name = model.config.name_or_path
    if not name:
        raise ValueError("The pipeline needs a tokenizer: pass tokenizer=AutoTokenizer.from_pretrained(...).")
    return load_tokenizer(name, getattr(model, "loaded_revision", None))
