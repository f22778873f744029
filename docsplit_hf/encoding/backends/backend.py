"""Backend, the base class of libraries that run encoders; Engine, the interface of the encoders that they compile."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Protocol

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import ModelOutput


class Engine(Protocol):
    """A compiled copy of an encoder, called in place of its forward."""

    precision: str  # "float32", "bfloat16" or "int8"
    key: str  # identifies the compiled copy: engines with different embeddings have different keys

    def __call__(self, input_ids: torch.Tensor, **arguments: torch.Tensor) -> ModelOutput:
        """Compute ``last_hidden_state``, float32 ``(N, L, H)``, from padded rows, int64 ``(N, L)``."""
        ...


class Backend(ABC):
    """A library that runs encoders; ``BACKENDS`` lists all of them."""

    precisions: ClassVar[tuple[str, ...]]  # supported precisions
    uses_accelerator: ClassVar[bool] = True  # whether encoders are loaded onto a GPU by default

    @abstractmethod
    def make_engine(
        self,
        encoder: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        pooling: str,
        precision: str,
        calibration_texts: Sequence[str] | None,
    ) -> Engine | None:
        """Compile an encoder with its current weights; None if the encoder's own forward is used.

        Args:
            encoder: The encoder.
            tokenizer: Its tokenizer, for calibration texts.
            pooling: Pooling of its states, with which the compiled copy is checked.
            precision: One of ``precisions``.
            calibration_texts: Texts on which int8 measures the ranges of numbers. None: the backend's own.
        """
