"""KNNClassifierTrainingArguments: TrainingArguments for classification with decoupled representations."""

from __future__ import annotations

from dataclasses import dataclass

from transformers.hf_argparser import HfArg

from ..training.arguments import ShareableTrainingArguments
from .triplets import TRIPLET_CHOICES


@dataclass
class KNNClassifierTrainingArguments(ShareableTrainingArguments):
    """Arguments of ``KNNClassifierTrainer``: those of ``TrainingArguments`` and the following.

    Args:
        triplet_weight: Beta of equation 4: the loss is (1 - beta) x cross entropy + beta x triplet loss. 0.5 as in the
            paper. 0 trains the classifier alone.
        triplet_margin: Mu of equation 4, in squared L2 distance. The paper does not give it.
        triplet_choice: Which of several positives and negatives in the batch is taken, which the paper does not say:
            ``"random"``, or the ``"hardest"`` (the farthest positive and the nearest negative).
        gather_candidates: Choose positives and negatives from the batches of all processes, with exact gradients.
            False: each process chooses from its own.

    > Defaults that differ from ``TrainingArguments``

    - ``num_train_epochs=3``, ``learning_rate=2e-5`` and ``per_device_train_batch_size=32``, as in the paper (appendix
      A: 2e-5 with 64 for MacBERT, 1e-5 with 32 for RoBERTa).
    - ``warmup_steps=0.1``, a tenth of all steps. The paper's 100 to 300 steps are more than a small data set has.
    - ``metric_for_best_model="macro_f1"``, ``greater_is_better=True``: of the classifier on held-out examples.
    - those of ``ShareableTrainingArguments``.

    Raises:
        ValueError: If a value is out of its range.
    """

    triplet_weight: float = HfArg(
        default=0.5, help="Weight of the triplet loss against cross entropy; 0 is without. Paper: 0.5."
    )
    triplet_margin: float = HfArg(
        default=0.1, help="Margin of the triplet loss, in squared L2 distance. The paper does not say."
    )
    triplet_choice: str = HfArg(
        default="random",
        help="Which positive and negative of the batch: 'random', or the 'hardest' ones.",
        metadata={"choices": list(TRIPLET_CHOICES)},
    )
    gather_candidates: bool = HfArg(
        default=True, help="Choose positives and negatives from the batches of all processes."
    )
    learning_rate: float = HfArg(default=2e-5, help="The peak learning rate. Paper: 2e-5 or 1e-5.")
    num_train_epochs: float = HfArg(default=3.0, help="Passes over the training set. Paper: 3.")
    per_device_train_batch_size: int = HfArg(default=32, help="Texts per process and step. Paper: 64 or 32.")
    warmup_steps: float = HfArg(default=0.1, help="Steps of warm-up, or below 1 their share of all.")
    metric_for_best_model: str | None = HfArg(default="macro_f1", help="The metric that decides the best checkpoint.")
    greater_is_better: bool | None = HfArg(default=True, help="Whether that metric is to be maximized.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.triplet_weight < 1:
            raise ValueError(
                f"triplet_weight must be from 0 to below 1, got {self.triplet_weight}: at 1 the classifier would not "
                "be trained. The paper uses 0.5."
            )
        if self.triplet_margin < 0:
            raise ValueError(f"triplet_margin must be 0 or above, got {self.triplet_margin}.")
        if self.triplet_choice not in TRIPLET_CHOICES:
            raise ValueError(f"triplet_choice must be one of {TRIPLET_CHOICES}, got {self.triplet_choice!r}.")
