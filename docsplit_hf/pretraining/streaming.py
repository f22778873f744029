"""RepeatedStream: what one process reads of a stream, again and again, and in which pass."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from datasets import IterableDataset

logger = logging.getLogger(__name__)

EPOCH_KEY = "docsplit_epoch"  # not "epoch": data sets of news have such columns of their own


class RepeatedStream(torch.utils.data.IterableDataset):
    """Reads a stream again and again; each document carries the number of the pass under ``EPOCH_KEY``.

    The Trainer would restart an exhausted stream by itself, and a run that is resumed after the first pass would start
    at the wrong document. An endless stream is one epoch to it: resuming skips to the right document of the right pass.
    Shuffled streams are shuffled anew in each pass. Each process reads its ``process_share``.
    """

    def __init__(self, dataset: IterableDataset, process_index: int = 0, process_count: int = 1) -> None:
        super().__init__()
        self.dataset = process_share(dataset, process_index, process_count)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        worker = torch.utils.data.get_worker_info()
        epoch = 0
        while True:
            self.dataset.set_epoch(epoch)
            empty = True
            for document in self.dataset:
                empty = False
                yield {**document, EPOCH_KEY: epoch}
            if empty and worker is not None:
                return  # a worker beyond the number of shards has nothing to read; the others go on
            if empty:
                raise ValueError(
                    "The streaming data set yields no documents: none is left after holding out and segmentation, or "
                    "the documents are fewer than the processes that share them."
                )
            epoch += 1


def process_share(dataset: IterableDataset, process_index: int, process_count: int) -> IterableDataset:
    """What a process reads of a stream: its share of the shards, which a shuffled stream deals anew in each pass.

    A stream of fewer shards than processes is read whole by each, which skips the documents of the others.
    """
    from datasets.distributed import split_dataset_by_node

    if process_count == 1:
        return dataset
    shards = dataset.num_shards
    if shards < process_count:
        logger.warning(
            "The stream has %d shards for %d processes: each process reads and segments all of it, and skips the "
            "documents of the others. Give as many shards as processes: one .jsonl or .parquet file (not compressed), "
            "or a data set of several files.",
            shards,
            process_count,
        )
        return split_dataset_by_node(dataset, process_index, process_count, strategy="examples")
    return split_dataset_by_node(dataset, process_index, process_count, strategy="shards")
