"""Trainers and arguments of the objectives, found by name; the names are ``OBJECTIVES`` in ``arguments.py``."""

from __future__ import annotations

from .arguments import OBJECTIVES, ContrastiveTrainingArguments
from .contrastive_tension import ContrastiveTensionTrainer
from .contrastive_trainer import ContrastiveTrainer
from .distillation import DistillationTrainer
from .mlm_only import MLMOnlyTrainer
from .momentum_contrast import MomentumContrastTrainer

TRAINERS = (ContrastiveTrainer, MomentumContrastTrainer, ContrastiveTensionTrainer, MLMOnlyTrainer, DistillationTrainer)


def get_trainer_class(objective: str) -> type[ContrastiveTrainer]:
    """Return the trainer class of an objective; its arguments are of ``get_arguments_class(objective)``."""
    for trainer in TRAINERS:
        if trainer.arguments_class.objective == objective:
            return trainer
    raise ValueError(f"There is no objective named {objective!r}. Choose one of {sorted(OBJECTIVES)}.")


def get_arguments_class(objective: str) -> type[ContrastiveTrainingArguments]:
    """Return the class of an objective's arguments: ``ContrastiveTrainingArguments`` or a subclass with more options.

    Example:

        >>> get_arguments_class("momentum_contrast")("output", queue_size=4096, use_cpu=True).similarity
        'dot'
    """
    return get_trainer_class(objective).arguments_class
