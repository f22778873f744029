"""What the model card says of a training."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..training.distributed import process_count
from ..training.markdown import public_name

if TYPE_CHECKING:
    from transformers import TrainerState

    from ..models.portable.configuration_knn_classifier import KNNClassifierConfig
    from .arguments import KNNClassifierTrainingArguments


def describe_training(
    config: KNNClassifierConfig,
    args: KNNClassifierTrainingArguments,
    state: TrainerState,
    examples: int | None,
    max_length: int,
    best_is_loaded: bool,
) -> dict[str, str]:
    """A run, as rows of a table."""
    loss = f"{1 - args.triplet_weight:g} x cross entropy"
    if args.triplet_weight:
        loss += f" + {args.triplet_weight:g} x triplet loss (margin {args.triplet_margin:g}, "
        loss += f"{args.triplet_choice} triplets)"
    batch = f"{args.per_device_train_batch_size} texts x {process_count()} processes"
    if args.gradient_accumulation_steps > 1:
        batch += f" x {args.gradient_accumulation_steps} accumulated"
    encoder = config.encoder_config
    return {
        "Encoder": public_name(encoder.name_or_path or f"random weights ({encoder.model_type})"),
        "Data": public_name(args.data_description or "not described"),
        "Training examples": "unknown" if examples is None else f"{examples:,}",
        "Optimizer steps": f"{state.global_step:,}",
        "Weights": f"of step {state.best_global_step:,}, the best" if best_is_loaded else "of the last step",
        "Loss": loss,
        "Batch": batch,
        "Maximum length": f"{max_length} tokens",
        "Pooling": config.pooling + (f", {config.retrieval_pooling} for retrieval" if config.retrieval_pooling else ""),
        "Learning rate": f"{args.learning_rate:g} ({args.lr_scheduler_type.value})",
        "Seed": f"{args.seed}",
    }
