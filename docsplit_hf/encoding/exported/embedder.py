"""ExportedEmbedder: embeddings and logits by an exported model in ONNX Runtime; its description and its tokenizer."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ...arrays.passages import Predictions
from ...arrays.probe import PROBE_TEXTS
from ...content_hash import cache_folder, sha256_of_file
from ...cores import core_count
from ...extras import install_line
from ...reading.files.finding import refuse_mistyped_path
from ...reading.text_warnings import unlogged
from ...storage.classifier_folder import CONFIG, EXPORTED, FOLDER
from ...storage.manifest import read_manifest
from ..chunking import Chunk, probe_length
from ..text_embedder import ChunkedEmbedder, EmbeddingOptions, combine_chunks

if TYPE_CHECKING:
    from tokenizers import AddedToken, Encoding, Tokenizer

GRAPH = "model.onnx"
DESCRIPTION = "exported.json"
VERSION = 2
PRECISIONS = ("float32", "int8")
TRUSTED = "trusted_exports"  # a folder with a file for each graph that this user exported, named by its checksum
TOKENS_AT_ONCE = 4096  # of a batch, padding included


@dataclass(frozen=True)
class ExportedModel:
    """What reading texts with an exported model takes, and the checksum of its graph.

    Args:
        sha256: Of the graph.
        precision: ``"float32"`` or ``"int8"``.
        inputs: The names of the graph's inputs, among those that tokenizers make.
        dimension: Of the embeddings.
        num_labels: Of the classification head; 0 without one.
        max_length: The longest input in tokens.
        long_documents: The part of long texts to read.
        passage_length: The longest passage in tokens, or None.
        prompt: The text before each text.
        include_prompt: Whether the tokens of the prompt are pooled.
        pad_token_id: The token that fills shorter rows.
        unk_token_id: The token of unknown words, or None.
        saved_with: The SHA-256 by name of the files of weights and tokenizer that were exported.
        texts_sha256: Of the file with ids, texts and labels of the datastore.
        texts_of: The SHA-256 by role of the files of the datastore whose content this is.
    """

    sha256: str
    precision: str
    inputs: tuple[str, ...]
    dimension: int
    num_labels: int
    max_length: int
    long_documents: str
    passage_length: int | None
    prompt: str
    include_prompt: bool
    pad_token_id: int
    unk_token_id: int | None
    saved_with: dict[str, str]
    texts_sha256: str
    texts_of: dict[str, str]
    version: int = VERSION

    def write(self, folder: Path) -> None:
        """Write the description into a folder."""
        (folder / DESCRIPTION).write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> ExportedModel:
        """Read the description in a folder.

        Raises:
            ValueError: If the file is damaged, or of another version.
        """
        path = folder / DESCRIPTION
        remedy = f"Run docsplit export {folder.parent} again."
        try:
            found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            if found.get("version") != VERSION or found.keys() != {field.name for field in fields(cls)}:
                raise ValueError(f"it is of version {found.get('version')!r}, not {VERSION}")
            return cls(**found | {"inputs": tuple(found["inputs"])})
        except (ValueError, AttributeError, TypeError) as error:
            raise ValueError(f"{path} cannot be read ({error}). {remedy}") from error


def encoder_files(folder: Path) -> dict[str, str]:
    """The SHA-256 by name of a saved classifier's weights and tokenizer, as its datastore's manifest names them."""
    saved = read_manifest(folder / FOLDER)["classifier"]
    return {name: sha256 for name, sha256 in saved.items() if name != CONFIG}


class ExportedEmbedder(ChunkedEmbedder):
    """Embeds and classifies texts with the model in ``FOLDER/exported``.

    Args:
        folder: The classifier's folder.
        trust: Whether to open a graph that somebody else exported: it reaches a parser in native code.
        threads: The threads that run the graph. None: one for each core.

    Raises:
        FileNotFoundError: If there is no such folder, or no exported model in it.
        ModuleNotFoundError: If ONNX Runtime is not installed.
        ValueError: If its graph was changed, or exported by somebody else.
    """

    def __init__(self, folder: Path, trust: bool = False, threads: int | None = None) -> None:
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
        options.intra_op_num_threads = threads or core_count()
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
        embeddings = np.empty((len(chunks), self.config.dimension), dtype=np.float32)
        logits = np.empty((len(chunks), self.config.num_labels), dtype=np.float32)
        for batch in _batches([len(chunk.input_ids) for chunk in chunks], self.options.batch_size):
            inputs = self._inputs([chunks[number] for number in batch])
            embeddings[batch], *of_head = self._session.run(None, inputs)
            if of_head:
                logits[batch] = of_head[0]
        return combine_chunks(iter([(chunks, embeddings, logits)]), len(texts), self.long_documents)

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


class Tokenized(dict[str, Any]):
    """``input_ids`` and ``token_type_ids`` as in transformers, and the encodings that they are from."""

    encodings: list[Encoding]


class FileTokenizer:
    """The tokenizer in a file, without padding. It is used by one thread at a time, as it is changed to cut pairs."""

    is_fast = True
    is_bare_backend = True
    truncation_side = "right"

    def __init__(self, path: Path, unk_token_id: int | None) -> None:
        from tokenizers import Tokenizer

        self.unk_token_id = unk_token_id
        self.backend_tokenizer: Tokenizer = Tokenizer.from_file(str(path))
        self.backend_tokenizer.no_truncation()
        self.backend_tokenizer.no_padding()

    def __call__(
        self,
        texts: str | Sequence[str],
        text_pairs: str | Sequence[str] | None = None,
        add_special_tokens: bool = True,
        truncation: bool = False,
        max_length: int | None = None,
        **_: Any,
    ) -> Tokenized:
        """Tokenize texts, or pairs of texts; other options of transformers have no effect here."""
        is_single = isinstance(texts, str)
        given: list[Any] = [texts] if is_single else list(texts)
        if text_pairs is not None:
            given = list(zip(given, [text_pairs] if is_single else text_pairs, strict=True))
        if truncation and max_length is not None:
            self.backend_tokenizer.enable_truncation(max_length)
        encodings = self.backend_tokenizer.encode_batch(given, add_special_tokens=add_special_tokens)
        self.backend_tokenizer.no_truncation()
        rows = [encoding.ids for encoding in encodings]
        tokenized = Tokenized(
            input_ids=rows[0] if is_single else rows,
            token_type_ids=[encoding.type_ids for encoding in encodings],
        )
        tokenized.encodings = encodings
        return tokenized

    @property
    def added_tokens_decoder(self) -> dict[int, AddedToken]:
        """The tokens that were added to the vocabulary, by their number."""
        return self.backend_tokenizer.get_added_tokens_decoder()

    def num_special_tokens_to_add(self, pair: bool = False) -> int:
        """The number of special tokens around a text."""
        return self.backend_tokenizer.num_special_tokens_to_add(pair)
