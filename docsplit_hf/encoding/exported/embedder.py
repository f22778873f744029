"""ExportedEmbedder: embeddings and logits of texts by an exported model in ONNX Runtime."""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from ...arrays.passages import Predictions
from ...arrays.probe import PROBE_TEXTS
from ...content_hash import sha256_of_file
from ...cores import core_count
from ...extras import install_line
from ...reading.files.finding import refuse_mistyped_path
from ...reading.text_warnings import unlogged, warn_of_unfamiliar_texts
from ...storage.classifier_folder import CONFIG
from ...storage.classifier_folder import FOLDER as DATASTORE
from ...storage.manifest import read_manifest
from ..chunk_outputs import EmbeddedChunks
from ..chunking import Chunk, ChunkSettings, probe_length, read_chunks_of
from ..text_embedder import ChunkedEmbedder, EmbeddingOptions, checked_texts_and_pairs
from .description import FOLDER, GRAPH, TRUSTED, ExportedModel
from .tokenizer import FileTokenizer

logger = logging.getLogger(__name__)

TOKENS_AT_ONCE = 4096  # of a batch, padding included


def trusted_exports() -> Path:
    """The folder that names what this user exported: ``docsplit_hf/trusted_exports`` below ``HF_HOME``."""
    from huggingface_hub import constants

    return Path(constants.HF_HOME) / "docsplit_hf" / TRUSTED


def encoder_files(folder: Path) -> dict[str, str]:
    """The SHA-256 by name of a saved classifier's weights and tokenizer, as its datastore's manifest names them."""
    saved = read_manifest(folder / DATASTORE)["classifier"]
    return {name: sha256 for name, sha256 in saved.items() if name != CONFIG}


class ExportedEmbedder(ChunkedEmbedder):
    """Embeds and classifies texts with the model in ``FOLDER/exported``.

    Args:
        folder: The classifier's folder.
        trust: Whether to open a graph that somebody else exported: it reaches a parser in native code.

    Raises:
        FileNotFoundError: If there is no such folder, or no exported model in it.
        ModuleNotFoundError: If ONNX Runtime is not installed.
        ValueError: If its graph was changed, or exported by somebody else.
    """

    is_local = True

    def __init__(self, folder: Path, trust: bool = False) -> None:
        graph = folder / FOLDER / GRAPH
        if not graph.is_file():
            refuse_mistyped_path(str(folder))
            raise FileNotFoundError(f"{folder} has no exported model: run docsplit export {folder}.")
        try:
            import onnxruntime
        except ImportError as error:
            raise ModuleNotFoundError(f"An exported classifier needs onnxruntime: {install_line('onnx')}.") from error
        self.described = ExportedModel.read(folder / FOLDER)
        if encoder_files(folder) != self.described.saved_with:
            raise ValueError(f"{folder} has another encoder than was exported: run docsplit export {folder} again.")
        sha256 = sha256_of_file(graph)
        if sha256 != self.described.sha256:
            raise ValueError(f"{graph} is not the file that was exported: run docsplit export {folder} again.")
        if not trust and not (trusted_exports() / sha256).is_file():
            raise ValueError(
                f"{graph} was exported by somebody else, and is read by a parser in native code: run docsplit export "
                f"{folder}, or pass trust=True if you trust its author."
            )
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = core_count()
        options.inter_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])
        self.options = EmbeddingOptions()
        self._tokenizer = FileTokenizer(folder / "tokenizer.json", self.described.unk_token_id)

    @property
    def max_length(self) -> int:
        """The longest input in tokens: the option, or what was exported."""
        return self.options.max_length or self.described.max_length

    @property
    def long_documents(self) -> str:
        """The strategy for long texts: the option, or what was exported."""
        return self.options.long_documents or self.described.long_documents

    def with_options(self, **changes: Any) -> Self:
        """A copy with other values of some ``EmbeddingOptions``, which shares the model.

        Raises:
            ValueError: If ``bf16`` is asked for: the precision was chosen when the model was exported.
        """
        other = copy.copy(self)
        other.options = replace(self.options, **changes)
        if other.options.bf16:
            raise ValueError(f"bf16 is for torch, and this model was exported in {self.described.precision}.")
        return other

    def embed_chunks_of(self, texts: list[str], pairs: list[str | None], chunks: Iterable[Chunk]) -> Predictions:
        """Embed all chunks of checked texts, and combine those of each text."""
        chunks = list(chunks)
        described = self.described
        embeddings = np.empty((len(chunks), described.dimension), dtype=np.float32)
        logits = np.empty((len(chunks), described.num_labels), dtype=np.float32)
        for batch in _batches([len(chunk.input_ids) for chunk in chunks], self.options.batch_size):
            inputs = self._inputs([chunks[number] for number in batch])
            embeddings[batch], *of_head = self._session.run(None, inputs)
            if of_head:
                logits[batch] = of_head[0]
        embedded = EmbeddedChunks(len(texts), described.dimension, described.num_labels, self.long_documents)
        embedded.add(chunks, embeddings, logits)
        return embedded.all()

    def tokens_of(self, texts: Sequence[str]) -> list[list[int]]:
        """The tokens of texts, special tokens included."""
        return self._tokenizer(texts)["input_ids"]

    def probe(self) -> np.ndarray:
        """Embed three fixed texts, float32 ``(3, R)``, by which a datastore recognizes the encoder."""
        longest = probe_length(self._tokenizer, self.described.prompt)
        embedder = self.with_options(max_length=longest, long_documents="first")
        with unlogged():
            return embedder.embed(PROBE_TEXTS).retrieval_embeddings

    def _checked(
        self, texts: Sequence[str], text_pairs: Sequence[str | None] | None
    ) -> tuple[list[str], list[str | None]]:
        """Check texts and pairs."""
        checked, pairs = checked_texts_and_pairs(texts, text_pairs)
        warn_of_unfamiliar_texts(checked, self._tokenizer)
        return checked, pairs

    def _chunks(self, texts: list[str], pairs: list[str | None]) -> Iterator[Chunk]:
        """The chunks of texts, or of pairs of texts."""
        described = self.described
        if self.max_length > described.max_length:
            raise ValueError(f"max_length={self.max_length} is more than the {described.max_length} of the export.")
        settings = ChunkSettings.of(
            self._tokenizer,
            self.max_length,
            prompt=described.prompt,
            include_prompt=described.include_prompt,
            is_paired=any(pair is not None for pair in pairs),
        )
        strategy = self.long_documents
        return read_chunks_of(texts, pairs, settings, strategy, described.passage_length, self.options.max_passages)

    def _inputs(self, batch: Sequence[Chunk]) -> dict[str, np.ndarray]:
        """The inputs of the graph, int64 ``(B, L)`` each, padded on the right."""
        lengths = np.array([len(chunk.input_ids) for chunk in batch])
        mask = np.arange(lengths.max()) < lengths[:, None]
        ids = np.full(mask.shape, self.described.pad_token_id, dtype=np.int64)
        ids[mask] = np.concatenate([chunk.input_ids for chunk in batch])
        values = {
            "input_ids": ids,
            "attention_mask": mask.astype(np.int64),
            "token_type_ids": np.zeros(mask.shape, dtype=np.int64),
        }
        for row, chunk in enumerate(batch):
            if chunk.token_type_ids is not None:
                values["token_type_ids"][row, : len(chunk.input_ids)] = chunk.token_type_ids
        return {name: values[name] for name in self.described.inputs}


def _batches(lengths: Sequence[int], most: int | None) -> list[list[int]]:
    """Batch numbers of chunks, shortest first, each batch of at most ``TOKENS_AT_ONCE`` tokens and ``most`` chunks."""
    batches: list[list[int]] = []
    for number in np.argsort(lengths, kind="stable").tolist():
        count = len(batches[-1]) + 1 if batches else 0
        if batches and count * lengths[number] <= TOKENS_AT_ONCE and (most is None or count <= most):
            batches[-1].append(number)
        else:
            batches.append([number])
    return batches
