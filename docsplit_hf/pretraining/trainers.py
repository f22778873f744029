"""The trainer of each objective."""

from __future__ import annotations

from .baselines.contrastive_tension import ContrastiveTensionTrainer
from .baselines.mlm_only import MLMOnlyTrainer
from .baselines.momentum_contrast import MomentumContrastTrainer
from .contrastive_trainer import ContrastiveTrainer
from .objectives import get_objective

TRAINERS = {
    "info_nce": ContrastiveTrainer,
    "momentum_contrast": MomentumContrastTrainer,
    "contrastive_tension": ContrastiveTensionTrainer,
    "mlm": MLMOnlyTrainer,
}


def get_trainer_class(name: str) -> type[ContrastiveTrainer]:
    """The trainer of an objective.

    Args:
        name: A key of ``OBJECTIVES``: the ``objective`` of ``ContrastiveTrainingArguments``.

    Returns:
        ``ContrastiveTrainer`` or a subclass of it, with the same arguments.

    Raises:
        ValueError: If there is no objective of that name.

    Example:

        >>> get_trainer_class("info_nce").__name__
        'ContrastiveTrainer'
    """
    get_objective(name)
    return TRAINERS[name]
