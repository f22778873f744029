"""LoRA around a KNNClassifier: adapters in the encoder, the heads trained whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn

if TYPE_CHECKING:
    from peft import PeftModel

    from ..models.portable.modeling_knn_classifier import KNNClassifier


def lora_around(model: KNNClassifier, rank: int = 16, **lora_arguments) -> PeftModel:
    """Freeze the encoder and put LoRA adapters into all its linear layers; the heads are new and trained whole.

    ``KNNClassifierTrainer`` merges the adapters when it saves the finished classifier.

    Args:
        model: The classifier.
        rank: The rank of the adapters.
        **lora_arguments: Further arguments of ``peft.LoraConfig``.

    Returns:
        The model to train.
    """
    from peft import LoraConfig, get_peft_model

    layers = [name for name, module in model.encoder.named_modules() if isinstance(module, nn.Linear)]
    heads = [name for name in ("classifier", "retrieval_head") if getattr(model, name) is not None]
    config = LoraConfig(
        r=rank, target_modules=[f"encoder.{name}" for name in layers], modules_to_save=heads, **lora_arguments
    )
    return get_peft_model(model, config)
