"""Registry of the backends that compute encoders; the options that choose one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..portable.run_encoder import engine_of, set_engine
from .backend import Backend
from .openvino.backend import OpenVINOBackend
from .torch_backend import TorchBackend, computes_in_bfloat16, set_bfloat16

BACKENDS: dict[str, Backend] = {
    "torch": TorchBackend(),
    "openvino": OpenVINOBackend(),
}
Precision = Literal["float32", "bfloat16", "int8"]
PRECISIONS: tuple[str, ...] = get_args(Precision)


@dataclass(frozen=True)
class BackendOptions:
    """What computes an encoder, and in which precision; all None: as it runs already.

    Args:
        backend: A name in ``BACKENDS``. None with a precision: torch.
        precision: One of ``PRECISIONS``. None with a backend: float32.
        calibration_texts: Texts from which int8 learns the ranges of numbers. None: the backend's own.

    Raises:
        ValueError: If a name does not exist, or the options do not fit together.
    """

    backend: str | None = None
    precision: str | None = None
    calibration_texts: Sequence[str] | None = None

    def __post_init__(self) -> None:
        _check_name("backend", self.backend, BACKENDS)
        _check_name("precision", self.precision, PRECISIONS)
        if self.precision is not None and self.precision not in BACKENDS[self.backend or "torch"].precisions:
            able = [name for name, backend in BACKENDS.items() if self.precision in backend.precisions]
            advice = " or ".join(f"backend={name!r}" for name in able)
            raise ValueError(
                f"precision={self.precision!r} is not computed by {self.backend or 'torch'}: pass {advice}."
            )
        if self.calibration_texts is not None and self.precision != "int8":
            raise ValueError("calibration_texts are for precision='int8': leave them out, or pass precision='int8'.")

    @property
    def changes_nothing(self) -> bool:
        """Whether an encoder runs on as it does."""
        return self.backend is None and self.precision is None

    @property
    def uses_accelerator(self) -> bool:
        """Whether an encoder is loaded onto a GPU by default."""
        return BACKENDS[self.backend or "torch"].uses_accelerator


def use_backend(
    encoder: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, pooling: str, options: BackendOptions
) -> None:
    """Have a backend compute an encoder, with its present weights."""
    if options.changes_nothing:
        return
    precision = options.precision or "float32"
    engine = BACKENDS[options.backend or "torch"].make_engine(
        encoder, tokenizer, pooling, precision=precision, calibration_texts=options.calibration_texts
    )
    set_engine(encoder, engine)
    set_bfloat16(encoder, engine is None and precision == "bfloat16")


def precision_settings(encoder: PreTrainedModel) -> dict[str, str]:
    """The precision's part of a fingerprint: empty for float32, in which all backends agree."""
    engine = engine_of(encoder)
    if engine is None:
        return {"precision": "bfloat16"} if computes_in_bfloat16(encoder) else {}
    if engine.precision == "float32":
        return {}
    return {"precision": engine.precision, "exported": engine.key}


def _check_name(option: str, name: str | None, known: Sequence[str] | dict[str, Backend]) -> None:
    if name is not None and name not in known:
        raise ValueError(f"{option} must be one of {', '.join(map(repr, known))}, got {name!r}.")
