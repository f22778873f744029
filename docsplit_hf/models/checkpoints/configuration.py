"""override_config: a model's configuration with other values."""

from __future__ import annotations

import copy
import dataclasses
import difflib
from collections.abc import Mapping
from typing import Any

from huggingface_hub.errors import StrictDataclassError
from transformers import PretrainedConfig


def override_config(config: PretrainedConfig, overrides: Mapping[str, Any]) -> PretrainedConfig:
    """A copy with other values of settings of its architecture, such as ``{"hidden_dropout_prob": 0.1}``."""
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
