"""The papers' baselines that are objectives, by name; ``register`` adds them to those of the package."""

from __future__ import annotations

from docsplit_hf.pretraining.objectives import OBJECTIVES

from .contrastive_tension import ContrastiveTensionTrainer
from .mlm_only import MLMOnlyTrainer
from .momentum_contrast import MomentumContrastTrainer

BASELINES = {
    "momentum_contrast": MomentumContrastTrainer,
    "contrastive_tension": ContrastiveTensionTrainer,
    "mlm": MLMOnlyTrainer,
}


def register() -> None:
    """Make the baselines known to ``docsplit_hf.pretraining.objectives``, and so to the command in this process."""
    OBJECTIVES.update(BASELINES)
