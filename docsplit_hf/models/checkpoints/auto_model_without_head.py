"""AutoModelWithoutHead: what ``pipeline`` loads an encoder by."""

from __future__ import annotations

from typing import Any

import torch
from transformers import AutoConfig, AutoModel, AutoModelForMaskedLM, PretrainedConfig, PreTrainedModel

from .atomic_replacement import finish_replacement
from .checkpoint import HUB_ARGUMENTS
from .shipped_checkpoint import name_in_config


class AutoModelWithoutHead(AutoModel):
    """``AutoModel`` for pipelines: without reports of a masked-LM head, and without float16 on a CPU.

    ``AutoModel`` reports the head of a checkpoint and the pooler that it lacks as something to be trained. Here the
    head is loaded, and then left off. Weights of float16 become float32 where there is no accelerator and nobody asked
    for a dtype: a CPU takes four times as long in float16.
    """

    @classmethod
    def from_pretrained(cls, name: str, *arguments: Any, **kwargs: Any) -> PreTrainedModel:
        """As ``AutoModel.from_pretrained``; ``dtype="auto"``, which ``pipeline`` passes on, counts as none."""
        if finish_replacement(name) and "config" in kwargs:  # which pipeline read before the save was finished
            kwargs["config"] = AutoConfig.from_pretrained(name)
        try:
            config, _ = PretrainedConfig.get_config_dict(name, **{k: kwargs[k] for k in HUB_ARGUMENTS if k in kwargs})
        except OSError:  # an adapter has none; AutoModel refuses what is no model
            config = {}
        if next(iter(config.get("architectures") or []), "").endswith("ForMaskedLM"):
            model = AutoModelForMaskedLM.from_pretrained(name, *arguments, **kwargs).base_model
        else:
            model = super().from_pretrained(name, *arguments, **kwargs)
        name_in_config(model.config)
        # transformers does not keep the revision, and the other files of the checkpoint must be of the same one.
        model.loaded_revision = kwargs.get("revision")
        is_open = kwargs.get("dtype", "auto") == "auto"
        if is_open and model.dtype == torch.float16 and not torch.accelerator.is_available():
            model.float()
        return model
