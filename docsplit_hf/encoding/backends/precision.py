"""The precision that an encoder computes in: float32 or bfloat16 by torch, int8 by OpenVINO on a CPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..portable.run_encoder import engine_of, set_engine
from .torch_backend import IN_BFLOAT16

INT8 = "int8"
Precision = Literal["float32", "bfloat16", "int8"]
PRECISIONS: tuple[str, ...] = get_args(Precision)


def check_precision_options(precision: str | None, calibration_texts: Sequence[str] | None = None) -> None:
    """Refuse a precision that does not exist, and calibration texts for another one than int8."""
    if precision not in (None, *PRECISIONS):
        raise ValueError(f"precision must be one of {', '.join(map(repr, PRECISIONS))}, got {precision!r}.")
    if calibration_texts is not None and precision != INT8:
        raise ValueError("calibration_texts are for precision='int8': leave them out, or pass precision='int8'.")


def use_precision(
    encoder: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    pooling: str,
    precision: str | None,
    calibration_texts: Sequence[str] | None = None,
) -> None:
    """Compute an encoder in a precision from now on, in int8 with its current weights; None: unchanged.

    ``pooling``: of its states, with which a copy in int8 is compared with torch. ``calibration_texts``: those on which
    int8 measures the ranges of numbers; None: the documentation of installed packages.
    """
    check_precision_options(precision, calibration_texts)
    if precision is None:
        return
    engine = None
    if precision == INT8:
        from .openvino.engine import openvino_engine

        encoder.eval()  # a compiled copy cannot be trained, and switching to training mode later raises an error
        engine = openvino_engine(encoder, tokenizer, pooling, calibration_texts)
    set_engine(encoder, engine)
    IN_BFLOAT16.discard(encoder)
    if precision == "bfloat16":
        IN_BFLOAT16.add(encoder)


def precision_settings(encoder: PreTrainedModel) -> dict[str, str]:
    """The part of a fingerprint that depends on the precision: empty for float32."""
    engine = engine_of(encoder)
    if engine is not None:
        return {"precision": INT8, "exported": engine.key}
    return {"precision": "bfloat16"} if encoder in IN_BFLOAT16 else {}
