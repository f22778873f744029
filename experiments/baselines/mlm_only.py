"""MLMOnlyTrainer: the baseline with the masked-LM loss alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from transformers import PreTrainedModel

from docsplit_hf.pretraining.arguments import ContrastiveTrainingArguments, overridden
from docsplit_hf.pretraining.contrastive_trainer import ContrastiveTrainer
from docsplit_hf.pretraining.model import Batch, masked_views


@dataclass
class MLMOnlyArguments(ContrastiveTrainingArguments):
    """Arguments of ``MLMOnlyTrainer``: those of ``ContrastiveTrainingArguments`` that apply to it."""

    compares_batch: ClassVar[bool] = False
    compares_views: ClassVar[bool] = False

    objective: str = overridden("objective", "mlm")
    mlm_weight: float = overridden("mlm_weight", 1.0)
    projection_head: bool = overridden("projection_head", False, init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mlm_weight == 0:
            raise ValueError("objective='mlm' with mlm_weight=0 has no loss: leave mlm_weight out.")


class MLMOnlyTrainer(ContrastiveTrainer):
    """Train with the masked-LM loss alone, on the documents and steps of a contrastive run: ``objective="mlm"``.

    Only the masked copies of the views are encoded, so that a step costs half of one of DocSplit. With
    ``views="simcse_long"`` whole documents are read, each twice with different masks.
    """

    arguments_class = MLMOnlyArguments

    def training_loss(self, model: PreTrainedModel, inputs: Batch, counts: torch.Tensor) -> torch.Tensor:
        """The MLM loss of the masked views."""
        output = model(**masked_views(inputs))
        return self.log_and_scale_mlm_loss(output.mlm_loss, inputs, counts)
