"""The encoder of a checkpoint, without its head: of a stock checkpoint, an adapter, or an encoder and decoder."""

from __future__ import annotations

from typing import Any

import torch
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForTextEncoding,
    PretrainedConfig,
    PreTrainedModel,
)
from transformers.models.auto.modeling_auto import MODEL_FOR_TEXT_ENCODING_MAPPING

from .configuration import HUB_ARGUMENTS, load_config
from .default import name_in_config, resolve_checkpoint
from .replacement import finish_replacement
from .settings import read_json


def is_adapter(name: str, revision: str | None = None) -> bool:
    """Whether a checkpoint is an adapter of peft.

    Args:
        name: A model on the Hub or a folder.
        revision: The branch, tag or commit on the Hub.

    Returns:
        Whether it has an ``adapter_config.json``.

    Example:

        >>> import tempfile
        >>> is_adapter(tempfile.mkdtemp())
        False
    """
    return read_json(name, "adapter_config.json", revision) is not None


def load_base_model(name: str, dtype: torch.dtype | str = "float32", revision: str | None = None) -> PreTrainedModel:
    """Load the encoder of a checkpoint: an adapter is merged into its base model, and of T5 only the encoder is taken.

    Args:
        name: A model on the Hub or a folder.
        dtype: Of the weights.
        revision: The branch, tag or commit on the Hub.

    Returns:
        The encoder, without a head.

    Raises:
        OSError: If there is no model of that name.
        ValueError: If an adapter does not fit its base model.

    Example:

        >>> load_base_model("hkunlp/instructor-base").config.model_type  # doctest: +SKIP
        't5'
    """
    return (_load_adapter if is_adapter(name, revision) else _load_stock)(name, dtype, revision).base_model


class AutoModelWithoutHead(AutoModel):
    """``AutoModel`` for pipelines: without reports of a masked-LM head, and without float16 on a CPU.

    ``AutoModel`` itself has no place for the head of a checkpoint and makes a pooler that the checkpoint has not; it
    reports both, as something to be trained, to people who need neither. Here the head is loaded and then left off.

    A save to the folder that was interrupted is finished first, or what it left is deleted. Weights of float16 become
    float32 where there is no accelerator and nobody asked for a dtype: a CPU takes four times as
    long in float16.

    Example:

        >>> from docsplit_hf.models.checkpoints.default import default_checkpoint
        >>> type(AutoModelWithoutHead.from_pretrained(default_checkpoint())).__name__
        'BertModel'
    """

    @classmethod
    def from_pretrained(cls, name: str, *arguments: Any, **kwargs: Any) -> PreTrainedModel:
        """Load the encoder, or whatever else the checkpoint holds.

        Args:
            name: A model on the Hub or a folder.
            *arguments: As for ``AutoModel``.
            **kwargs: As for ``AutoModel``. ``dtype="auto"``, which is what ``pipeline`` passes on, counts as none.

        Returns:
            The model.
        """
        if finish_replacement(name) and "config" in kwargs:  # which pipeline has read before
            kwargs["config"] = AutoConfig.from_pretrained(name)
        try:
            config, _ = PretrainedConfig.get_config_dict(name, **{k: kwargs[k] for k in HUB_ARGUMENTS if k in kwargs})
        except OSError:  # an adapter's, or none that AutoModel finds either
            config = {}
        if next(iter(config.get("architectures") or []), "").endswith("ForMaskedLM"):
            model = AutoModelForMaskedLM.from_pretrained(name, *arguments, **kwargs).base_model
        else:
            model = super().from_pretrained(name, *arguments, **kwargs)
        name_in_config(model.config)
        # transformers does not say any more which revision a model is of, and what lies beside it is to be of the same.
        model.config._commit_hash = kwargs.get("revision")
        is_open = kwargs.get("dtype", "auto") == "auto"
        if is_open and model.dtype == torch.float16 and not torch.accelerator.is_available():
            model.float()
        return model


def _load_stock(
    name: str, dtype: torch.dtype | str, revision: str | None, architecture: str | None = None
) -> PreTrainedModel:
    """The class that the checkpoint was saved from, so that all its weights have their place, or the one asked for."""
    name = resolve_checkpoint(name)  # of an adapter's base model too
    config = load_config(name, revision=revision)
    architecture = architecture or next(iter(config.architectures or []), "")
    stock = AutoModelForMaskedLM if architecture.endswith("ForMaskedLM") else _without_decoder(config)
    model = stock.from_pretrained(name, config=config, dtype=dtype, revision=revision)
    name_in_config(model.config)
    return model


def _without_decoder(config: PretrainedConfig) -> type[AutoModel] | type[AutoModelForTextEncoding]:
    # AutoModel makes T5's encoder and decoder, of which a T5EncoderModel's checkpoint has only the first.
    encoder = MODEL_FOR_TEXT_ENCODING_MAPPING.get(type(config), None)
    return AutoModelForTextEncoding if encoder is not None and "Encoder" in encoder.__name__ else AutoModel


def _load_adapter(name: str, dtype: torch.dtype | str, revision: str | None) -> PreTrainedModel:
    """The adapter's base model, with the adapter merged into it."""
    from peft import PeftConfig, PeftModel

    adapter = PeftConfig.from_pretrained(name, revision=revision)
    trained_on = (adapter.auto_mapping or {}).get("base_model_class")
    base = _load_stock(adapter.base_model_name_or_path, dtype, adapter.revision, trained_on)
    model = PeftModel.from_pretrained(base, name, revision=revision)
    misplaced = model.load_adapter(name, "default", revision=revision).unexpected_keys
    if misplaced:
        raise ValueError(
            f"The adapter {name} does not fit its base model {adapter.base_model_name_or_path}: {misplaced[0]} has no "
            f"place in {type(base).__name__}. Load it with peft onto the model that it was trained on, and merge it."
        )
    return model.merge_and_unload()
