"""What the objectives share that train with a second encoder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from transformers import PreTrainedModel

from ..arguments import ContrastiveTrainingArguments, overridden


@dataclass
class TwoEncoderArguments(ContrastiveTrainingArguments):
    """Two views, compared by dot products, whole, without MLM, and without a projection head."""

    many_views: ClassVar[bool] = False

    similarity: str | None = overridden("similarity", "dot")
    mlm_weight: float | None = overridden("mlm_weight", 0.0)
    projection_head: bool = overridden("projection_head", False, init=False)
    matryoshka_dims: list[int] | None = overridden("matryoshka_dims", None, init=False)


def check_two_encoders(model: PreTrainedModel, args: ContrastiveTrainingArguments) -> None:
    """Refuse a model that an objective with two encoders cannot be trained with."""
    if hasattr(model, "peft_config"):
        raise ValueError(f"objective={args.objective!r} trains whole encoders, not adapters: do without PEFT.")
    if args.fsdp or args.deepspeed:
        raise ValueError(
            f"objective={args.objective!r} keeps a second encoder whole on each process, which FSDP and DeepSpeed take "
            "apart: use DDP."
        )
    dtypes = {parameter.dtype for parameter in model.parameters()}
    if dtypes != {torch.float32}:
        raise ValueError(
            f"objective={args.objective!r} moves its encoders by small steps, which get lost in weights of "
            f"{', '.join(sorted(map(str, dtypes)))}: load the model in float32; bf16=True computes in half precision."
        )
