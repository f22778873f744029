"""OpenVINO as a backend. Its extra is imported once an encoder is compiled."""

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
        """Compile an encoder with its present weights, or load what was compiled on this machine before."""
        from .engine import openvino_engine

        encoder.eval()  # a compiled copy cannot be trained: training the encoder later raises an error
        return openvino_engine(encoder, tokenizer, pooling, precision, calibration_texts)
