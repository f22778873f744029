"""From an encoder of torch to a model of OpenVINO, and the texts on which int8 is calibrated."""

from __future__ import annotations

import contextlib
import inspect
import logging
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ....text.lone_surrogates import replace_lone_surrogates
from ...portable.positions import max_positions
from ..batching import check_texts

if TYPE_CHECKING:
    import openvino

VERSION = 1  # to be raised when what is exported changes: what is kept is not used then
CALIBRATED, MEASURED = 200, 32  # texts: from more of them the ranges of activations hardly change
CALIBRATION_LENGTH, MEASURED_LENGTH = 128, 512  # tokens; ranges do not depend on the length, and the time does
SEED = 0
PACKAGES = ("accelerate", "datasets", "huggingface_hub")  # there on every machine, and read in seconds

Rows = dict[str, np.ndarray]


class _States(nn.Module):
    """The encoder as a function of what it reads, by position, as tracing wants it."""

    def __init__(self, encoder: PreTrainedModel, names: Sequence[str]) -> None:
        super().__init__()
        self.encoder, self.names = encoder, names

    def forward(self, *values: torch.Tensor) -> torch.Tensor:
        return self.encoder(**dict(zip(self.names, values, strict=True))).last_hidden_state


def convert(encoder: PreTrainedModel) -> openvino.Model:
    """``input_ids``, ``attention_mask``, maybe ``token_type_ids``, int64 (N, L), to ``last_hidden_state`` (N, L, H)."""
    import openvino

    names = input_names(encoder)
    ids = torch.arange(18).view(2, 9) % 7 + 1
    mask = (torch.arange(9) < torch.tensor([[9], [4]])).long()
    example = tuple({"input_ids": ids, "attention_mask": mask}.get(name, torch.zeros_like(ids)) for name in names)
    with torch.no_grad(), _quiet():
        try:
            model = openvino.convert_model(_States(encoder, names).eval(), example_input=example)
        except Exception as error:  # of any kind: it runs the encoder's own code
            raise ValueError(
                f"OpenVINO cannot convert {type(encoder).__name__} ({type(error).__name__}: {str(error)[:200]}): leave "
                "backend='openvino' out."
            ) from error
    for port, name in zip(model.inputs, names, strict=True):
        port.set_names({name})
    model.outputs[0].set_names({"last_hidden_state"})
    return model


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without the warnings of tracing, whose outcome is measured afterwards."""
    noisy = logging.getLogger("transformers.modeling_utils")
    level = noisy.level
    noisy.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        noisy.setLevel(level)


def input_names(encoder: PreTrainedModel) -> list[str]:
    """What an encoder reads, of what tokenizers give."""
    known = inspect.signature(encoder.forward).parameters
    return [name for name in ("input_ids", "attention_mask", "token_type_ids") if name in known]


def calibration_rows(
    encoder: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: Sequence[str] | None
) -> tuple[list[Rows], list[Rows]]:
    """Inputs (1, L) to calibrate on, and others to measure on, if there are enough; drawn with a seed."""
    if texts is None:
        from ....text.package_documentation import load_package_documentation

        texts = load_package_documentation(PACKAGES, test_size=CALIBRATED + MEASURED, seed=SEED)["test"]["text"]
    check_texts(texts, "Calibration text")
    texts = [replace_lone_surrogates(text) for text in texts if text.strip()]
    if not texts:
        raise ValueError("calibration_texts are empty: give some hundred texts like those that are to be embedded.")
    chosen = np.random.default_rng(SEED).permutation(len(texts))[: CALIBRATED + MEASURED].tolist()
    few = len(chosen) < 4 * MEASURED
    measured, calibrated = chosen[:MEASURED], chosen if few else chosen[MEASURED:]
    return tuple(
        _rows([texts[i] for i in numbers], encoder, tokenizer, length)
        for numbers, length in ((calibrated, CALIBRATION_LENGTH), (measured, MEASURED_LENGTH))
    )


def _rows(texts: list[str], encoder: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, length: int) -> list[Rows]:
    length = min(length, max_positions(encoder) or length)
    encoded = tokenizer(texts, truncation=True, max_length=length)["input_ids"]
    ids = [np.array([row], dtype=np.int64) for row in encoded]
    values = {"attention_mask": np.ones_like, "token_type_ids": np.zeros_like}
    others = input_names(encoder)[1:]
    return [{"input_ids": row, **{name: values[name](row) for name in others}} for row in ids]
