"""Export an encoder of torch to OpenVINO; exported models are cached on the machine.

No exported model is ever read from a checkpoint's folder or repository: it would be a stranger's graph in a native
parser, and its embeddings might differ from those of the weights beside it. The cache may be deleted at any time.
"""

from __future__ import annotations

import contextlib
import inspect
import logging
import shutil
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn
from transformers import PreTrainedModel

from ....content_hash import sha256_of_file, sha256_of_parts
from ....text.characters import replace_lone_surrogates
from ....text.package_documentation import load_package_documentation
from ....text.tokenization import check_texts
from ...checkpoints.atomic_replacement import locked
from ...checkpoints.inside_folder import write_at_once
from .quantize_int8 import openvino_core

if TYPE_CHECKING:
    import openvino

logger = logging.getLogger(__name__)

VERSION = 2  # raise it when the export changes: cached models are not used then
FILES = ("model.xml", "model.bin")
CALIBRATED = 200  # texts: with more of them the ranges of activations hardly change
MEASURED = 32  # texts
SEED = 0
PACKAGES = ("accelerate", "datasets", "huggingface_hub")  # installed on every machine, and read in seconds


class _States(nn.Module):
    """The encoder as a function of positional inputs, for tracing."""

    def __init__(self, encoder: PreTrainedModel, names: Sequence[str]) -> None:
        super().__init__()
        self.encoder = encoder
        self.names = names

    def forward(self, *values: torch.Tensor) -> torch.Tensor:
        return self.encoder(**dict(zip(self.names, values, strict=True))).last_hidden_state


def convert(encoder: PreTrainedModel) -> openvino.Model:
    """Convert an encoder to a model from its inputs, int64 ``(N, L)``, to ``last_hidden_state``, ``(N, L, H)``."""
    import openvino

    names = input_names(encoder)
    ids = torch.arange(18).view(2, 9) % 7 + 1
    mask = (torch.arange(9) < torch.tensor([[9], [4]])).long()
    example = tuple({"input_ids": ids, "attention_mask": mask}.get(name, torch.zeros_like(ids)) for name in names)
    noisy = logging.getLogger("transformers.modeling_utils")  # tracing warns; its result is measured afterwards
    level = noisy.level
    noisy.setLevel(logging.ERROR)
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = openvino.convert_model(_States(encoder, names).eval(), example_input=example)
    except Exception as error:  # of any kind: it runs the encoder's own code
        name = type(encoder).__name__
        reason = f"{type(error).__name__}: {str(error)[:200]}"
        raise ValueError(f"OpenVINO cannot convert {name} ({reason}): leave backend='openvino' out.") from error
    finally:
        noisy.setLevel(level)
    for port, name in zip(model.inputs, names, strict=True):
        port.set_names({name})
    model.outputs[0].set_names({"last_hidden_state"})
    return model


def input_names(encoder: PreTrainedModel) -> list[str]:
    """The inputs of an encoder, among those that tokenizers give."""
    known = inspect.signature(encoder.forward).parameters
    return [name for name in ("input_ids", "attention_mask", "token_type_ids") if name in known]


def calibration_texts_of(texts: Sequence[str] | None) -> tuple[list[str], list[str]]:
    """Draw texts to calibrate on, and texts to measure on, which are others if there are enough."""
    if texts is None:
        texts = load_package_documentation(PACKAGES, test_size=CALIBRATED + MEASURED, seed=SEED)["test"]["text"]
    check_texts(texts, "Calibration text")
    texts = [replace_lone_surrogates(text) for text in texts if text.strip()]
    if not texts:
        raise ValueError("calibration_texts are empty: give some hundred texts like those that are to be embedded.")
    chosen = np.random.default_rng(SEED).permutation(len(texts))[: CALIBRATED + MEASURED].tolist()
    few = len(chosen) < 4 * MEASURED
    calibrated = chosen if few else chosen[MEASURED:]
    measured = chosen[:MEASURED]
    return [texts[i] for i in calibrated], [texts[i] for i in measured]


def export_folder() -> Path:
    """``docsplit_hf/openvino`` below ``HF_HOME``."""
    from huggingface_hub import constants

    return Path(constants.HF_HOME) / "docsplit_hf" / "openvino"


@contextlib.contextmanager
def one_at_a_time(key: str) -> Iterator[None]:
    """Make other processes that need the same export wait for it."""
    with contextlib.ExitStack() as stack:
        try:
            export_folder().mkdir(parents=True, exist_ok=True)
            stack.enter_context(locked(export_folder() / f"{key}.lock"))
        except OSError as error:
            logger.warning("%s cannot be written to: what is exported is not kept. %s", export_folder(), error)
        yield


def store_exported(model: openvino.Model, key: str) -> None:
    """Cache a model. If that fails, as in a read-only home, a warning is logged."""
    import openvino

    def write(folder: Path) -> None:
        folder.mkdir()
        openvino.save_model(model, folder / FILES[0], compress_to_fp16=False)

    try:
        # The checksum of the content is part of the name, so that the two are never apart.
        write_at_once(export_folder(), write, lambda written: f"{key}-{_sha256_of(written)}")
    except (OSError, RuntimeError) as error:  # OpenVINO raises the latter
        logger.warning("The model could not be kept in %s, and will be exported again: %s", export_folder(), error)


def load_exported(key: str) -> openvino.Model | None:
    """Load a cached model. One that does not match its checksum is deleted with a warning."""
    for path in sorted(export_folder().glob(f"{key}-*")):
        with contextlib.suppress(FileNotFoundError):
            if path.name == f"{key}-{_sha256_of(path)}":
                return openvino_core().read_model(path / FILES[0])
        logger.warning("The exported model %s is damaged: it is deleted and exported again.", path)
        shutil.rmtree(path)
    return None


def _sha256_of(folder: Path) -> str:
    return sha256_of_parts(sha256_of_file(folder / name).encode() for name in FILES)
