"""Registry of objectives, their trainers and arguments; the baseline with the masked-LM loss alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from transformers import PreTrainedModel

from .arguments import OBJECTIVES, ContrastiveTrainingArguments, overridden
from .contrastive_tension import ContrastiveTensionTrainer
from .contrastive_trainer import ContrastiveTrainer
from .distillation import DistillationTrainer
from .model import Batch, model_inputs
from .momentum_contrast import MomentumContrastTrainer


@dataclass
class MLMOnlyArguments(ContrastiveTrainingArguments):
    """Arguments of ``MLMOnlyTrainer``: those of ``ContrastiveTrainingArguments`` that apply to it."""

    compares_batch: ClassVar[bool] = False
    compares_views: ClassVar[bool] = False
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
    """Train the masked-LM loss alone, on the data and steps of a contrastive run: ``objective="mlm"``.

    It encodes only the masked copies of the same views, so a step costs as much as with ``mlm_input="shared"``.
    ``views="simcse_long"`` reads whole documents, each twice with two masks.
    """

    arguments_class = MLMOnlyArguments
    method = "Masked language modeling of these views was the only loss: embeddings were not trained as such."

    def training_loss(self, model: PreTrainedModel, inputs: Batch, counts: torch.Tensor) -> torch.Tensor:
        """The MLM loss of the masked views."""
        output = model(**model_inputs(inputs, "shared"))
        return self.mlm_share(output.mlm_loss, inputs, counts)

    def describe_loss(self) -> str:
        """The loss, for the model card."""
        return "MLM"

    def count_negatives(self) -> int:
        """0: this objective has no negatives."""
        return 0


TRAINERS = (ContrastiveTrainer, MomentumContrastTrainer, ContrastiveTensionTrainer, MLMOnlyTrainer, DistillationTrainer)


def get_trainer_class(objective: str) -> type[ContrastiveTrainer]:
    """The trainer class of an objective; it takes arguments of ``get_arguments_class(objective)``."""
    for trainer in TRAINERS:
        if trainer.arguments_class.objective == objective:
            return trainer
    raise ValueError(f"There is no objective named {objective!r}. Choose one of {sorted(OBJECTIVES)}.")


def get_arguments_class(objective: str) -> type[ContrastiveTrainingArguments]:
    """The class of an objective's arguments: ``ContrastiveTrainingArguments`` or a subclass with its own options.

    Example:

        >>> get_arguments_class("momentum_contrast")("output", queue_size=4096, use_cpu=True).similarity
        'dot'
    """
    return get_trainer_class(objective).arguments_class
