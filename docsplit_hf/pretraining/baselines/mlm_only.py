"""Masked language modelling only: the baseline that has the same data and the same budget, and no contrastive loss."""

from __future__ import annotations

from typing import Any

import torch
from transformers import PreTrainedModel

from ..contrastive_trainer import ContrastiveTrainer


class MLMOnlyTrainer(ContrastiveTrainer):
    """Trains the masked-LM loss alone: ``objective="mlm"``.

    It reads the masked copies of the same views as a contrastive run, so that data, row lengths and the number of steps
    are equal: of ``docsplit``, every sentence of a document once an epoch. ``views="simcse_long"`` reads whole
    documents, each twice with two masks. The unmasked views are not encoded: a step costs what one of
    ``mlm_input="shared"`` does.

    It learns no embedding; what pooling makes of its hidden states is evaluated as for the others.

    Args:
        *args: As ``ContrastiveTrainer``.
        **kwargs: As ``ContrastiveTrainer``.

    Example:

        >>> from docsplit_hf.pretraining.trainers import get_trainer_class
        >>> get_trainer_class("mlm") is MLMOnlyTrainer
        True
    """

    objective = "mlm"
    method = "Masked language modelling of these views was the only loss: embeddings were not trained as such."

    def training_loss(
        self, model: PreTrainedModel, inputs: dict[str, torch.Tensor], counts: torch.Tensor
    ) -> torch.Tensor:
        """The MLM loss of the masked views.

        Args:
            model: The model, maybe wrapped.
            inputs: A batch of the collator.
            counts: As in ``ContrastiveTrainer.training_loss``.

        Returns:
            The loss, a scalar.
        """
        names: dict[str, Any] = {name: inputs[name] for name in ("attention_mask", "mlm_labels")}
        return self.mlm_share(model(input_ids=inputs["mlm_input_ids"], **names).mlm_loss, inputs, counts)

    def describe_loss(self) -> str:
        """The loss in a few words, for the model card.

        Returns:
            A line of text.
        """
        return "MLM"

    def count_negatives(self) -> int:
        """There are no negatives.

        Returns:
            0.
        """
        return 0
