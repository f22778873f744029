"""By which library an encoder computes, and in which precision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..portable.engine import engine_of, set_engine
from .bfloat16 import compute_in_bfloat16, computes_in_bfloat16

Backend = Literal["torch", "openvino"]
Precision = Literal["float32", "bfloat16", "int8"]

BACKENDS = ("torch", "openvino")
PRECISIONS = ("float32", "bfloat16", "int8")


def check_backend(backend: str | None, precision: str | None, calibration_texts: Sequence[str] | None) -> None:
    """Refuse what does not exist, and what does not go together."""
    if backend not in (None, *BACKENDS):
        raise ValueError(f"backend must be one of {', '.join(map(repr, BACKENDS))}, got {backend!r}.")
    if precision not in (None, *PRECISIONS):
        raise ValueError(f"precision must be one of {', '.join(map(repr, PRECISIONS))}, got {precision!r}.")
    if precision == "int8" and backend != "openvino":
        raise ValueError("precision='int8' is computed by OpenVINO: pass backend='openvino'.")
    if calibration_texts is not None and precision != "int8":
        raise ValueError("calibration_texts are for precision='int8': leave them out, or pass precision='int8'.")


def use_backend(
    encoder: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    pooling: str,
    backend: str | None = None,
    precision: str | None = None,
    calibration_texts: Sequence[str] | None = None,
) -> None:
    """Have an encoder computed by a library in a precision, as its weights are now; both None: as it is."""
    check_backend(backend, precision, calibration_texts)
    if backend is None and precision is None:
        return
    if backend == "openvino":
        from .openvino.engine import openvino_engine  # only who asks for it needs the extra

        encoder.eval()  # what is compiled does not learn: whoever trains the encoder later is told
        set_engine(encoder, openvino_engine(encoder, tokenizer, pooling, precision or "float32", calibration_texts))
    else:
        set_engine(encoder, None)
    compute_in_bfloat16(encoder, backend != "openvino" and precision == "bfloat16")


def precision_settings(encoder: PreTrainedModel) -> dict[str, str]:
    """What a fingerprint says of the precision; nothing of float32, in which all backends agree."""
    engine = engine_of(encoder)
    if engine is not None:
        return {} if engine.precision == "float32" else {"precision": engine.precision, "exported": engine.key}
    return {"precision": "bfloat16"} if computes_in_bfloat16(encoder) else {}
