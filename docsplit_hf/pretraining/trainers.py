"""The trainer of each objective, and the class of its arguments."""

from __future__ import annotations

from .arguments import OBJECTIVES, ContrastiveTrainingArguments
from .baselines.contrastive_tension import ContrastiveTensionTrainer
from .baselines.mlm_only import MLMOnlyTrainer
from .baselines.momentum_contrast import MomentumContrastTrainer
from .contrastive_trainer import ContrastiveTrainer

TRAINERS = (ContrastiveTrainer, MomentumContrastTrainer, ContrastiveTensionTrainer, MLMOnlyTrainer)


def get_trainer_class(objective: str) -> type[ContrastiveTrainer]:
    """The trainer of an objective.

    Args:
        objective: ``"info_nce"``, ``"momentum_contrast"``, ``"contrastive_tension"`` or ``"mlm"``.

    Returns:
        ``ContrastiveTrainer`` or a subclass of it, to be made with arguments of ``get_arguments_class(objective)``.

    Raises:
        ValueError: If there is no objective of that name.
    """
    for trainer in TRAINERS:
        if trainer.arguments_class.objective == objective:
            return trainer
    raise ValueError(f"There is no objective named {objective!r}. Choose one of {sorted(OBJECTIVES)}.")


def get_arguments_class(objective: str) -> type[ContrastiveTrainingArguments]:
    """The class of an objective's arguments: ``ContrastiveTrainingArguments`` or a subclass with its own options.

    It takes and refuses the same names as ``get_trainer_class``.

    Example:

        >>> get_arguments_class("momentum_contrast")("output", queue_size=4096, use_cpu=True).similarity
        'dot'
    """
    return get_trainer_class(objective).arguments_class
