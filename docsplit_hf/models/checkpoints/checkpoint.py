"""open_checkpoint: the one way from the name of a model to what it is loaded from and what it says of itself."""

from __future__ import annotations

import difflib
import os
from pathlib import Path
from typing import Any, NamedTuple

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

from ...text.paths import refuse_mistyped_path
from .atomic_replacement import finish_replacement
from .settings import checkpoint_settings, read_json
from .shipped_checkpoint import DEFAULT_CHECKPOINT, default_checkpoint, name_in_config

# The arguments of a from_pretrained that find the files.
HUB_ARGUMENTS = ("revision", "cache_dir", "token", "subfolder", "local_files_only")


class Checkpoint(NamedTuple):
    """A checkpoint that is there. It has no configuration of its own if it is an adapter."""

    path: str  # a folder, or a name on the Hub
    revision: str | None
    config: PretrainedConfig | None
    pooling: str | None  # None: it does not say, as for the length
    max_length: int | None
    is_adapter: bool


def open_checkpoint(
    name: str | Path | None = None, revision: str | None = None, with_projection: bool = False, **hub_arguments: Any
) -> Checkpoint:
    """Find a checkpoint: a folder, a model on the Hub, ``"docsplit-small-en"``, or None for the one that ships.

    A folder here goes before the checkpoint that ships and before the Hub. ``with_projection``: whether the caller
    applies the dense layers behind the pooling; otherwise they are refused, as is all that is not known here.
    """
    path = find_checkpoint(name)
    files = {"revision": revision} | {key: value for key, value in hub_arguments.items() if key != "subfolder"}
    is_adapter = read_json(path, "adapter_config.json", **files) is not None
    config = None if is_adapter else _load_config(path, revision=revision, **hub_arguments)
    of_encoder = getattr(config, "encoder_config", config)  # of a KNNClassifier, whose encoder says how it pools
    settings = checkpoint_settings(path, of_encoder, with_projection=with_projection, **files)
    return Checkpoint(path, revision, config, settings.get("pooling"), settings.get("max_length"), is_adapter)


def find_checkpoint(name: str | Path | None) -> str:
    """The folder or the name on the Hub that is meant. A save to the folder that was interrupted is finished."""
    if name is None:
        return default_checkpoint()
    name = os.fspath(name)
    if Path(name).exists():
        finish_replacement(name)
        return name
    if name == DEFAULT_CHECKPOINT:
        return default_checkpoint()
    if "/" not in name and difflib.get_close_matches(name, [DEFAULT_CHECKPOINT], cutoff=0.85):
        raise FileNotFoundError(f"There is no model {name!r}. The one that ships is called {DEFAULT_CHECKPOINT!r}.")
    refuse_mistyped_path(name)
    return name


def load_base_model(checkpoint: Checkpoint, dtype: torch.dtype | str = "float32") -> PreTrainedModel:
    """The encoder of a checkpoint, without a head: an adapter is merged, and of T5 only the encoder is taken."""
    if checkpoint.is_adapter:
        return _load_adapter(checkpoint, dtype).base_model
    return _load_stock(checkpoint.path, checkpoint.config, checkpoint.revision, dtype).base_model


def _load_config(path: str, **hub_arguments: Any) -> PretrainedConfig:
    try:
        return AutoConfig.from_pretrained(path, **hub_arguments)
    except OSError as error:
        raise OSError(
            f"The model {path!r} could not be loaded: it is not a folder with a config.json here, and it was not found "
            f"on the Hub or the Hub could not be reached. Check the spelling. ({str(error).splitlines()[0]})"
        ) from error


def _load_stock(
    path: str, config: PretrainedConfig, revision: str | None, dtype: torch.dtype | str, architecture: str | None = None
) -> PreTrainedModel:
    """The class that the checkpoint was saved from, so that all its weights have their place, or the one asked for."""
    architecture = architecture or next(iter(config.architectures or []), "")
    stock = AutoModelForMaskedLM if architecture.endswith("ForMaskedLM") else _without_decoder(config)
    model = stock.from_pretrained(path, config=config, dtype=dtype, revision=revision)
    name_in_config(model.config)
    return model


def _without_decoder(config: PretrainedConfig) -> type[AutoModel] | type[AutoModelForTextEncoding]:
    # AutoModel makes T5's encoder and decoder, of which a T5EncoderModel's checkpoint has only the first.
    encoder = MODEL_FOR_TEXT_ENCODING_MAPPING.get(type(config), None)
    return AutoModelForTextEncoding if encoder is not None and "Encoder" in encoder.__name__ else AutoModel


def _load_adapter(checkpoint: Checkpoint, dtype: torch.dtype | str) -> PreTrainedModel:
    """The adapter's base model, with the adapter merged into it."""
    from peft import PeftConfig, PeftModel

    path, revision = checkpoint.path, checkpoint.revision
    adapter = PeftConfig.from_pretrained(path, revision=revision)
    base_path = find_checkpoint(adapter.base_model_name_or_path)
    config = _load_config(base_path, revision=adapter.revision)
    trained_on = (adapter.auto_mapping or {}).get("base_model_class")
    base = _load_stock(base_path, config, adapter.revision, dtype, trained_on)
    model = PeftModel.from_pretrained(base, path, revision=revision)
    misplaced = model.load_adapter(path, "default", revision=revision).unexpected_keys
    if misplaced:
        raise ValueError(
            f"The adapter {path} does not fit its base model {adapter.base_model_name_or_path}: {misplaced[0]} has no "
            f"place in {type(base).__name__}. Load it with peft onto the model that it was trained on, and merge it."
        )
    return model.merge_and_unload()
