"""Blocks of datatrove that split one .jsonl file over tasks, and embed a corpus of any size."""

from __future__ import annotations

import contextlib
import functools
import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from ..encoding.backends.precision import check_precision_options
from ..encoding.checkpoints.fingerprint import make_probe
from ..encoding.chunking import SINGLE_VECTOR, check_strategy, probe_length
from ..encoding.document_encoder import DocumentEncoder
from ..extras import check_extra
from ..reading.characters import replace_lone_surrogates
from ..reading.tables import lines_between
from ..reading.text_warnings import sum_up_warnings, unlogged
from ..storage.shards import DTYPES, check_settings, shard_file, shard_table, writing_shard
from ..training.base_trainer import temporarily
from ..training.markdown import public_name

check_extra("datatrove", "docsplit_hf.connectors.datatrove")

from datatrove.data import Document  # noqa: E402
from datatrove.pipeline.base import PipelineStep  # noqa: E402
from datatrove.pipeline.readers.base import BaseReader  # noqa: E402

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger(__name__)

EMBEDDING_BATCH = 1_000  # documents


class JsonlRangeReader(BaseReader):
    """Reads the lines of a ``.jsonl`` file that begin in a task's range of bytes.

    Args:
        path: The file, in UTF-8 and not compressed.
        **options: Options of datatrove's readers except ``limit`` and ``skip``, such as ``text_key``, ``id_key`` and
            ``adapter``. A row without an id gets the numbers of its task and its line as id.

    Raises:
        ValueError: If ``limit`` or ``skip`` is given: a task reads a range of bytes, and lines have no numbers.
    """

    name = "Ranges of a .jsonl file"

    def __init__(self, path: str | Path, **options: Any) -> None:
        super().__init__(**options)
        if self.limit != -1 or self.skip:
            raise ValueError(f"limit={self.limit}, skip={self.skip}: give a file with only the lines that you want.")
        self.path = str(path)

    def run(self, data: Iterator[Document] | None = None, rank: int = 0, world_size: int = 1) -> Iterator[Document]:
        """Yield the documents of a task, after those of the steps before."""
        yield from data or ()
        path = Path(self.path)
        size = path.stat().st_size
        start = size * rank // world_size
        end = size * (rank + 1) // world_size
        for number, line in enumerate(lines_between(path, start, end)):
            text = line.decode("utf-8-sig").strip()
            if not text:
                continue
            try:
                row = json.loads(text)
            except (json.JSONDecodeError, RecursionError) as error:
                raise ValueError(f"{path}: the line {text[:80]!r} is not JSON: {error}. Correct it.") from error
            if not isinstance(row, dict) or not isinstance(row.get(self.text_key) or "", str):
                raise ValueError(f"{path}: the line {text[:80]!r} has no text in {self.text_key!r}. Correct it.")
            if row.get(self.id_key) is None:
                row.pop(self.id_key, None)
            document = self.get_document_from_dict(row, path.name, f"{rank:05d}/{number}")
            if document is None:
                self.stat_update("left out, without text")
                continue
            self.update_doc_stats(document)
            yield document


class EmbedDocuments(PipelineStep):
    """Embeds the documents of each task of a pipeline into a shard, which is written completely or not at all.

    A task with a finished shard reads nothing and yields nothing. Files of a killed task are deleted by its next run.
    On a CPU a task uses one thread, so that a shard has the same bytes however many tasks run: use at least as many
    tasks as the machine has cores. ``KNNDatastore.from_shards`` reads the folder.

    Args:
        folder: The folder of the shards, on a file system that all tasks share.
        model, max_length, precision, calibration_texts: As for ``DocumentEncoder.from_pretrained``.
        long_documents: ``"first"``, ``"head_tail"``, ``"average"`` or ``"whole"``, as in ``DocumentEncoder.encode``;
            each document gets one embedding.
        dtype: Type of the embeddings on disk, ``"float16"`` or ``"float32"``.
        keep_texts: Whether the shards have the texts.
        label_key: The key of the label in a document's metadata. None: no labels.
        source: A description of the source, as JSON values; a folder that was begun with another one is refused.

    Raises:
        ValueError: If the folder was begun with another encoder, number of tasks or source, or an argument is not
            one of its choices.
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
        source: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        if dtype not in DTYPES:
            raise ValueError(f"dtype must be one of {DTYPES}, got {dtype!r}.")
        self.model = model
        self.max_length = max_length
        check_precision_options(precision, calibration_texts)
        self.precision = precision
        self.calibration_texts = None if calibration_texts is None else tuple(calibration_texts)
        self.folder = str(folder)
        self.long_documents = check_strategy(long_documents, SINGLE_VECTOR)
        self.dtype = dtype
        self.keep_texts = keep_texts
        self.label_key = label_key
        self.source = source

    def begin(self, tasks: int) -> tuple[DocumentEncoder, dict[str, Any]]:
        """Return the encoder, and the settings of all shards; refuse them if those of a shard there differ."""
        encoder, fingerprint = _load(self.model, self.max_length, self.precision, self.calibration_texts)
        described = {
            "name": public_name(encoder.model.config.name_or_path),
            "fingerprint": fingerprint,
            "pooling": encoder.pooling,
            "max_length": encoder.max_length,
            "precision": self.precision,
            "long_documents": self.long_documents,
        }
        if encoder.prompt:
            described |= {"prompt": encoder.prompt, "include_prompt": encoder.include_prompt}
        longest = min(encoder.max_length, probe_length(encoder.tokenizer, encoder.prompt))
        with temporarily(encoder, "max_length", longest), unlogged():
            # The same probe as TextEmbedder.probe of a classifier with this encoder.
            probe = make_probe(encoder.model, lambda texts: encoder.encode(texts, show_progress=False, bf16=False))
        settings = {
            "tasks": tasks,
            "dimension": encoder.dimension,
            "dtype": self.dtype,
            "encoder": described,
            "source": self.source,
            "label_key": self.label_key,
            "keep_texts": self.keep_texts,
            "probe": probe.tolist(),
        }
        check_settings(Path(self.folder), settings)
        return encoder, settings

    def run(self, data: Iterable[Document], rank: int = 0, world_size: int = 1) -> Iterator[Document]:
        """Embed the documents of a task, and pass them on."""
        folder = Path(self.folder)
        stream = iter(data)  # a pipeline may begin with a list
        threads = torch.get_num_threads()
        with contextlib.ExitStack() as stack:
            # Another number of threads may change the last bits of an embedding.
            torch.set_num_threads(1)
            stack.callback(torch.set_num_threads, threads)
            encoder, settings = self.begin(world_size)
            if shard_file(folder, rank).is_file():
                logger.info("The shard of task %d is finished already.", rank)
                return
            with writing_shard(folder, rank, settings) as shard, sum_up_warnings():
                for documents in iter(lambda: list(islice(stream, EMBEDDING_BATCH)), []):
                    with self.track_time("batch"):
                        shard.write_table(self._embed(encoder, documents))
                    yield from documents

    def _embed(self, encoder: DocumentEncoder, documents: list[Document]) -> pa.Table:
        """Embed a batch of documents, without those of white space only."""
        used = [document for document in documents if document.text.strip()]
        self.stat_update("embedded", value=len(used), unit="batch")
        self.stat_update("left out, white space only", value=len(documents) - len(used), unit="batch")
        ids = [replace_lone_surrogates(str(document.id)) for document in used]
        texts = [replace_lone_surrogates(document.text) for document in used]
        keys = encoder.encode(texts, show_progress=False, long_documents=self.long_documents)
        labels = [self._label(document) for document in used]
        return shard_table(ids, texts if self.keep_texts else [None] * len(used), labels, keys.astype(self.dtype))

    def _label(self, document: Document) -> str | None:
        """The label in a document's metadata; None without ``label_key``."""
        if self.label_key is None:
            return None
        label = document.metadata.get(self.label_key)
        if label is None:
            raise ValueError(f"The document {document.id} has no {self.label_key!r}: label all documents, or none.")
        if not isinstance(label, (str, int)):
            raise ValueError(f"The label of the document {document.id} is {label!r}: give it one label.")
        return replace_lone_surrogates(str(label))


@functools.lru_cache(maxsize=1)  # a process that runs several tasks loads it once
def _load(
    model: str | None, max_length: int | None, precision: str, calibration_texts: tuple[str, ...] | None
) -> tuple[DocumentEncoder, str]:
    """Load an encoder, and compute its fingerprint."""
    encoder = DocumentEncoder.from_pretrained(
        model, max_length=max_length, precision=precision, calibration_texts=calibration_texts
    )
    return encoder, encoder.fingerprint
