"""What a step reads of a batch of the collator: inputs of the model, counts of documents and of tokens."""

from __future__ import annotations

import torch

from ..training.statistics import RunningMeans
from .collation.masking import IGNORED_LABEL


def model_inputs(batch: dict[str, torch.Tensor], mlm_input: str | None) -> dict[str, torch.Tensor]:
    """What the model's forward is called with; for MLM, the masked views ``"separate"`` or ``"shared"``, else None."""
    chosen = {name: batch[name] for name in ("input_ids", "attention_mask")}
    if mlm_input is None:
        return chosen
    masked = "input_ids" if mlm_input == "shared" else "mlm_input_ids"
    return chosen | {masked: batch["mlm_input_ids"], "mlm_labels": batch["mlm_labels"]}


def count_targets(batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """What the losses of a batch are means over: its documents and its masked tokens, float32 of shape ``(2,)``."""
    documents = batch["document_ids"]
    masked = (batch["mlm_labels"] != IGNORED_LABEL).sum() if "mlm_labels" in batch else documents.new_zeros(())
    return torch.stack([documents.new_tensor(len(documents)), masked]).float()


class CutTokens:
    """Counts the tokens that the maximum length cuts off, over a whole run.

    ``fraction`` is for the model card: None before the first ``update``.
    """

    def __init__(self, special_tokens: int) -> None:
        self.special_tokens = special_tokens  # per view
        self.fraction: float | None = None
        self._means = RunningMeans()

    def count(self, batch: dict[str, torch.Tensor], training: bool) -> tuple[torch.Tensor, torch.Tensor]:
        """Tokens cut off and all tokens of a batch; those of training are added to those of the run."""
        total = batch["view_lengths"].sum()
        kept = batch["attention_mask"].sum() - self.special_tokens * len(batch["view_lengths"])
        if training:
            self._means.add("cut", total - kept, total)
        return total - kept, total

    def update(self) -> None:
        """Bring ``fraction`` up to date. Every process must call it."""
        self.fraction = self._means.means().get("cut")
