"""The objectives by name, each with its trainer, which has the class of the objective's arguments."""

from __future__ import annotations

from .arguments import ContrastiveTrainingArguments
from .contrastive_trainer import ContrastiveTrainer
from .distillation import DistillationTrainer

# A script may add objectives of its own before it uses the functions below or the command.
OBJECTIVES: dict[str, type[ContrastiveTrainer]] = {"info_nce": ContrastiveTrainer, "distillation": DistillationTrainer}


def get_trainer_class(objective: str) -> type[ContrastiveTrainer]:
    """Return the trainer class of an objective; its arguments are of ``get_arguments_class(objective)``."""
    if objective not in OBJECTIVES:
        raise ValueError(f"There is no objective named {objective!r}. Choose one of {sorted(OBJECTIVES)}.")
    return OBJECTIVES[objective]


def get_arguments_class(objective: str) -> type[ContrastiveTrainingArguments]:
    """Return the class of an objective's arguments: ``ContrastiveTrainingArguments`` or a subclass with more options.

    Example:

        >>> get_arguments_class("info_nce")("output", temperature=0.1, use_cpu=True).similarity
        'cosine'
    """
    return get_trainer_class(objective).arguments_class
