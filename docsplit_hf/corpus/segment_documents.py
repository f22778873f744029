"""SegmentDocuments: documents into token ids and sentence lengths, as a block of datatrove."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from datatrove.data import Document
from datatrove.pipeline.base import PipelineStep
from transformers import AutoTokenizer

from ..models.checkpoints.checkpoint import find_checkpoint
from ..text.segmentation.segment_documents import SegmentAndDrop
from ..text.segmentation.sentences import get_segmenter

BATCH = 100  # documents that are tokenized together


class SegmentDocuments(PipelineStep):
    """Splits documents into sentences and tokenizes them, once for all runs of pretraining.

    Each document that is given on has ``input_ids`` and ``sentence_lengths`` among its metadata, as those of
    ``docsplit_hf.segment_documents``; datatrove's ``ParquetWriter(..., expand_metadata=True)`` writes them. What cannot
    be used is dropped, and counted in the statistics.

    Args:
        model: The encoder that is to be trained, of which the tokenizer is taken. None: the one that ships.
        segmenter, language, single_sentence: As in ``docsplit_hf.segment_documents``.

    Raises:
        ValueError: If there is no such segmenter or language.
    """

    name = "Segment"
    type = "docsplit_hf"

    def __init__(
        self, model: str | None = None, segmenter: str = "pysbd", language: str = "en", single_sentence: str = "drop"
    ) -> None:
        super().__init__()
        get_segmenter(segmenter, language)  # which refuses what it does not know, before any task is started
        self.model, self.segmenter, self.language = model, segmenter, language
        self.single_sentence = single_sentence

    def run(self, data: Iterator[Document], rank: int = 0, world_size: int = 1) -> Iterator[Document]:
        """The documents of a task that can be trained on, segmented."""
        tokenizer = AutoTokenizer.from_pretrained(find_checkpoint(self.model))
        segmenter = get_segmenter(self.segmenter, self.language)
        options = {"text_column": "text", "segmenter": segmenter, "single_sentence": self.single_sentence}
        segment = SegmentAndDrop(tokenizer=tokenizer, **options)
        for documents in iter(lambda: list(islice(data, BATCH)), []):
            with self.track_time("batch"):
                rows = segment({"text": [document.text for document in documents], "document": documents})
            self.stat_update("dropped", value=len(documents) - len(rows["document"]), unit="batch")
            columns = (rows["document"], rows["input_ids"], rows["sentence_lengths"])
            for document, input_ids, sentence_lengths in zip(*columns, strict=True):
                document.metadata |= {"input_ids": input_ids, "sentence_lengths": sentence_lengths}
                yield document
