"""Masked language modeling only: the baseline that has the same data and the same budget, and no contrastive loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from transformers import PreTrainedModel

from ..arguments import ContrastiveTrainingArguments, overridden
from ..batch import model_inputs
from ..contrastive_trainer import ContrastiveTrainer


@dataclass
class MLMOnlyArguments(ContrastiveTrainingArguments):
    """Arguments of ``MLMOnlyTrainer``: those of ``ContrastiveTrainingArguments`` that apply to it.

    Raises:
        ValueError: If a value is out of its range.
    """

    compares_batch: ClassVar[bool] = False
    has_negatives: ClassVar[bool] = False
    needs_dropout: ClassVar[bool] = False

    objective: str = overridden("objective", "mlm")
    mlm_weight: float | None = overridden("mlm_weight", 1.0)
    projection_head: bool = overridden("projection_head", False, init=False)
    matryoshka_dims: list[int] | None = overridden("matryoshka_dims", None, init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mlm_weight == 0:
            raise ValueError("objective='mlm' with mlm_weight=0 has nothing to learn: leave mlm_weight out.")


class MLMOnlyTrainer(ContrastiveTrainer):
    """Trains the masked-LM loss alone: ``objective="mlm"``.

    It reads the masked copies of the same views as a contrastive run, so that data, row lengths and the number of steps
    are equal: of ``docsplit``, every sentence of a document once per epoch. ``views="simcse_long"`` reads whole
    documents, each twice with two masks. The unmasked views are not encoded: a step costs what one of
    ``mlm_input="shared"`` does.

    It learns no embedding; what pooling makes of its hidden states is evaluated as for the others. It is made like a
    ``ContrastiveTrainer``, with ``MLMOnlyArguments``.
    """

    arguments_class = MLMOnlyArguments

    def training_loss(
        self, model: PreTrainedModel, inputs: dict[str, torch.Tensor], counts: torch.Tensor
    ) -> torch.Tensor:
        """The MLM loss of the masked views."""
        return self.mlm_share(model(**model_inputs(inputs, "shared")).mlm_loss, inputs, counts)

    @property
    def method(self) -> str:
        """How documents were trained on, for the model card."""
        return "Masked language modeling of these views was the only loss: embeddings were not trained as such."

    def describe_loss(self) -> str:
        """The loss, for the model card."""
        return "MLM"

    def count_negatives(self) -> int:
        """There are no negatives."""
        return 0
