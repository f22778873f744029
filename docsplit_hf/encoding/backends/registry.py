"""Registry of the backends that run encoders, and the options that choose one."""

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
    """The library that runs an encoder, and its precision; all None: unchanged.

    Args:
        backend: A name in ``BACKENDS``. None: the first one that has the precision.
        precision: One of ``PRECISIONS``. None: float32 if a backend is given.
        calibration_texts: Texts on which int8 measures the ranges of numbers. None: the backend's own.

    Raises:
        ValueError: If there is no such backend or precision, or the options do not fit together.
    """

    backend: str | None = None
    precision: str | None = None
    calibration_texts: Sequence[str] | None = None

    def __post_init__(self) -> None:
        _check_name("backend", self.backend, BACKENDS)
        _check_name("precision", self.precision, PRECISIONS)
        if self.precision is not None and self.precision not in BACKENDS[self.name].precisions:
            alternatives = [name for name, backend in BACKENDS.items() if self.precision in backend.precisions]
            advice = " or ".join(f"backend={name!r}" for name in alternatives)
            raise ValueError(f"{self.name} has no precision={self.precision!r}: pass {advice}.")
        if self.calibration_texts is not None and self.precision != "int8":
            raise ValueError("calibration_texts are for precision='int8': leave them out, or pass precision='int8'.")

    @property
    def name(self) -> str:
        """The name of the backend."""
        found = (name for name, backend in BACKENDS.items() if self.precision in (None, *backend.precisions))
        return self.backend or next(found)

    @property
    def changes_nothing(self) -> bool:
        """Whether encoders are left unchanged."""
        return self.backend is None and self.precision is None

    @property
    def uses_accelerator(self) -> bool:
        """Whether encoders are loaded onto a GPU by default."""
        return BACKENDS[self.name].uses_accelerator


def use_backend(
    encoder: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, pooling: str, options: BackendOptions
) -> None:
    """Run an encoder by a backend from now on, with the encoder's current weights."""
    if options.changes_nothing:
        return
    precision = options.precision or "float32"
    engine = BACKENDS[options.name].make_engine(
        encoder, tokenizer, pooling, precision=precision, calibration_texts=options.calibration_texts
    )
    set_engine(encoder, engine)
    set_bfloat16(encoder, engine is None and precision == "bfloat16")


def precision_settings(encoder: PreTrainedModel) -> dict[str, str]:
    """The part of a fingerprint that depends on the precision: empty for float32, in which all backends agree."""
    engine = engine_of(encoder)
    if engine is None:
        return {"precision": "bfloat16"} if computes_in_bfloat16(encoder) else {}
    if engine.precision == "float32":
        return {}
    return {"precision": engine.precision, "exported": engine.key}


def _check_name(option: str, name: str | None, known: Sequence[str] | dict[str, Backend]) -> None:
    """Refuse a name that is not one of the known ones."""
    if name is not None and name not in known:
        raise ValueError(f"{option} must be one of {', '.join(map(repr, known))}, got {name!r}.")
