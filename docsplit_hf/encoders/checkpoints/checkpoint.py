"""Open checkpoints by name: the one that ships, a folder, a model on the Hub, an adapter."""

from __future__ import annotations

import copy
import dataclasses
import difflib
import functools
import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from huggingface_hub.errors import StrictDataclassError
from torch import nn
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForTextEncoding,
    AutoTokenizer,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.models.auto.modeling_auto import MODEL_FOR_TEXT_ENCODING_MAPPING

from ...extras import check_extra
from ...text.sources import refuse_mistyped_path
from .atomic_replacement import finish_replacement
from .checked_files import REMEDY, DamagedFilesError, blamed_on_files, check_folder, check_sizes
from .inside_folder import write_file
from .one_state import FolderState, read_at_once
from .sentence_transformers_files import checkpoint_settings, read_json

DEFAULT_CHECKPOINT = "docsplit-small-en"
DEFAULT_FOLDER = Path(__file__).absolute().with_name(DEFAULT_CHECKPOINT)
# Arguments of a run that trains it further: on two CPU cores, minutes for a few thousand documents.
DEFAULT_RECIPE = {"max_length": 128, "learning_rate": 5e-4, "num_train_epochs": 1, "warmup_steps": 10}
# The arguments of a from_pretrained that find the files.
HUB_ARGUMENTS = ("revision", "cache_dir", "token", "subfolder", "local_files_only")


def default_checkpoint() -> str:
    """The folder of the checkpoint that ships, for ``SentenceTransformer``, ``AutoModel`` and ``AutoTokenizer``.

    What docsplit_hf itself loads needs no folder: the checkpoint is its default, and ``"docsplit-small-en"`` is its
    name.

    Raises:
        FileNotFoundError: If this installation came without it.
    """
    if not (DEFAULT_FOLDER / "model.safetensors").is_file():
        raise FileNotFoundError(f"{DEFAULT_CHECKPOINT} is not in {DEFAULT_FOLDER.parent}: install docsplit_hf again.")
    return str(DEFAULT_FOLDER)


def name_in_config(config: PretrainedConfig) -> None:
    """Replace the folder of the checkpoint that ships by its name: configurations are copied into cards and models."""
    if config.name_or_path and Path(config.name_or_path) == DEFAULT_FOLDER:
        config.name_or_path = DEFAULT_CHECKPOINT


def name_in_adapter(folder: str | Path) -> None:
    """The same in a saved adapter, if it is one. Before it is saved, peft would look for the name on the Hub."""
    path = Path(folder) / "adapter_config.json"
    if not path.is_file():
        return
    content = json.loads(path.read_text(encoding="utf-8"))
    if content.get("base_model_name_or_path") == str(DEFAULT_FOLDER):
        content["base_model_name_or_path"] = DEFAULT_CHECKPOINT
        write_file(path, json.dumps(content, indent=2, sort_keys=True) + "\n")


class Checkpoint(NamedTuple):
    """A checkpoint; an adapter has no configuration of its own."""

    path: str  # a folder, or a name on the Hub
    revision: str | None
    config: PretrainedConfig | None
    pooling: str | None  # None: not stated
    max_length: int | None  # None: not stated
    is_adapter: bool


def open_checkpoint(
    name: str | Path | None = None, revision: str | None = None, with_projection: bool = False, **hub_arguments: Any
) -> Checkpoint:
    """Open a checkpoint by its name. ``with_projection``: the caller applies the dense layers behind the pooling."""
    path = find_checkpoint(name)
    check_folder(path)
    files = {"revision": revision} | {key: value for key, value in hub_arguments.items() if key != "subfolder"}
    is_adapter = read_json(path, "adapter_config.json", **files) is not None
    config = None if is_adapter else _load_config(path, revision=revision, **hub_arguments)
    encoder_config = getattr(config, "encoder_config", config)  # a KNNClassifier's encoder states its pooling
    settings = checkpoint_settings(path, encoder_config, with_projection=with_projection, **files)
    return Checkpoint(path, revision, config, settings.get("pooling"), settings.get("max_length"), is_adapter)


def find_checkpoint(name: str | Path | None) -> str:
    """Resolve a name to a local folder, or else to a name on the Hub; an interrupted save to the folder is finished."""
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
    return (_load_adapter if checkpoint.is_adapter else _load_stock)(checkpoint, dtype).base_model


class LoadedFrom(NamedTuple):
    """The folder that ``pipeline`` loaded a model from, its state then, and a function that loads the model again."""

    folder: Path
    state: FolderState
    load: Callable[[], PreTrainedModel]


def load_tokenizer(name: str, revision: str | None = None) -> PreTrainedTokenizerBase:
    """Load the tokenizer of a checkpoint; errors name its files."""
    try:
        return AutoTokenizer.from_pretrained(name, revision=revision)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise _damaged_tokenizer(name, error) from error
    except Exception as error:  # the library "tokenizers" has no class of its own for its errors
        if type(error) is not Exception:
            raise
        raise _damaged_tokenizer(name, error) from error


def _damaged_tokenizer(name: str, error: Exception) -> DamagedFilesError:
    reason = " ".join(f"{type(error).__name__}: {error}".split())
    files = "tokenizer.json or tokenizer_config.json"
    return DamagedFilesError(
        f"The tokenizer of {name} cannot be read: {files} is missing or damaged ({reason}). {REMEDY}"
    )


class AutoModelWithoutHead(AutoModel):
    """``AutoModel`` for ``pipeline``, without reports of a missing or unused head.

    On a CPU, weights of float16 become float32 if nobody asked for a dtype: it takes four times as long in float16.
    """

    @classmethod
    def from_pretrained(cls, name: str, *arguments: Any, **kwargs: Any) -> PreTrainedModel:
        """As ``AutoModel.from_pretrained``; ``dtype="auto"``, which ``pipeline`` passes on, counts as none."""
        load = functools.partial(cls._load, name, *arguments, **kwargs)
        model, state = read_at_once(name, load)
        if state is not None:
            model.loaded_from = LoadedFrom(Path(name), state, load)
        return model

    @classmethod
    def _load(cls, name: str, *arguments: Any, **kwargs: Any) -> PreTrainedModel:
        config = _checked_config(name, {key: kwargs[key] for key in HUB_ARGUMENTS if key in kwargs})
        try:
            with blamed_on_files(name):
                if next(iter(config.get("architectures") or []), "").endswith("ForMaskedLM"):
                    model = AutoModelForMaskedLM.from_pretrained(name, *arguments, **kwargs).base_model
                else:
                    model = super().from_pretrained(name, *arguments, **kwargs)
        except DamagedFilesError as error:
            raise DamagedCheckpointError(str(error)) from error
        name_in_config(model.config)
        # transformers does not keep the revision, and the other files of the checkpoint must be of the same one.
        model.loaded_revision = kwargs.get("revision")
        is_open = kwargs.get("dtype", "auto") == "auto"
        if is_open and model.dtype == torch.float16 and not torch.accelerator.is_available():
            model.float()
        return model


class DamagedCheckpointError(Exception):
    """A checkpoint whose files are damaged. No ``ValueError``: after one, ``pipeline`` tries its other classes."""


def _checked_config(name: str, hub_arguments: dict[str, Any]) -> dict[str, Any]:
    """The content of config.json, checked before a model is built; empty for an adapter, which has none."""
    try:
        check_folder(name)
        config, _ = PretrainedConfig.get_config_dict(name, **hub_arguments)
        check_sizes(f"config.json of {name}", config)
    except OSError:  # AutoModel refuses what is no model
        return {}
    except DamagedFilesError as error:
        raise DamagedCheckpointError(str(error)) from error
    return config


def override_config(config: PretrainedConfig, overrides: Mapping[str, Any]) -> PretrainedConfig:
    """A copy with other values of settings of its architecture, such as ``{"hidden_dropout_prob": 0.1}``."""
    if not isinstance(overrides, Mapping):
        raise ValueError(f"config_overrides is a dictionary such as {{'hidden_dropout_prob': 0.1}}, got {overrides!r}.")
    # Settings of every configuration (labels, dtype, ...) are set elsewhere, or do not affect an encoder.
    fields = {field.name for field in dataclasses.fields(config)}
    common = {field.name for field in dataclasses.fields(PretrainedConfig)}
    known = sorted({*(fields - common), *config.attribute_map})
    changed = copy.deepcopy(config)
    for name, value in overrides.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, cutoff=0.5)
            advice = f"Did you mean {' or '.join(near)}?" if near else f"It has {', '.join(known)}."
            raise ValueError(f"The configuration of {config.model_type!r} has no setting {name!r}. {advice}")
        try:
            setattr(changed, name, value)
        except StrictDataclassError as error:
            reason = " ".join(str(error.__cause__ or error).split())
            raise ValueError(f"config_overrides has {name}={value!r}, which does not fit: {reason}") from error
    return changed


# ``_keys_to_ignore_on_save`` is private in transformers 5.23. ``save_pretrained(state_dict=...)`` is no public way: the
# Trainer calls it with the whole state.


def leave_unsaved(model: PreTrainedModel, names: Iterable[str]) -> None:
    """Keep weights out of every checkpoint of a model."""
    model._keys_to_ignore_on_save = {*unsaved_weights(model), *names}


def unsaved_weights(model: nn.Module) -> set[str]:
    """The names of the weights that the checkpoints of a model do not have."""
    return set(model._keys_to_ignore_on_save or ())


def _load_config(path: str, **hub_arguments: Any) -> PretrainedConfig:
    try:
        with blamed_on_files(path):
            config = AutoConfig.from_pretrained(path, **hub_arguments)
    except OSError as error:
        raise OSError(
            f"The model {path!r} could not be loaded: it is not a folder with a config.json here, and it was not found "
            f"on the Hub or the Hub could not be reached. Check the spelling. ({str(error).splitlines()[0]})"
        ) from error
    check_sizes(f"config.json of {path}", config.to_dict())
    return config


def _load_stock(checkpoint: Checkpoint, dtype: torch.dtype | str, architecture: str | None = None) -> PreTrainedModel:
    """Load the class that the checkpoint was saved from, or ``architecture``, so that all its weights have a place."""
    config = checkpoint.config
    # AutoModel makes T5's encoder and decoder, of which a T5EncoderModel's checkpoint has only the first.
    encoder = MODEL_FOR_TEXT_ENCODING_MAPPING.get(type(config), None)
    stock = AutoModelForTextEncoding if encoder is not None and "Encoder" in encoder.__name__ else AutoModel
    if (architecture or next(iter(config.architectures or []), "")).endswith("ForMaskedLM"):
        stock = AutoModelForMaskedLM
    with blamed_on_files(checkpoint.path):
        model = stock.from_pretrained(checkpoint.path, config=config, dtype=dtype, revision=checkpoint.revision)
    name_in_config(model.config)
    return model


def _load_adapter(checkpoint: Checkpoint, dtype: torch.dtype | str) -> PreTrainedModel:
    """The adapter's base model, with the adapter merged into it."""
    check_extra("peft", f"The adapter {checkpoint.path}")
    from peft import PeftConfig, PeftModel

    path = checkpoint.path
    revision = checkpoint.revision
    adapter = PeftConfig.from_pretrained(path, revision=revision)
    base_path = find_checkpoint(adapter.base_model_name_or_path)
    config = _load_config(base_path, revision=adapter.revision)
    trained_on = (adapter.auto_mapping or {}).get("base_model_class")
    base = _load_stock(Checkpoint(base_path, adapter.revision, config, None, None, False), dtype, trained_on)
    model = PeftModel.from_pretrained(base, path, revision=revision)
    misplaced = model.load_adapter(path, "default", revision=revision).unexpected_keys
    if misplaced:
        problem = f"does not fit its base model {adapter.base_model_name_or_path}: it has no place for {misplaced[0]}"
        raise ValueError(f"The adapter {path} {problem}. Merge it with peft where it was trained.")
    return model.merge_and_unload()
