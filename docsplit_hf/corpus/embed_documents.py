"""EmbedDocuments: documents into shards of embeddings, as a block of datatrove."""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from datatrove.data import Document
from datatrove.pipeline.base import PipelineStep

from ..models.inference.encoder import DocumentEncoder
from ..models.inference.long_documents.cut_texts import cut_texts_summed_up
from ..models.inference.long_documents.strategies import SINGLE_VECTOR, check_strategy
from ..models.inference.probe import PROBE_LENGTH, make_probe
from ..shards.write_shards import ShardWriter, begin_corpus, is_finished
from ..text.lone_surrogates import replace_lone_surrogates
from ..training.markdown import public_name

logger = logging.getLogger(__name__)

BATCH = 1_000  # documents that are embedded together
DTYPES = ("float16", "float32")


class EmbedDocuments(PipelineStep):
    """Embeds the documents of each task of a pipeline into a shard of ``folder``, which is there whole or not at all.

    A task whose shard is there reads nothing and gives nothing on; of one that was killed, nothing is left but what the
    next run deletes. On a CPU a task computes on one thread, so that a shard has the same bytes whatever else runs:
    take as many tasks as the machine has cores, or more. ``KNNDatastore.from_shards`` reads the folder.

    Args:
        folder: Where the shards go, on a file system that all tasks see.
        model: As ``DocumentEncoder.from_pretrained`` takes it, with ``max_length``, ``precision`` and
            ``calibration_texts``.
        long_documents: ``"first"``, ``"head_tail"`` or ``"average"``, as in ``DocumentEncoder.encode``: one vector for
            each document.
        dtype: Of the embeddings on the disk, ``"float16"`` or ``"float32"``.
        keep_texts: Whether the shards have the texts.
        label_key: Where the metadata of a document have its label. None: no labels.
        source: What is embedded, as JSON has it; a folder that was begun with another is refused.

    Raises:
        ValueError: If the folder was begun with another encoder, another number of tasks or another source, or an
            argument is none of its choices.
    """

    name = "Embed"
    type = "docsplit_hf"

    def __init__(
        self,
        folder: str | Path,
        model: str | None = None,
        max_length: int | None = None,
        long_documents: str = "first",
        precision: str = "float32",
        calibration_texts: Sequence[str] | None = None,
        dtype: str = "float16",
        keep_texts: bool = True,
        label_key: str | None = None,
        source: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        if dtype not in DTYPES:
            raise ValueError(f"dtype must be one of {DTYPES}, got {dtype!r}.")
        self.folder = str(folder)
        self.long_documents = check_strategy(long_documents, SINGLE_VECTOR)
        texts = None if calibration_texts is None else tuple(calibration_texts)
        self.encoder = model, max_length, precision, texts
        self.dtype, self.keep_texts, self.label_key, self.source = dtype, keep_texts, label_key, source

    def begin(self, tasks: int) -> DocumentEncoder:
        """Write what all shards have in common, or check it, and give the encoder."""
        encoder, fingerprint = _load(*self.encoder)
        described = {
            "name": public_name(encoder.model.config.name_or_path),
            "fingerprint": fingerprint,
            "pooling": encoder.pooling,
            "max_length": encoder.max_length,
            "precision": self.encoder[2],
            "long_documents": self.long_documents,
        }
        shared = {
            "tasks": tasks,
            "dimension": encoder.dimension,
            "dtype": self.dtype,
            "encoder": described,
            "source": self.source,
            "label_key": self.label_key,
            "keep_texts": self.keep_texts,
            "label_names": None,
            "probe": _probe(encoder).tolist(),
        }
        begin_corpus(Path(self.folder), shared)
        return encoder

    def run(self, data: Iterator[Document], rank: int = 0, world_size: int = 1) -> Iterator[Document]:
        """Embed the documents of a task, and give them on."""
        folder = Path(self.folder)
        with _one_thread():
            encoder = self.begin(world_size)
            if is_finished(folder, rank):
                logger.info("The shard of task %d is there already.", rank)
                return
            with ShardWriter(folder, rank, encoder.dimension, self.dtype) as shard, cut_texts_summed_up():
                for documents in iter(lambda: list(islice(data, BATCH)), []):
                    with self.track_time("batch"):
                        self._embed(encoder, documents, shard)
                    yield from documents

    def _embed(self, encoder: DocumentEncoder, documents: list[Document], shard: ShardWriter) -> None:
        used = [document for document in documents if document.text.strip()]
        self.stat_update("embedded", value=len(used), unit="batch")
        self.stat_update("left out, white space only", value=len(documents) - len(used), unit="batch")
        texts = [replace_lone_surrogates(document.text) for document in used]
        keys = encoder.encode(texts, show_progress=False, long_documents=self.long_documents)
        labels = [None if self.label_key is None else _label(document, self.label_key) for document in used]
        shard.add(
            [replace_lone_surrogates(str(document.id)) for document in used],
            texts if self.keep_texts else [None] * len(used),
            labels,
            keys,
        )


def _label(document: Document, key: str) -> str:
    label = document.metadata.get(key)
    if label is None:
        raise ValueError(f"The document {document.id} has no {key!r} among its metadata: label all documents, or none.")
    if not isinstance(label, (str, int)):
        raise ValueError(f"The label of the document {document.id} is {label!r}: a document of a corpus has one label.")
    return replace_lone_surrogates(str(label))


@functools.lru_cache(maxsize=1)  # a process that runs several tasks loads it once
def _load(
    model: str | None, max_length: int | None, precision: str, texts: tuple[str, ...] | None
) -> tuple[DocumentEncoder, str]:
    """An encoder, and its fingerprint."""
    options = {"backend": "openvino", "calibration_texts": texts} if precision == "int8" else {}
    encoder = DocumentEncoder.from_pretrained(model, max_length=max_length, precision=precision, **options)
    return encoder, encoder.fingerprint


def _probe(encoder: DocumentEncoder) -> Any:
    """As ``encoder_probe`` of a datastore gives it of a classifier around this encoder."""
    log = logging.getLogger("docsplit_hf")
    length, level = encoder.max_length, log.level
    encoder.max_length = min(length, PROBE_LENGTH)
    log.setLevel(logging.ERROR)  # nobody needs to know that these are cut, or foreign to the encoder
    try:
        return make_probe(encoder.model, lambda texts: encoder.encode(texts, show_progress=False, bf16=False))
    finally:
        encoder.max_length = length
        log.setLevel(level)


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Within it, torch computes on one thread: with others, the last bits of an embedding may be others."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
