"""An encoder compiled by OpenVINO, for a CPU, with matrix products in int8; exported models are cached on the machine.

Exported models in a checkpoint's folder or repository are never read: a native parser would run on a stranger's file,
and its embeddings might differ from those of the weights beside it.
"""

from __future__ import annotations

import functools
import inspect
import logging
import sys
import time
import warnings
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch.nn.functional import cosine_similarity, pad
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.modeling_outputs import BaseModelOutput

from ....content_hash import cache_folder, sha256_of_parts
from ....extras import check_extra
from ....reading.characters import replace_lone_surrogates
from ....reading.package_documentation import load_package_documentation
from ....reading.tokenization import check_texts
from ....storage.inside_folder import write_at_once
from ...checkpoints.fingerprint import encoder_fingerprint
from ...portable.run_encoder import max_positions, pool, run_encoder, without_engine
from ..instructions import int8_overflows
from .quantize_int8 import openvino_core, quantize

if TYPE_CHECKING:
    import openvino

logger = logging.getLogger(__name__)

VERSION = 2  # raise it when the export changes, so that older cached models are not used
FILE = "model.xml"  # and model.bin beside it
CALIBRATION_TEXTS = 200  # with more texts the ranges of activations hardly change
MEASUREMENT_TEXTS = 32
SEED = 0
PACKAGES = ("accelerate", "datasets", "huggingface_hub")  # always installed, and their documentation is read in seconds
LEAST_COSINE = 0.9  # between an embedding and torch's in float32
CALIBRATION_LENGTH = 128  # tokens; more take longer without changing the ranges of numbers
MEASURED_LENGTH = 512  # tokens
LENGTH_MULTIPLE = 8  # tokens; OpenVINO compiles anew for each shape, so lengths are rounded up

Rows = dict[str, np.ndarray]


class OpenVINOEngine:
    """Computes an encoder's ``last_hidden_state``, float32 ``(N, L, H)``, for padded rows, int64 ``(N, L)``."""

    def __init__(self, model: openvino.Model, key: str, longest: int) -> None:
        self.key = key  # engines with different embeddings have different keys
        self._longest = longest
        # OpenVINO chooses the precision of layers that are not quantized: bfloat16 if the processor has it.
        options = {"INFERENCE_NUM_THREADS": torch.get_num_threads()}
        self._compiled = openvino_core().compile_model(model, "CPU", options)
        self._names = [port.any_name for port in self._compiled.inputs]

    def __call__(self, input_ids: torch.Tensor, **arguments: torch.Tensor) -> BaseModelOutput:
        """Compute the states; ``arguments``: ``attention_mask``, and optionally ``token_type_ids``, 0 by default."""
        arguments = {"token_type_ids": torch.zeros_like(input_ids), **arguments, "input_ids": input_ids}
        length = input_ids.shape[1]
        padding = (0, min(-length % LENGTH_MULTIPLE, max(self._longest - length, 0)))
        rows = {name: pad(arguments[name], padding).numpy() for name in self._names}
        # Each call has its own request, because several threads may call, and requests own their results.
        results = self._compiled.create_infer_request().infer(rows, share_inputs=True)
        return BaseModelOutput(last_hidden_state=torch.from_numpy(results[0])[:, :length])

    def __repr__(self) -> str:
        return "OpenVINO in int8"


def openvino_engine(
    encoder: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    pooling: str,
    calibration_texts: Sequence[str] | None,
) -> OpenVINOEngine:
    """Compile an encoder; the first time on this machine, it is exported to OpenVINO, and quantized."""
    check_extra("openvino", "precision='int8'")
    if encoder.device.type != "cpu" or encoder.dtype != torch.float32:
        raise ValueError(
            f"OpenVINO cannot run an encoder on {encoder.device} in {encoder.dtype}: load it with device='cpu' and "
            "dtype='float32'."
        )
    seven_bits = int8_overflows()
    if seven_bits:
        warn_of_slow_int8()
    key = _export_key(encoder, tokenizer, calibration_texts, seven_bits)
    longest = max_positions(encoder) or sys.maxsize
    model = load_exported(key)
    if model is not None:
        return OpenVINOEngine(model, key, longest)
    start = time.perf_counter()
    for_calibration, for_measurement = calibration_texts_of(calibration_texts)
    source = "the documentation of installed packages" if calibration_texts is None else "calibration_texts"
    logger.info(
        "Quantizing %s on %d texts of %s, drawn with seed %d: about a minute, once on this machine.",
        type(encoder).__name__,
        len(for_calibration),
        source,
        SEED,
    )
    rows = _rows_of(for_calibration, encoder, tokenizer, min(CALIBRATION_LENGTH, longest))
    model = quantize(convert(encoder), rows, seven_bits)
    engine = OpenVINOEngine(model, key, longest)
    rows = _rows_of(for_measurement, encoder, tokenizer, min(MEASURED_LENGTH, longest))
    _check(encoder, engine, rows, pooling, time.perf_counter() - start)
    store_exported(model, key)
    return engine


@functools.cache  # once in a process
def warn_of_slow_int8() -> None:
    """Warn that float32 is faster on this processor."""
    logger.warning(
        "This processor has no instructions for int8 (VNNI), and is slower with it than with float32: leave "
        "precision='int8' out."
    )


def _export_key(
    encoder: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    calibration_texts: Sequence[str] | None,
    seven_bits: bool,
) -> str:
    """The SHA-256 of everything that an exported model depends on."""
    described: list[object] = [encoder_fingerprint(encoder, tokenizer), "int8", VERSION]
    described += [version(package) for package in ("openvino", "nncf", "torch", "transformers")]
    described.append(None if calibration_texts is None else list(calibration_texts))
    if seven_bits:
        described.append("seven bits")
    return sha256_of_parts([repr(described).encode()])


def _rows_of(
    texts: list[str], encoder: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, max_length: int
) -> list[Rows]:
    """The encoder's inputs for each text, ``(1, L)`` each, at most ``max_length`` tokens."""
    make = {"input_ids": np.array, "attention_mask": np.ones_like, "token_type_ids": np.zeros_like}
    encoded = tokenizer(texts, truncation=True, max_length=max_length)["input_ids"]
    return [{name: make[name]([ids]) for name in input_names(encoder)} for ids in encoded]


def _check(
    encoder: PreTrainedModel, engine: OpenVINOEngine, rows: Sequence[Rows], pooling: str, seconds: float
) -> None:
    """Log the cosine between an engine's embeddings and torch's; refuse an engine below ``LEAST_COSINE``."""
    name = type(encoder).__name__
    cosines = _cosines(encoder, engine, rows, pooling)
    if not cosines.min() >= LEAST_COSINE:
        raise ValueError(
            f"{name} by {engine} gives other embeddings than by torch: the mean cosine of {len(rows)} texts is "
            f"{cosines.mean():.4f}, the least {cosines.min():.4f}, and each must be at least {LEAST_COSINE}. "
            "Give calibration_texts like those to be embedded, or choose another precision."
        )
    logger.info(
        "%s was exported for %s in %.0f s. Cosine to torch's float32 of %d texts: %.4f, least %.4f. Kept in %s.",
        name,
        engine,
        seconds,
        len(rows),
        cosines.mean(),
        cosines.min(),
        cache_folder("openvino"),
    )


def _cosines(encoder: PreTrainedModel, engine: OpenVINOEngine, rows: Sequence[Rows], pooling: str) -> torch.Tensor:
    """The cosine between each text's embeddings by the engine and by torch in float32, both with padding: ``(N,)``."""
    cosines = []
    longest = max_positions(encoder) or sys.maxsize
    with torch.inference_mode(), without_engine(encoder):
        for row in rows:
            padding = (0, min(5, longest - row["input_ids"].shape[1]))
            padded = {name: pad(torch.from_numpy(values), padding) for name, values in row.items()}
            mask = padded["attention_mask"]
            expected = run_encoder(encoder, **padded).last_hidden_state
            computed = engine(**padded).last_hidden_state
            cosines.append(cosine_similarity(pool(expected, mask, pooling), pool(computed, mask, pooling)))
    return torch.cat(cosines)


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
        reason = f"{type(error).__name__}: {str(error)[:200]}"
        raise ValueError(
            f"OpenVINO cannot convert {type(encoder).__name__} ({reason}): leave precision='int8' out."
        ) from error
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
