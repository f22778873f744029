"""Export an encoder from torch to OpenVINO; exported models are cached on the machine.

Exported models in a checkpoint's folder or repository are never read: a native parser would run on a stranger's file,
and its embeddings might differ from those of the weights beside it. The cache may be deleted at any time.
"""

from __future__ import annotations

import inspect
import logging
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from transformers import PreTrainedModel

from ....content_hash import cache_folder
from ....reading.characters import replace_lone_surrogates
from ....reading.package_documentation import load_package_documentation
from ....reading.tokenization import check_texts
from ....storage.inside_folder import write_at_once
from .quantize_int8 import openvino_core

if TYPE_CHECKING:
    import openvino

logger = logging.getLogger(__name__)

VERSION = 2  # raise it when the export changes, so that older cached models are not used
FILE = "model.xml"  # and model.bin beside it
CALIBRATION_TEXTS = 200  # with more texts the ranges of activations hardly change
MEASUREMENT_TEXTS = 32
SEED = 0
PACKAGES = ("accelerate", "datasets", "huggingface_hub")  # always installed, and their documentation is read in seconds


def convert(encoder: PreTrainedModel) -> openvino.Model:
    """Convert an encoder to a model of OpenVINO: from int64 ``(N, L)`` to ``last_hidden_state``, ``(N, L, H)``."""
    import openvino

    # Tracing warns of many things; instead, the result is compared with torch's afterwards.
    tracing_logger = logging.getLogger("transformers.modeling_utils")
    level = tracing_logger.level
    tracing_logger.setLevel(logging.ERROR)
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = openvino.convert_model(encoder.eval(), example_input=example_inputs(encoder))
    except Exception as error:  # the encoder's own code runs, and may raise anything
        name = type(encoder).__name__
        reason = f"{type(error).__name__}: {str(error)[:200]}"
        raise ValueError(f"OpenVINO cannot convert {name} ({reason}): leave precision='int8' out.") from error
    finally:
        tracing_logger.setLevel(level)
    return openvino.Model([model.outputs[0]], model.get_parameters())  # without the output of a pooler


def input_names(encoder: PreTrainedModel) -> list[str]:
    """The names of an encoder's inputs, among those that tokenizers make."""
    known = inspect.signature(encoder.forward).parameters
    return [name for name in ("input_ids", "attention_mask", "token_type_ids") if name in known]


def example_inputs(encoder: PreTrainedModel) -> dict[str, torch.Tensor]:
    """Two rows to trace an encoder with, int64 ``(2, 9)`` each: tokens, their mask, and zeros for other inputs."""
    ids = torch.arange(18).view(2, 9) % 7 + 1
    inputs = {name: torch.zeros_like(ids) for name in input_names(encoder)}
    mask = (torch.arange(9) < torch.tensor([[9], [4]])).long()
    return inputs | {"input_ids": ids, "attention_mask": mask}


def calibration_texts_of(texts: Sequence[str] | None) -> tuple[list[str], list[str]]:
    """Draw texts for calibration, and texts to compare with torch on; the two are disjoint if there are enough."""
    drawn = CALIBRATION_TEXTS + MEASUREMENT_TEXTS
    if texts is None:
        texts = load_package_documentation(PACKAGES, test_size=drawn, seed=SEED)["test"]["text"]
    check_texts(texts, "Calibration text")
    texts = [replace_lone_surrogates(text) for text in texts if text.strip()]
    if not texts:
        raise ValueError("calibration_texts are empty: give some hundred texts like those to be embedded.")
    chosen = np.random.default_rng(SEED).permutation(len(texts))[:drawn].tolist()
    are_disjoint = len(chosen) >= 4 * MEASUREMENT_TEXTS
    for_calibration = chosen[MEASUREMENT_TEXTS:] if are_disjoint else chosen
    for_measurement = chosen[:MEASUREMENT_TEXTS]
    return [texts[i] for i in for_calibration], [texts[i] for i in for_measurement]


def store_exported(model: openvino.Model, key: str) -> None:
    """Cache an exported model; a failure, such as a read-only home, is logged."""
    import openvino

    def write(folder: Path) -> None:
        folder.mkdir()
        openvino.save_model(model, folder / FILE, compress_to_fp16=False)

    try:
        write_at_once(cache_folder("openvino") / key, write)
    except (OSError, RuntimeError) as error:  # RuntimeError: from OpenVINO
        logger.warning("The model could not be kept on this machine, and will be exported again: %s", error)


def load_exported(key: str) -> openvino.Model | None:
    """Load a cached model; None if there is none."""
    file = cache_folder("openvino") / key / FILE
    return openvino_core().read_model(file) if file.is_file() else None
