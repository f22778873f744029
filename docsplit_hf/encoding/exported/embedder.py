"""ExportedEmbedder: embeddings and logits of texts by an exported model in ONNX Runtime."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from ...arrays.passages import Predictions
from ...arrays.probe import PROBE_TEXTS
from ...content_hash import cache_folder, sha256_of_file
from ...cores import core_count
from ...extras import install_line
from ...reading.files.finding import refuse_mistyped_path
from ...reading.text_warnings import unlogged
from ...storage.classifier_folder import CONFIG, EXPORTED
from ...storage.classifier_folder import FOLDER as DATASTORE
from ...storage.manifest import read_manifest
from ..chunking import Chunk, probe_length
from ..text_embedder import ChunkedEmbedder, EmbeddingOptions, combine_chunks
from .description import GRAPH, TRUSTED, ExportedModel
from .tokenizer import FileTokenizer

TOKENS_AT_ONCE = 4096  # of a batch, padding included


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

    def __init__(self, folder: Path, trust: bool = False) -> None:
        graph = folder / EXPORTED / GRAPH
        if not graph.is_file():
            refuse_mistyped_path(str(folder))
            raise FileNotFoundError(f"{folder} has no exported model: run docsplit export {folder}.")
        try:
            import onnxruntime
        except ImportError as error:
            raise ModuleNotFoundError(f"An exported classifier needs onnxruntime: {install_line('onnx')}.") from error
        self.config = ExportedModel.read(folder / EXPORTED)
        if encoder_files(folder) != self.config.saved_with:
            raise ValueError(f"{folder} has another encoder than was exported: run docsplit export {folder} again.")
        sha256 = sha256_of_file(graph)
        if sha256 != self.config.sha256:
            raise ValueError(f"{graph} is not the file that was exported: run docsplit export {folder} again.")
        if not trust and not (cache_folder(TRUSTED) / sha256).is_file():
            raise ValueError(
                f"{graph} was exported by somebody else, and is read by a parser in native code: run docsplit export "
                f"{folder}, or pass trust=True if you trust its author."
            )
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = core_count()
        options.inter_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])
        self.options = EmbeddingOptions()
        self.tokenizer = FileTokenizer(folder / "tokenizer.json", self.config.unk_token_id)

    def longest_input(self) -> int:
        """The longest input in tokens, as it was exported."""
        return self.config.max_length

    def check(self) -> None:
        """Refuse a longer input than was exported."""
        if self.max_length > self.config.max_length:
            raise ValueError(f"max_length={self.max_length} is more than the {self.config.max_length} of the export.")

    def with_options(self, **changes: Any) -> Self:
        """A copy with other values of some ``EmbeddingOptions``, which shares the model.

        Raises:
            ValueError: If ``bf16`` is asked for: the precision was chosen when the model was exported.
        """
        other = copy.copy(self)
        other.options = replace(self.options, **changes)
        if other.options.bf16:
            raise ValueError(f"bf16 is for torch, and this model was exported in {self.config.precision}.")
        return other

    def embed_chunks_of(self, texts: list[str], chunks: Iterable[Chunk]) -> Predictions:
        """Embed all chunks of checked texts, and combine those of each text."""
        chunks = list(chunks)
        config = self.config
        embeddings = np.empty((len(chunks), config.dimension), dtype=np.float32)
        logits = np.empty((len(chunks), config.num_labels), dtype=np.float32)
        for batch in _batches([len(chunk.input_ids) for chunk in chunks], self.options.batch_size):
            inputs = self._inputs([chunks[number] for number in batch])
            embeddings[batch], *of_head = self._session.run(None, inputs)
            if of_head:
                logits[batch] = of_head[0]
        outputs = [(chunks, embeddings, logits)]
        return combine_chunks(outputs, len(texts), config.dimension, config.num_labels, self.long_documents)

    def probe(self) -> np.ndarray:
        """Embed three fixed texts, float32 ``(3, R)``, by which a datastore recognizes the encoder."""
        longest = probe_length(self.tokenizer, self.config.prompt)
        embedder = self.with_options(max_length=longest, long_documents="first")
        with unlogged():
            return embedder.embed(PROBE_TEXTS).retrieval_embeddings

    def _inputs(self, batch: Sequence[Chunk]) -> dict[str, np.ndarray]:
        """The inputs of the graph, int64 ``(B, L)`` each, padded on the right."""
        lengths = np.array([len(chunk.input_ids) for chunk in batch])
        mask = np.arange(lengths.max()) < lengths[:, None]
        ids = np.full(mask.shape, self.config.pad_token_id, dtype=np.int64)
        ids[mask] = np.concatenate([chunk.input_ids for chunk in batch])
        values = {
            "input_ids": ids,
            "attention_mask": mask.astype(np.int64),
            "token_type_ids": np.zeros(mask.shape, dtype=np.int64),
        }
        for row, chunk in enumerate(batch):
            if chunk.token_type_ids is not None:
                values["token_type_ids"][row, : len(chunk.input_ids)] = chunk.token_type_ids
        return {name: values[name] for name in self.config.inputs}


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
