"""ExportedEmbedder: embeddings and logits of texts by an exported model in ONNX Runtime."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...arrays.passages import Predictions
from ...arrays.probe import PROBE_TEXTS
from ...content_hash import sha256_of_file
from ...cores import core_count
from ...extras import install_line
from ...reading.files.finding import refuse_mistyped_path
from ...reading.text_warnings import unlogged, warn_of_unfamiliar_texts
from ...reading.tokenization import check_texts
from ...storage.classifier_folder import CONFIG
from ...storage.classifier_folder import FOLDER as DATASTORE
from ...storage.manifest import read_manifest
from ..chunk_outputs import EmbeddedChunks
from ..chunking import ChunkSettings, probe_length, read_chunks
from .description import FOLDER, GRAPH, TRUSTED, ExportedModel
from .tokenizer import FileTokenizer

if TYPE_CHECKING:
    from ..chunking import Chunk

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


class ExportedEmbedder:
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
        self._tokenizer = FileTokenizer(folder / "tokenizer.json", self.described.unk_token_id)

    def embed(self, texts: Sequence[str], text_pairs: Sequence[str | None] | None = None) -> Predictions:
        """Compute logits and retrieval embeddings of N texts, in order.

        Raises:
            TypeError: If a text is no string.
            ValueError: If a text has a second one.
        """
        if any(pair is not None for pair in text_pairs or ()):
            raise ValueError("An exported classifier reads single texts: use pipeline('docsplit-knn') for pairs.")
        check_texts(texts)
        texts = list(texts)
        warn_of_unfamiliar_texts(texts, self._tokenizer)
        described = self.described
        return self._embed(texts, described.max_length, described.long_documents, described.passage_length)

    def tokens_of(self, texts: Sequence[str]) -> list[list[int]]:
        """The tokens of texts, special tokens included."""
        return self._tokenizer(texts)["input_ids"]

    def probe(self) -> np.ndarray:
        """Embed three fixed texts, float32 ``(3, R)``, by which a datastore recognizes the encoder."""
        longest = probe_length(self._tokenizer, self.described.prompt)
        with unlogged():
            return self._embed(list(PROBE_TEXTS), longest, "first", None).retrieval_embeddings

    def _settings(self, max_length: int) -> ChunkSettings:
        described = self.described
        return ChunkSettings.of(self._tokenizer, max_length, described.prompt, described.include_prompt)

    def _embed(self, texts: list[str], max_length: int, long_documents: str, passage_length: int | None) -> Predictions:
        """Embed texts with these settings for long ones."""
        if passage_length is not None:
            passage_length = min(passage_length, max_length)
        chunks = list(read_chunks(texts, self._settings(max_length), long_documents, passage_length))
        embeddings = np.empty((len(chunks), self.described.dimension), dtype=np.float32)
        logits = np.empty((len(chunks), self.described.num_labels), dtype=np.float32)
        for batch in _batches([len(chunk.input_ids) for chunk in chunks]):
            inputs = self._inputs([chunks[number] for number in batch])
            embeddings[batch], *of_head = self._session.run(None, inputs)
            if of_head:
                logits[batch] = of_head[0]
        embedded = EmbeddedChunks(len(texts), self.described.dimension, self.described.num_labels, long_documents)
        if chunks:
            embedded.add(chunks, embeddings, logits)
        return embedded.all()

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
        return {name: values[name] for name in self.described.inputs}


def _batches(lengths: Sequence[int]) -> list[list[int]]:
    """Batch numbers of chunks, shortest first, each batch of at most ``TOKENS_AT_ONCE`` tokens with padding."""
    batches: list[list[int]] = []
    for number in np.argsort(lengths, kind="stable").tolist():
        if batches and (len(batches[-1]) + 1) * lengths[number] <= TOKENS_AT_ONCE:
            batches[-1].append(number)
        else:
            batches.append([number])
    return batches
