"""DocumentEncoder: embed documents of any length with an encoder from a checkpoint."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..arrays.passages import Passages
from ..reading.text_warnings import warn_of_unfamiliar_texts
from ..reading.tokenization import check_texts
from ..storage.atomic_replacement import read_one_save
from .backends.precision import INT8, BFloat16, Precision, check_precision_options, precision_settings, use_precision
from .checkpoints.checkpoint import Checkpoint, find_checkpoint, load_base_model, load_tokenizer, open_checkpoint
from .checkpoints.fingerprint import encoder_fingerprint
from .checkpoints.sentence_transformers_files import choose_prompt, load_projection
from .chunking import (
    PASSAGES,
    SINGLE_VECTOR,
    Chunk,
    ChunkSettings,
    SingleVector,
    check_strategy,
    read_chunks,
)
from .compiled_layers import compile_layers
from .embed_chunks import embed_chunks
from .portable.run_encoder import check_max_length, check_pooling, max_positions, pool, use_packing
from .text_embedder import ChunkAverages, EmbeddingOptions, PassagesOfTexts

logger = logging.getLogger(__name__)

NO_PROMPT = {"instruction": None}  # in fingerprints, under the name of earlier versions: embeddings are the same


class DocumentEncoder:
    """Embeds documents with an encoder of transformers.

    Args:
        model: The encoder, without a head.
        tokenizer: Its tokenizer.
        pooling: ``"cls"``, ``"mean"``, ``"max"`` or ``"last"``.
        max_length: The longest input in tokens, special tokens included. None: the model's number of positions.
        packing: Whether the model runs without padding: ``"auto"``, if the results are the same; ``"on"``, with an
            error if they are not; or ``"off"``.
        prompt: The text that is put before each text, for example ``"query: "``.
        include_prompt: Whether the tokens of the prompt are pooled, too. INSTRUCTOR leaves them out.
        projection: Layers after the pooling, from ``(N, H)`` to ``(N, D)``, float32. None: the pooled states are the
            embeddings.

    Raises:
        ValueError: If there is no such pooling or packing, ``max_length`` is more than the model's positions, or the
            prompt leaves no room for text.

    Example:

        >>> encoder = DocumentEncoder.from_pretrained()
        >>> encoder.encode(["a small text", "text"], show_progress=False).shape
        (2, 384)
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        pooling: str = "cls",
        max_length: int | None = None,
        packing: str = "auto",
        prompt: str = "",
        include_prompt: bool = True,
        projection: nn.Module | None = None,
    ) -> None:
        self.model = model.eval()
        use_packing(model, packing)
        self.tokenizer = tokenizer
        self.pooling = check_pooling(pooling)
        if max_length is None:
            max_length = max_positions(model) or tokenizer.model_max_length
        self.max_length = check_max_length(max_length, model)
        self.prompt = prompt
        self.include_prompt = include_prompt
        _ = self.chunk_settings  # raises an error if there is no room for text
        self.projection = None if projection is None else projection.eval().to(model.device)

    @classmethod
    def from_pretrained(
        cls,
        name: str | None = None,
        pooling: str | None = None,
        max_length: int | None = None,
        device: str | torch.device | None = None,
        dtype: torch.dtype | str = "float32",
        revision: str | None = None,
        packing: str = "auto",
        prompt: str | None = None,
        prompt_name: str | None = None,
        precision: Precision = "float32",
        calibration_texts: Sequence[str] | None = None,
        compile: bool = False,
    ) -> DocumentEncoder:
        """Load an encoder from the Hub or a folder: a DocSplit checkpoint, a LoRA adapter, or any other encoder.

        Pooling, maximum length and the dense layers after the pooling are those of the checkpoint, as DocSplit or
        sentence-transformers saved them. If a checkpoint states no pooling, its authors' pooling is used where it is
        known (``"mean"`` for Contriever), or else ``"cls"``; the choice is logged. Of a model with encoder and decoder,
        such as T5, only the encoder is loaded, if transformers has a class for it.

        Args:
            name: A model on the Hub or a folder. None: the checkpoint that ships, ``"docsplit-small-en"``.
            pooling: Overrides the checkpoint's.
            max_length: Overrides the checkpoint's.
            device: Where to run. None: a GPU if there is one; in int8 the CPU.
            dtype: Type of the weights in memory, whatever type they were saved in.
            revision: The branch, tag or commit on the Hub.
            packing: As for the class.
            prompt: The text before each text, ``""`` for none. None: one of the checkpoint's prompts.
            prompt_name: The name of one of the checkpoint's prompts, such as ``"query"``. None: the one for
                classification, or else its default prompt, or none; the choice is logged.
            precision: ``"float32"``; ``"bfloat16"``, the same as ``bf16=True`` in each call; or ``"int8"``, on a CPU by
                OpenVINO (the extra ``openvino``), compiled from the current weights and cached on this machine: the
                fastest, with slightly different embeddings. The first time it takes about a minute, and the cosine to
                float32 is logged.
            calibration_texts: Some hundred texts like those to be embedded, on which int8 measures the ranges of
                numbers. None: the documentation of installed packages, which is English.
            compile: Whether to compile each layer of the encoder, at the first batch, but for int8. It pays for many
                texts on a GPU, where it takes 2 to 12 seconds; on a CPU it takes minutes. Embeddings are equal up to
                rounding.

        Returns:
            The encoder.

        Raises:
            ValueError: If ``compile`` is given for int8 or for an encoder without layers of transformers'
                kind, the checkpoint has no prompt of that name, unsupported modules after its pooling, or code of its
                own (``trust_remote_code``), the file of its dense layers is a pickle of more than tensors, or OpenVINO
                cannot run the encoder or gives other embeddings.
            ImportError: If the extra ``openvino`` is not installed.
            OSError: If there is no model of that name.
        """
        check_precision_options(precision, calibration_texts)
        if compile and precision == INT8:
            raise ValueError("compile=True is for torch, and precision='int8' is compiled by OpenVINO: leave it out.")
        (checkpoint, model, tokenizer, projection, chosen_prompt), _ = read_one_save(
            find_checkpoint(name), lambda place: _load_parts(str(place), revision, dtype, prompt, prompt_name)
        )
        if pooling is None and checkpoint.pooling is None:
            logger.warning("%s states no pooling: taking the first token ('cls').", checkpoint.path)
        if device is None:
            is_accelerated = precision != INT8 and torch.accelerator.is_available()
            device = torch.accelerator.current_accelerator() if is_accelerated else "cpu"
        encoder = cls(
            model.to(device),
            tokenizer,
            pooling=pooling or checkpoint.pooling or "cls",
            max_length=max_length or checkpoint.max_length,
            packing=packing,
            prompt=chosen_prompt,
            include_prompt=checkpoint.include_prompt,
            projection=projection,
        )
        use_precision(model, encoder.tokenizer, encoder.pooling, precision, calibration_texts)
        if compile:
            compile_layers(model)
        return encoder

    def __repr__(self) -> str:
        prompt = f", prompt={self.prompt!r}" if self.prompt else ""
        name = self.model.config.name_or_path or type(self.model).__name__
        return f"DocumentEncoder({name!r}, pooling={self.pooling!r}, max_length={self.max_length}{prompt})"

    @property
    def dimension(self) -> int:
        """The number of dimensions of an embedding."""
        layers = [] if self.projection is None else [m for m in self.projection.modules() if isinstance(m, nn.Linear)]
        return layers[-1].out_features if layers else self.model.config.hidden_size

    @property
    def fingerprint(self) -> str:
        """64 hexadecimal digits that change with weights, tokenizer, pooling, maximum length, prompt and precision.

        It is computed from all weights at each call, so that it is correct after a training step; this takes about a
        second per gigabyte.
        """
        prompt = {"prompt": self.prompt, "include_prompt": self.include_prompt} if self.prompt else NO_PROMPT
        return encoder_fingerprint(
            self.model,
            self.tokenizer,
            self.projection,
            pooling=self.pooling,
            max_length=self.max_length,
            **prompt,
            **precision_settings(self.model),
        )

    def encode(
        self,
        texts: Sequence[str],
        batch_size: int | None = None,
        show_progress: bool = True,
        normalize: bool = True,
        long_documents: SingleVector = "first",
        max_tokens_per_batch: int | None = None,
        bf16: BFloat16 = None,
        truncate_dim: int | None = None,
        max_passages: int | None = None,
    ) -> np.ndarray:
        """Embed texts.

        Args:
            texts: N texts.
            batch_size: The most texts in one forward pass. None: as many as ``max_tokens_per_batch`` allows.
            show_progress: Whether to show a progress bar.
            normalize: Whether to scale embeddings to norm 1, for cosine similarity.
            long_documents: Strategy for texts longer than ``max_length``. ``"first"``: the beginning;
                ``"head_tail"``: a quarter of the tokens from the beginning and the rest from the end; with both, the
                part that is not read is logged. ``"average"``: all of the text, in passages of whole sentences, each
                after the prompt; the directions and the norms of the passages' embeddings are averaged, weighted
                by their tokens. ``"whole"``: the same, with as much weight on the first passage as on the average of
                all, since most texts begin with their topic.
            max_tokens_per_batch: The most tokens in one forward pass, padding included. None: 2,048 on a CPU; on
                a GPU of CUDA up to 131,072 where batches are not padded, if they fit into a quarter of its memory;
                32,768 elsewhere.
            bf16: Whether torch computes in bfloat16 (autocast); ``"auto"``: if the hardware has it. The cosine to the
                float32 embedding stays above 0.9999. None: the ``precision`` that the encoder was loaded with.
            truncate_dim: Number of leading dimensions to return, for encoders that were trained for it
                (Matryoshka). None: all.
            max_passages: The most passages to read of a text, with ``"average"`` and ``"whole"``; the part that is not
                read is logged. None: all.

        Returns:
            float32 of shape ``(N, D)``, in the order of the texts.

        Raises:
            TypeError: If ``texts`` is not a list of strings.
            ValueError: If there is no such strategy, a number is out of range, or the model gives NaN or infinity.
        """
        check_texts(texts)
        check_strategy(long_documents, SINGLE_VECTOR)
        size = self._embedding_size(truncate_dim)
        options = EmbeddingOptions(
            max_tokens_per_batch=max_tokens_per_batch,
            batch_size=batch_size,
            bf16=bf16,
            long_documents=long_documents,
            max_passages=max_passages,
            show_progress=show_progress,
        )
        averages = ChunkAverages(len(texts), size, long_documents)
        for chunks, chunk_embeddings in self._embed_chunks(texts, options):
            averages.add(chunks, chunk_embeddings[:, :size].numpy())
        embeddings = torch.from_numpy(averages.all())
        return (torch.nn.functional.normalize(embeddings) if normalize else embeddings).numpy()

    def encode_passages(
        self,
        texts: Sequence[str],
        batch_size: int | None = None,
        show_progress: bool = True,
        normalize: bool = True,
        passage_length: int | None = None,
        max_tokens_per_batch: int | None = None,
        bf16: BFloat16 = None,
        truncate_dim: int | None = None,
        max_passages: int | None = None,
    ) -> Passages:
        """Embed all of each text in passages of whole sentences, with one embedding for each passage.

        Args:
            texts: N texts.
            batch_size: The most passages in one forward pass. None: as many as ``max_tokens_per_batch`` allows.
            show_progress: Whether to show a progress bar.
            normalize: Whether to scale embeddings to norm 1.
            passage_length: The longest passage in tokens, special tokens included. None: ``max_length``.
            max_tokens_per_batch, bf16, truncate_dim: As for ``encode``.
            max_passages: The most passages to read of a text. None: all.

        Returns:
            ``Passages``, with ``embeddings``, float32 ``(P, D)``; ``counts``, int64 ``(N,)``, passages per text, at
            least 1; and ``spans``, int64 ``(P, 2)``, start and end of each passage in its text, in characters.

        Raises:
            TypeError: If ``texts`` is not a list of strings.
            ValueError: If a length is out of range, or the model gives NaN or infinity.

        Example:

            >>> encoder = DocumentEncoder.from_pretrained(device="cpu")
            >>> passages = encoder.encode_passages(["One. " * 30, "Two."], passage_length=50, show_progress=False)
            >>> passages.embeddings.shape, passages.counts.tolist(), passages.spans[1].tolist()
            ((3, 384), [2, 1], [120, 149])
        """
        check_texts(texts)
        size = self._embedding_size(truncate_dim)
        options = EmbeddingOptions(
            max_tokens_per_batch=max_tokens_per_batch,
            batch_size=batch_size,
            bf16=bf16,
            long_documents=PASSAGES,
            max_passages=max_passages,
            show_progress=show_progress,
        )
        passages = PassagesOfTexts(len(texts), size)
        for chunks, chunk_embeddings in self._embed_chunks(texts, options, passage_length):
            embeddings = chunk_embeddings[:, :size]
            embeddings = torch.nn.functional.normalize(embeddings) if normalize else embeddings
            passages.add(chunks, embeddings.numpy())
        return passages.all()

    @property
    def chunk_settings(self) -> ChunkSettings:
        """The settings of chunks, made at each call: ``max_length`` and ``prompt`` may have been changed."""
        return ChunkSettings.of(self.tokenizer, self.max_length, self.prompt, self.include_prompt)

    def _embedding_size(self, truncate_dim: int | None) -> int:
        """The number of dimensions that a call returns."""
        if truncate_dim is not None and not 1 <= truncate_dim <= self.dimension:
            raise ValueError(f"truncate_dim must be from 1 to {self.dimension}, got {truncate_dim}.")
        return truncate_dim or self.dimension

    def _embed_chunks(
        self, texts: Sequence[str], options: EmbeddingOptions, passage_length: int | None = None
    ) -> Iterator[tuple[list[Chunk], torch.Tensor]]:
        """Yield groups of chunks, and their embeddings, float32 ``(rows, D)``, on the CPU."""
        texts = list(texts)
        settings = self.chunk_settings
        warn_of_unfamiliar_texts(texts, self.tokenizer)

        def pool_states(states: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor]:
            pooled = pool(states, mask, self.pooling, settings.first_pooled)
            if self.projection is not None:
                pooled = self.projection(pooled.float())
            return (pooled,)

        embedded = embed_chunks(
            model=self.model,
            name=repr(self),
            tokenizer=self.tokenizer,
            texts=texts,
            chunks=read_chunks(texts, settings, options.long_documents, passage_length, options.max_passages),
            options=options,
            pool_states=pool_states,
        )
        for group, (embeddings,) in embedded:
            yield group, embeddings


def _load_parts(
    name: str, revision: str | None, dtype: torch.dtype | str, prompt: str | None, prompt_name: str | None
) -> tuple[Checkpoint, PreTrainedModel, PreTrainedTokenizerBase, nn.Module | None, str]:
    """Load the model, the tokenizer and the projection of a checkpoint, and choose its prompt."""
    checkpoint = open_checkpoint(name, revision, with_projection=True)
    if prompt is None and prompt_name is None:
        prompt = getattr(checkpoint.config, "prompt", None)  # of a saved KNNClassifier
    return (
        checkpoint,
        load_base_model(checkpoint, dtype),
        load_tokenizer(checkpoint.path, revision),
        load_projection(checkpoint.path, revision),
        choose_prompt(checkpoint.path, prompt, prompt_name, revision),
    )
