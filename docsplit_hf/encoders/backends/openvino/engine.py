"""An encoder compiled by OpenVINO, for a CPU: in float32, in bfloat16, or with matrix products in int8."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch.nn.functional import cosine_similarity, pad
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.modeling_outputs import BaseModelOutput

from ....content_hash import sha256_of_parts
from ....extras import check_extra
from ...checkpoints.fingerprint import encoder_fingerprint
from ...checkpoints.inside_folder import refuse_links
from ...portable.run_encoder import max_positions, pool, run_encoder, without_engine
from .export import (
    SEED,
    VERSION,
    calibration_texts_of,
    convert,
    export_folder,
    input_names,
    load_exported,
    one_at_a_time,
    store_exported,
)
from .quantize_int8 import openvino_core, quantize

if TYPE_CHECKING:
    import openvino

logger = logging.getLogger(__name__)

LEAST_COSINE = {"float32": 0.9999, "bfloat16": 0.99, "int8": 0.9}  # of an embedding to torch's in float32
CALIBRATION_LENGTH = 128  # tokens; the ranges of numbers do not depend on it, and the time does
MEASURED_LENGTH = 512  # tokens
LENGTH_MULTIPLE = 8  # tokens: OpenVINO prepares itself for each new shape, so there should be few
# In int8 OpenVINO chooses the precision of layers that are not quantized: bfloat16, where the processor has it.
HINTS = {"float32": {"INFERENCE_PRECISION_HINT": "f32"}, "bfloat16": {"INFERENCE_PRECISION_HINT": "bf16"}, "int8": {}}

Rows = dict[str, np.ndarray]


class OpenVINOEngine:
    """Computes an encoder's ``last_hidden_state``, float32 ``(N, L, H)``, of padded rows, int64 ``(N, L)``."""

    def __init__(self, model: openvino.Model, precision: str, key: str, longest: int) -> None:
        self.precision = precision
        self.key = key
        self._longest = longest
        self._model = model
        options = {"INFERENCE_NUM_THREADS": torch.get_num_threads(), **HINTS[precision]}
        self._compiled = openvino_core().compile_model(model, "CPU", options)
        self._names = [port.any_name for port in self._compiled.inputs]

    def __call__(self, input_ids: torch.Tensor, **arguments: torch.Tensor) -> BaseModelOutput:
        """Compute the states; ``arguments``: ``attention_mask``, and maybe ``token_type_ids``, by default 0."""
        arguments = {"token_type_ids": torch.zeros_like(input_ids), **arguments, "input_ids": input_ids}
        length = input_ids.shape[1]
        padding = (0, min(-length % LENGTH_MULTIPLE, max(self._longest - length, 0)))
        rows = {name: pad(arguments[name], padding).numpy() for name in self._names}
        # A request of its own, since threads may ask at the same time; its result lives as long as the request.
        found = self._compiled.create_infer_request().infer(rows, share_inputs=True)
        return BaseModelOutput(last_hidden_state=torch.from_numpy(found[0])[:, :length])

    def save(self, folder: str | Path) -> None:
        """Write the model to the path that sentence-transformers reads."""
        import openvino

        name = "openvino_model_qint8_quantized" if self.precision == "int8" else "openvino_model"
        path = Path(folder) / "openvino" / f"{name}.xml"
        path.parent.mkdir(parents=True, exist_ok=True)
        refuse_links(path.parent)
        openvino.save_model(self._model, path, compress_to_fp16=False)

    def __repr__(self) -> str:
        return f"OpenVINO in {self.precision}"


def openvino_engine(
    encoder: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    pooling: str,
    precision: str,
    calibration_texts: Sequence[str] | None,
) -> OpenVINOEngine:
    """Compile an encoder; it is exported once on each machine."""
    exported = "int8" if precision == "int8" else "float32"  # bfloat16 is chosen when it is compiled
    packages = ["openvino", "nncf"] if exported == "int8" else ["openvino"]
    check_extra("openvino", "backend='openvino'")
    if encoder.device.type != "cpu" or encoder.dtype != torch.float32:
        place = f"OpenVINO does not take an encoder on {encoder.device} in {encoder.dtype}"
        raise ValueError(f"{place}: load it with device='cpu' and dtype='float32'.")
    described: list[object] = [encoder_fingerprint(encoder, tokenizer), exported, VERSION]
    described += [version(package) for package in (*packages, "torch", "transformers")]
    if exported == "int8":
        described.append(None if calibration_texts is None else list(calibration_texts))
    key = sha256_of_parts([repr(described).encode()])
    longest = max_positions(encoder) or sys.maxsize
    make = {"input_ids": np.array, "attention_mask": np.ones_like, "token_type_ids": np.zeros_like}

    def rows_of(texts: list[str], length: int) -> list[Rows]:  # (1, L) of each text
        encoded = tokenizer(texts, truncation=True, max_length=min(length, longest))["input_ids"]
        return [{name: make[name]([ids]) for name in input_names(encoder)} for ids in encoded]

    with one_at_a_time(key):
        model = load_exported(key)
        if model is not None:
            return OpenVINOEngine(model, precision, key, longest)
        start = time.perf_counter()
        calibrated, measured = calibration_texts_of(calibration_texts)
        model = convert(encoder)
        if exported == "int8":
            source = "the documentation of installed packages" if calibration_texts is None else "calibration_texts"
            drawn = f"{len(calibrated)} texts of {source}, drawn with seed {SEED}"
            logger.info("Quantizing %s on %s: about a minute, once here.", type(encoder).__name__, drawn)
            model = quantize(model, rows_of(calibrated, CALIBRATION_LENGTH))
        engine = OpenVINOEngine(model, precision, key, longest)
        _check(encoder, engine, rows_of(measured, MEASURED_LENGTH), pooling, time.perf_counter() - start)
        store_exported(model, key)
    return engine


def _check(
    encoder: PreTrainedModel, engine: OpenVINOEngine, rows: Sequence[Rows], pooling: str, seconds: float
) -> None:
    """Log the cosine of an engine's embeddings to torch's in float32, and refuse an engine below ``LEAST_COSINE``."""
    name = type(encoder).__name__
    cosines = _cosines(encoder, engine, rows, pooling)
    least = LEAST_COSINE[engine.precision]
    if not cosines.min() >= least:
        raise ValueError(
            f"{name} by {engine} gives other embeddings than by torch: the cosine of {len(rows)} texts is "
            f"{cosines.mean():.4f}, the least {cosines.min():.4f}, and {least} is asked for. Give calibration_texts "
            "like those that are to be embedded, or take another precision, or backend='torch'."
        )
    message = "%s was exported for %s in %.0f s. Cosine to torch's float32 of %d texts: %.4f, least %.4f. Kept in %s."
    logger.info(message, name, engine, seconds, len(rows), cosines.mean(), cosines.min(), export_folder())


def _cosines(encoder: PreTrainedModel, engine: OpenVINOEngine, rows: Sequence[Rows], pooling: str) -> torch.Tensor:
    """The cosines of embeddings by the engine to those by torch in float32, with padding."""
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
