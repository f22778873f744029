"""The papers' baselines, objectives and views, by name; ``register`` adds them to those of the package."""

from __future__ import annotations

from docsplit_hf.pretraining.objectives import OBJECTIVES
from docsplit_hf.pretraining.views import VIEWS

from .contrastive_tension import ContrastiveTensionTrainer
from .mlm_only import MLMOnlyTrainer
from .momentum_contrast import MomentumContrastTrainer
from .views import BASELINE_VIEWS

BASELINES = {
    "momentum_contrast": MomentumContrastTrainer,
    "contrastive_tension": ContrastiveTensionTrainer,
    "mlm": MLMOnlyTrainer,
}


def register() -> None:
    """Make the baselines known to the package, and so to the command in this process."""
    OBJECTIVES.update(BASELINES)
    VIEWS.update(BASELINE_VIEWS)
