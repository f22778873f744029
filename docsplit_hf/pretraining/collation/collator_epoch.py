"""CollatorEpoch: tells the collator the epoch, on which its halves and masks depend."""

from __future__ import annotations

from typing import TYPE_CHECKING

from transformers import TrainerCallback

if TYPE_CHECKING:
    from .collator import DataCollatorForDocSplit


class CollatorEpoch(TrainerCallback):
    """Tells the collator the epoch before the data loader's workers start on it."""

    def __init__(self, collator: DataCollatorForDocSplit) -> None:
        self.collator = collator

    def on_epoch_begin(self, args, state, control, **kwargs) -> None:
        self.collator.set_epoch(int(state.epoch or 0))
