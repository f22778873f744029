"""Open checkpoints by name: the one that ships, a folder, a model on the Hub, an adapter."""

from __future__ import annotations

import copy
import dataclasses
import difflib
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

from ...reading.files.finding import refuse_mistyped_path
from ...storage.atomic_replacement import FolderState, read_one_save, valid_folder
from ...storage.inside_folder import write_file
from .checked_files import (
    REMEDY,
    DamagedFilesError,
    check_checkpoint_folder,
    check_sizes,
    errors_name_config,
    refuse_own_code,
)
from .damaged_checkpoint import DamagedCheckpointError
from .sentence_transformers_files import checkpoint_settings, read_json

DEFAULT_CHECKPOINT = "docsplit-small-en"
DEFAULT_FOLDER = Path(__file__).absolute().with_name(DEFAULT_CHECKPOINT)
# Arguments for training the default checkpoint further: minutes for a few thousand documents on two CPU cores.
DEFAULT_RECIPE = {"max_length": 128, "learning_rate": 5e-4, "num_train_epochs": 1, "warmup_steps": 10}


# The arguments of ``from_pretrained`` that locate a checkpoint's files.
HUB_ARGUMENTS = ("revision", "cache_dir", "token", "subfolder", "local_files_only")
DAMAGES = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)  # raised for a damaged tokenizer


def default_checkpoint() -> str:
    """Return the folder of the checkpoint that ships, to load it with ``SentenceTransformer`` or ``AutoModel``.

    docsplit_hf itself needs no folder: the checkpoint is its default, and is called ``"docsplit-small-en"``.

    Returns:
        The path of the folder, which also has the tokenizer.

    Raises:
        FileNotFoundError: If the checkpoint is missing from this installation.
    """
    if not (DEFAULT_FOLDER / "model.safetensors").is_file():
        raise FileNotFoundError(f"{DEFAULT_CHECKPOINT} is not in {DEFAULT_FOLDER.parent}: install docsplit_hf again.")
    return str(DEFAULT_FOLDER)


def name_in_config(config: PretrainedConfig) -> None:
    """Replace the folder of the checkpoint that ships by its name, before the configuration is copied elsewhere."""
    if config.name_or_path and Path(config.name_or_path) == DEFAULT_FOLDER:
        config.name_or_path = DEFAULT_CHECKPOINT


def name_in_adapter(folder: str | Path) -> None:
    """Replace the folder of the checkpoint that ships by its name in a saved adapter; other folders are unchanged.

    This is done after saving: in an adapter in memory, peft would look for the name on the Hub.
    """
    path = Path(folder) / "adapter_config.json"
    if not path.is_file():
        return
    content = json.loads(path.read_text(encoding="utf-8"))
    if content.get("base_model_name_or_path") == str(DEFAULT_FOLDER):
        content["base_model_name_or_path"] = DEFAULT_CHECKPOINT
        write_file(path, json.dumps(content, indent=2, sort_keys=True) + "\n")


class Checkpoint(NamedTuple):
    """A checkpoint and its settings."""

    path: str  # a folder, or a name on the Hub
    revision: str | None
    config: PretrainedConfig | None  # None: an adapter
    pooling: str | None  # None: not stated
    max_length: int | None  # None: not stated
    is_adapter: bool
    include_prompt: bool = True  # whether the tokens of a prompt are pooled


def open_checkpoint(
    name: str | Path | None = None, revision: str | None = None, with_projection: bool = False, **hub_arguments: Any
) -> Checkpoint:
    """Open a checkpoint by its name. ``with_projection``: accept one with dense layers after its pooling."""
    path = find_checkpoint(name)
    check_checkpoint_folder(path)
    files = {"revision": revision} | {key: value for key, value in hub_arguments.items() if key != "subfolder"}
    is_adapter = read_json(path, "adapter_config.json", **files) is not None
    config = None if is_adapter else _load_config(path, revision=revision, **hub_arguments)
    encoder_config = getattr(config, "encoder_config", config)  # a KNNClassifier's encoder states its pooling
    settings = checkpoint_settings(path, encoder_config, with_projection=with_projection, **files)
    return Checkpoint(
        path,
        revision,
        config,
        pooling=settings.get("pooling"),
        max_length=settings.get("max_length"),
        is_adapter=is_adapter,
        include_prompt=settings.get("include_prompt", True),
    )


def find_checkpoint(name: str | Path | None) -> str:
    """Resolve a name to a local folder, or to a name on the Hub."""
    if name is None:
        return default_checkpoint()
    name = os.fspath(name)
    if Path(name).exists():
        return name
    if name == DEFAULT_CHECKPOINT:
        return default_checkpoint()
    if "/" not in name and difflib.get_close_matches(name, [DEFAULT_CHECKPOINT], cutoff=0.85):
        raise FileNotFoundError(f"There is no model {name!r}. The one that ships is called {DEFAULT_CHECKPOINT!r}.")
    refuse_mistyped_path(name)
    return name


def load_base_model(checkpoint: Checkpoint, dtype: torch.dtype | str = "float32") -> PreTrainedModel:
    """Load the encoder of a checkpoint, without a head: an adapter is merged, and T5's decoder is left out."""
    return (_load_adapter if checkpoint.is_adapter else _load_stock)(checkpoint, dtype).base_model


class LoadedFrom(NamedTuple):
    """The folder that ``pipeline`` loaded a model from, its state at that time, and a function to load it again."""

    folder: Path
    state: FolderState
    load: Callable[[str | Path], PreTrainedModel]


def load_tokenizer(name: str, revision: str | None = None) -> PreTrainedTokenizerBase:
    """Load the tokenizer of a checkpoint; errors name its files."""
    name = str(valid_folder(name))
    try:
        return AutoTokenizer.from_pretrained(name, revision=revision)
    except Exception as error:
        # The library "tokenizers" raises plain Exception.
        if type(error) is not Exception and not isinstance(error, DAMAGES):
            raise
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        files = "tokenizer.json or tokenizer_config.json"
        raise DamagedFilesError(
            f"The tokenizer of {name} cannot be read: {files} is missing or damaged ({reason}). {REMEDY}"
        ) from error


class AutoModelWithoutHead(AutoModel):
    """``AutoModel`` for ``pipeline``, without reports of a missing or unused head.

    On a CPU, weights saved in float16 become float32 unless a dtype was requested: float16 takes four times as long.
    """

    @classmethod
    def from_pretrained(cls, name: str, *arguments: Any, **kwargs: Any) -> PreTrainedModel:
        """As ``AutoModel.from_pretrained``; ``dtype="auto"``, which ``pipeline`` passes on, counts as none."""

        def load(place: str | Path) -> PreTrainedModel:
            return cls._load(str(place), *arguments, **kwargs)

        model, state = read_one_save(name, load)
        if state is not None:
            model.loaded_from = LoadedFrom(Path(name), state, load)
        return model

    @classmethod
    def _load(cls, name: str, *arguments: Any, **kwargs: Any) -> PreTrainedModel:
        """Check the configuration, and load the encoder by its class in transformers."""
        config = _checked_config(name, {key: kwargs[key] for key in HUB_ARGUMENTS if key in kwargs})
        try:
            with errors_name_config(name):
                if next(iter(config.get("architectures") or []), "").endswith("ForMaskedLM"):
                    model = AutoModelForMaskedLM.from_pretrained(name, *arguments, **kwargs).base_model
                else:
                    model = super().from_pretrained(name, *arguments, **kwargs)
        except DamagedFilesError as error:
            raise DamagedCheckpointError(str(error)) from error
        name_in_config(model.config)
        # The other files of the checkpoint must be read from the same revision, which transformers does not keep.
        model.loaded_revision = kwargs.get("revision")
        has_default_dtype = kwargs.get("dtype", "auto") == "auto"
        if has_default_dtype and model.dtype == torch.float16 and not torch.accelerator.is_available():
            model.float()
        return model


def _checked_config(name: str, hub_arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The content of config.json, checked before a model is built; empty for an adapter, which has none."""
    try:
        check_checkpoint_folder(name)
        config, _ = PretrainedConfig.get_config_dict(name, **hub_arguments)
        refuse_own_code(name, config)
        check_sizes(f"config.json of {name}", config)
    except OSError:  # not a model: AutoModel raises the error
        return {}
    except DamagedFilesError as error:
        raise DamagedCheckpointError(str(error)) from error
    return config


def override_config(config: PretrainedConfig, overrides: Mapping[str, Any]) -> PretrainedConfig:
    """Copy a configuration and change settings of its architecture, such as ``{"hidden_dropout_prob": 0.1}``."""
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
            raise ValueError(f"config_overrides has {name}={value!r}, which is not allowed: {reason}") from error
    return changed


# ``_keys_to_ignore_on_save`` is private in transformers 5.23. The public ``save_pretrained(state_dict=...)`` does not
# replace it: the Trainer calls it with all weights.


def leave_unsaved(model: PreTrainedModel, names: Iterable[str]) -> None:
    """Leave the named weights out of all checkpoints of a model."""
    model._keys_to_ignore_on_save = {*unsaved_weights(model), *names}


def unsaved_weights(model: nn.Module) -> set[str]:
    """The names of the weights that are left out of the checkpoints of a model."""
    return set(model._keys_to_ignore_on_save or ())


def _load_config(path: str, **hub_arguments: Any) -> PretrainedConfig:
    """Load and check the configuration of a checkpoint."""
    try:
        with errors_name_config(path):
            refuse_own_code(path, PretrainedConfig.get_config_dict(path, **hub_arguments)[0])
            config = AutoConfig.from_pretrained(path, **hub_arguments)
    except OSError as error:
        is_name_on_hub = path.count("/") == 1 and not path.startswith((".", "/", "~"))
        without_network = (
            f" Without a network here, run 'hf download {path} --local-dir FOLDER' where there is one, and give the "
            "folder in place of the name."
            if is_name_on_hub
            else ""
        )
        raise OSError(
            f"The model {path!r} could not be loaded: it is not a folder with a config.json here, and it was not found "
            f"on the Hub or the Hub could not be reached. Check the spelling.{without_network} "
            f"({str(error).splitlines()[0]})"
        ) from error
    check_sizes(f"config.json of {path}", config.to_dict())
    return config


def _load_stock(checkpoint: Checkpoint, dtype: torch.dtype | str, architecture: str | None = None) -> PreTrainedModel:
    """Load the class that the checkpoint was saved from, or ``architecture``, so that all of its weights are used."""
    config = checkpoint.config
    # AutoModel would build T5's encoder and decoder, and a checkpoint of T5EncoderModel has no decoder.
    encoder = MODEL_FOR_TEXT_ENCODING_MAPPING.get(type(config), None)
    stock = AutoModelForTextEncoding if encoder is not None and "Encoder" in encoder.__name__ else AutoModel
    if (architecture or next(iter(config.architectures or []), "")).endswith("ForMaskedLM"):
        stock = AutoModelForMaskedLM
    with errors_name_config(checkpoint.path):
        model = stock.from_pretrained(checkpoint.path, config=config, dtype=dtype, revision=checkpoint.revision)
    name_in_config(model.config)
    return model


def _load_adapter(checkpoint: Checkpoint, dtype: torch.dtype | str) -> PreTrainedModel:
    """The adapter's base model, with the adapter merged into it."""
    from peft import PeftConfig, PeftModel

    path = checkpoint.path
    revision = checkpoint.revision
    adapter = PeftConfig.from_pretrained(path, revision=revision)
    base_path = str(valid_folder(find_checkpoint(adapter.base_model_name_or_path)))
    config = _load_config(base_path, revision=adapter.revision)
    trained_on = (adapter.auto_mapping or {}).get("base_model_class")
    base_checkpoint = Checkpoint(
        path=base_path, revision=adapter.revision, config=config, pooling=None, max_length=None, is_adapter=False
    )
    base = _load_stock(base_checkpoint, dtype, trained_on)
    model = PeftModel.from_pretrained(base, path, revision=revision)
    misplaced = model.load_adapter(path, "default", revision=revision).unexpected_keys
    if misplaced:
        raise ValueError(
            f"The adapter {path} does not fit its base model {adapter.base_model_name_or_path}: it has no place for "
            f"{misplaced[0]}. Merge it with peft where it was trained."
        )
    return model.merge_and_unload()
