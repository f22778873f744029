"""RepeatedStream: one process's part of a stream, repeated endlessly, with the epoch of each document."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from datasets import IterableDataset

    from ..reading.segmentation.segment_documents import SegmentedDocument

logger = logging.getLogger(__name__)

EPOCH_KEY = "docsplit_epoch"  # a data set may have a column "epoch"


class RepeatedStream(torch.utils.data.IterableDataset):
    """Repeat a stream endlessly; each document has its epoch under ``EPOCH_KEY``.

    The Trainer would restart an exhausted stream, and a run resumed after the first epoch would begin with the wrong
    document. To the Trainer, an endless stream is one epoch, and resuming skips to the right document. A shuffled
    stream is shuffled again in each epoch. Each process reads its own part: some of the shards, or some documents.
    """

    def __init__(self, dataset: IterableDataset, process_index: int = 0, process_count: int = 1) -> None:
        from datasets.distributed import split_dataset_by_node

        super().__init__()
        if process_count > 1:
            strategy = "shards"  # distributed again in each epoch, if they are shuffled
            if dataset.num_shards < process_count:
                strategy = "examples"
                logger.warning(
                    "The stream has %d shards for %d processes: each process reads and segments all of it, and skips "
                    "the documents of the others. Give as many shards as processes: one .jsonl or .parquet file (not "
                    "compressed), or a data set of several files.",
                    dataset.num_shards,
                    process_count,
                )
            dataset = split_dataset_by_node(dataset, process_index, process_count, strategy=strategy)
        self.dataset = dataset

    def __iter__(self) -> Iterator[SegmentedDocument]:
        worker = torch.utils.data.get_worker_info()
        epoch = 0
        while True:
            self.dataset.set_epoch(epoch)
            is_empty = True
            for document in self.dataset:
                is_empty = False
                yield {**document, EPOCH_KEY: epoch}
            if is_empty and worker is not None:
                return  # there are more workers than shards, and the other workers continue
            if is_empty:
                raise ValueError(
                    "The streaming data set yields no documents: none are left after holding out and segmentation, or "
                    "there are fewer documents than processes. Give more documents."
                )
            epoch += 1
