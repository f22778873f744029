"""Shared parts of the objectives with two encoders, which have two views and neither MLM nor a projection head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from transformers import PreTrainedModel

from docsplit_hf.pretraining.arguments import ContrastiveTrainingArguments, overridden
from docsplit_hf.pretraining.contrastive_trainer import ContrastiveTrainer
from docsplit_hf.training.distributed import uses_fsdp


@dataclass
class TwoEncoderArguments(ContrastiveTrainingArguments):
    """Arguments of objectives with two encoders."""

    similarity: str = overridden("similarity", "dot")
    mlm_weight: float = overridden("mlm_weight", 0.0)
    projection_head: bool = overridden("projection_head", False, init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mlm_weight > 0:
            raise ValueError(
                f"objective={self.objective!r} is trained without MLM, as in its paper, got mlm_weight="
                f"{self.mlm_weight}: leave mlm_weight out."
            )


class TwoEncoderTrainer(ContrastiveTrainer):
    """A trainer with a second encoder, made as a copy of the model."""

    def __init__(self, model: PreTrainedModel, args: TwoEncoderArguments, *others: Any, **kwargs: Any) -> None:
        _check_model(model, args)
        super().__init__(model, args, *others, **kwargs)
        collator = self.training_collator
        if collator.view_count > 2:
            raise ValueError(
                f"objective={args.objective!r} compares two views of a document, and {collator.views_name!r} with the "
                f"options {collator.views_kwargs} makes {collator.view_count}: make two, or train with info_nce."
            )


def _check_model(model: PreTrainedModel, args: TwoEncoderArguments) -> None:
    """Refuse a model that cannot be trained with an objective of two encoders."""
    if hasattr(model, "peft_config"):
        raise ValueError(f"objective={args.objective!r} trains whole encoders, not adapters: do without PEFT.")
    if uses_fsdp(args) or args.deepspeed_plugin:
        raise ValueError(
            f"objective={args.objective!r} needs a whole second encoder on each process, and FSDP and DeepSpeed shard "
            "models: use DDP."
        )
    dtypes = {parameter.dtype for parameter in model.parameters()}
    if dtypes != {torch.float32}:
        raise ValueError(
            f"objective={args.objective!r} takes small steps, which are lost in weights of "
            f"{', '.join(sorted(map(str, dtypes)))}: load the model in float32; bf16=True computes in half precision."
        )
