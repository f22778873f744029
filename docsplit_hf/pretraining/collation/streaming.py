"""RepeatedStream: a streaming data set that starts over when it ends, and says which pass it is in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from datasets import IterableDataset


EPOCH_KEY = "docsplit_epoch"  # not "epoch": data sets of news have such columns of their own


class RepeatedStream(torch.utils.data.IterableDataset):
    """Reads a stream again and again; each document carries the number of the pass under ``EPOCH_KEY``.

    The Trainer cannot tell how many batches a stream holds, so it restarts an exhausted stream by itself, and a run
    that is resumed after the first pass would start at the wrong document. An endless stream is one epoch to the
    Trainer: resuming skips to the right document of the right pass, and the collator makes new views in every pass.

    Shuffled streams are shuffled anew in each pass. An empty stream is a ``ValueError`` when it is read.
    """

    def __init__(self, dataset: IterableDataset) -> None:
        super().__init__()
        self.dataset = dataset

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
                    "The streaming data set yields no documents: none is left after holding out and segmentation."
                )
            epoch += 1
