"""OpenVINO as a backend; the library is imported when an encoder is compiled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..backend import Backend

if TYPE_CHECKING:
    from .engine import OpenVINOEngine


class OpenVINOBackend(Backend):
    """Compiles encoders for a CPU, in float32, in bfloat16, or with matrix products in int8."""

    precisions = ("float32", "bfloat16", "int8")
    uses_accelerator = False

    def make_engine(
        self,
        encoder: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        pooling: str,
        precision: str,
        calibration_texts: Sequence[str] | None,
    ) -> OpenVINOEngine:
        """Compile an encoder with its current weights, or load it if this machine has compiled it before."""
        from .engine import openvino_engine

        encoder.eval()  # a compiled copy cannot be trained, and switching to training mode later raises an error
        return openvino_engine(encoder, tokenizer, pooling, precision, calibration_texts)
