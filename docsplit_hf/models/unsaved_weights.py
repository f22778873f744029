"""Weights of a model that its checkpoints leave out."""

from __future__ import annotations

from collections.abc import Iterable

from torch import nn
from transformers import PreTrainedModel

# ``_keys_to_ignore_on_save`` is private in transformers 5.23. ``save_pretrained(state_dict=...)`` is no public way: the
# Trainer calls it with the whole state.


def leave_unsaved(model: PreTrainedModel, names: Iterable[str]) -> None:
    """Keep weights out of every checkpoint of a model."""
    model._keys_to_ignore_on_save = {*unsaved_weights(model), *names}


def unsaved_weights(model: nn.Module) -> set[str]:
    """The names of the weights that the checkpoints of a model do not have."""
    return set(model._keys_to_ignore_on_save or ())
