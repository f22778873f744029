"""A model's configuration: loaded, with an error that names the model, and with values of one's own."""

from __future__ import annotations

import copy
import dataclasses
import difflib
from collections.abc import Mapping
from typing import Any

from huggingface_hub.errors import StrictDataclassError
from transformers import AutoConfig, PretrainedConfig

from ...text.paths import refuse_mistyped_path

# Of what a from_pretrained takes, what finds the files.
HUB_ARGUMENTS = ("revision", "cache_dir", "token", "subfolder", "local_files_only")


def load_config(name: str, **hub_arguments: Any) -> PretrainedConfig:
    """Load the configuration of a model on the Hub or in a folder.

    Args:
        name: The model's name or folder.
        **hub_arguments: ``revision``, ``cache_dir``, ``token``, ... as for ``AutoConfig``.

    Returns:
        The configuration.

    Raises:
        OSError: If there is no such model, or the Hub cannot be reached.
        FileNotFoundError: At once, if the name is a mistyped path.

    Example:

        >>> load_config("google-bert/bert-base-uncased").model_type  # doctest: +SKIP
        'bert'
    """
    refuse_mistyped_path(name)
    try:
        return AutoConfig.from_pretrained(name, **hub_arguments)
    except OSError as error:
        raise OSError(
            f"The model {name!r} could not be loaded: it is not a folder with a config.json here, and it was not found "
            f"on the Hub or the Hub could not be reached. Check the spelling. ({str(error).splitlines()[0]})"
        ) from error


def override_config(config: PretrainedConfig, overrides: Mapping[str, Any]) -> PretrainedConfig:
    """A configuration with other values of some of its settings, such as another dropout.

    Args:
        config: The configuration, which is left as it is.
        overrides: Values of settings of its architecture, such as ``{"hidden_dropout_prob": 0.1}``.

    Returns:
        A changed copy.

    Raises:
        ValueError: If the architecture has no such setting, with those of like names, or a value is of the wrong type.

    Example:

        >>> from transformers import BertConfig
        >>> override_config(BertConfig(), {"hidden_dropout_prob": 0.3}).hidden_dropout_prob
        0.3
    """
    if not isinstance(overrides, Mapping):
        raise ValueError(f"config_overrides is a dictionary such as {{'hidden_dropout_prob': 0.1}}, got {overrides!r}.")
    # What every configuration has (labels, dtype, ...) is set elsewhere, or has nothing to do with an encoder.
    fields, common = ({field.name for field in dataclasses.fields(kind)} for kind in (config, PretrainedConfig))
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
