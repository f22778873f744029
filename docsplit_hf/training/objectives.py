"""What a document encoder can be pretrained with, by name: one trainer an objective."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .contrastive_trainer import ContrastiveTrainer


class Objective(NamedTuple):
    """An objective, and what goes with it unless the arguments say otherwise.

    Args:
        module: The module of this package that holds the trainer.
        trainer: The trainer's name in it.
        mlm_weight: Weight of the MLM loss; 0: the objective is trained without MLM.
        similarity: How embeddings are compared: ``"cosine"`` or ``"dot"``.
        compares_batch: Whether the loss of a document depends on the other documents of its batch.
        many_views: Whether there may be more than two views of a document.
    """

    module: str
    trainer: str
    mlm_weight: float
    similarity: str
    compares_batch: bool
    many_views: bool = False


OBJECTIVES = {
    "info_nce": Objective("contrastive_trainer", "ContrastiveTrainer", 0.1, "cosine", True, many_views=True),
    "momentum_contrast": Objective("momentum_contrast", "MomentumContrastTrainer", 0.0, "dot", False),
    "contrastive_tension": Objective("contrastive_tension", "ContrastiveTensionTrainer", 0.0, "dot", True),
    "mlm": Objective("mlm_only", "MLMOnlyTrainer", 1.0, "cosine", False, many_views=True),
}


def get_objective(name: str) -> Objective:
    """Look an objective up by name.

    Args:
        name: A key of ``OBJECTIVES``.

    Returns:
        The objective.

    Raises:
        ValueError: If there is no objective of that name.

    Example:

        >>> get_objective("mlm").trainer
        'MLMOnlyTrainer'
    """
    if name not in OBJECTIVES:
        raise ValueError(f"There is no objective named {name!r}. Choose one of {sorted(OBJECTIVES)}.")
    return OBJECTIVES[name]


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
    objective = get_objective(name)
    return getattr(importlib.import_module(f".{objective.module}", __package__), objective.trainer)
