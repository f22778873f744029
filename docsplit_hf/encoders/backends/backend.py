"""Base class of the libraries that compute encoders, and of the engines that they make."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Protocol

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import ModelOutput


class Engine(Protocol):
    """A compiled copy of an encoder, called in place of its forward."""

    precision: str
    key: str  # differs between engines that compute different embeddings from the same weights

    def __call__(self, input_ids: torch.Tensor, **arguments: torch.Tensor) -> ModelOutput:
        """Compute ``last_hidden_state``, float32 ``(N, L, H)``, from padded rows, int64 ``(N, L)``."""
        ...

    def save(self, folder: str | Path) -> None:
        """Write the compiled encoder into the folder of a checkpoint."""
        ...


class Backend(ABC):
    """A library that computes encoders; ``BACKENDS`` lists those that exist."""

    precisions: ClassVar[tuple[str, ...]]  # those that it computes in
    uses_accelerator: ClassVar[bool] = True  # whether an encoder is loaded onto a GPU by default

    @abstractmethod
    def make_engine(
        self,
        encoder: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        pooling: str,
        precision: str,
        calibration_texts: Sequence[str] | None,
    ) -> Engine | None:
        """Compile an encoder with its present weights; None if its own forward is to run."""
