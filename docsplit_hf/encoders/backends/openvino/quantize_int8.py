"""Quantize a model of OpenVINO to int8 in a separate program, ``python quantize_int8.py FOLDER``.

NNCF creates and destroys several cores of OpenVINO, which must not happen in a process that goes on (see
``openvino_core``). The file is run by its path, and imports nothing of this package.
"""

from __future__ import annotations

import functools
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import openvino

# SmoothQuant's share of the outliers that moves from activations to weights. NNCF's own, 0.95, leaves a third less of
# the neighbors in place (chosen on Wikipedia; from 0.7 to 0.85 little changes).
SMOOTHING = 0.7
MODEL = "float32.xml"
ROWS = "rows.npz"
QUANTIZED = "int8.xml"


@functools.cache
def openvino_core() -> openvino.Core:
    """The only core of OpenVINO in a process, never destroyed.

    A core installs its own stack for signals, and restores the previous one when it is destroyed. A second core would
    restore the stack of the first, which is freed: the next signal would crash the process (openvino 2026.4.1).
    """
    import openvino

    return openvino.Core()


def quantize(model: openvino.Model, rows: Sequence[dict[str, np.ndarray]]) -> openvino.Model:
    """Quantize the matrix products of a model to int8, with ranges measured on ``rows``.

    The first half of the narrowing layers, rounded up, stay in float32, since their inputs have outliers: this keeps 2
    percentage points more of the nearest neighbors of a model with six layers, for a fourteenth of the speed.
    """
    import openvino

    with tempfile.TemporaryDirectory() as folder:
        openvino.save_model(model, Path(folder) / MODEL, compress_to_fp16=False)
        np.savez(Path(folder) / ROWS, **{f"{i}/{name}": row[name] for i, row in enumerate(rows) for name in row})
        # -P: the files beside this one are no modules for it. Its output goes to stderr, as it is progress bars.
        done = subprocess.run([sys.executable, "-P", __file__, folder], stdout=2)
        if done.returncode:
            raise RuntimeError(
                f"The program that quantizes ended with {done.returncode}; its output is above. Without output, "
                "memory was short: give fewer calibration_texts, or leave precision='int8' out."
            )
        quantized = Path(folder) / QUANTIZED  # read whole, as the folder is deleted
        return openvino_core().read_model(quantized.read_bytes(), quantized.with_suffix(".bin").read_bytes())


def narrowing(model: openvino.Model) -> list[str]:
    """The names of the matrix products by weights with fewer output than input dimensions, in order."""
    names = []
    for product in (operation for operation in model.get_ordered_ops() if operation.get_type_name() == "MatMul"):
        weights = product.input_value(1).get_partial_shape()
        if weights.is_static and len(weights) == 2:
            rows, columns = weights.to_shape()
            narrows = rows < columns if product.get_attributes()["transpose_b"] else rows > columns
            names += [product.get_friendly_name()] * narrows
    return names


def main(folder: Path) -> None:
    """Write the quantized model beside the files of ``quantize``."""
    import nncf
    import openvino
    from nncf.quantization.advanced_parameters import AdvancedQuantizationParameters, AdvancedSmoothQuantParameters

    model = openvino.Core().read_model(folder / MODEL)
    rows: dict[str, dict[str, np.ndarray]] = {}
    for key, values in np.load(folder / ROWS, allow_pickle=False).items():
        number, name = key.split("/")
        rows.setdefault(number, {})[name] = values
    narrow = narrowing(model)
    smoothing = AdvancedSmoothQuantParameters(matmul=SMOOTHING)
    quantized = nncf.quantize(
        model,
        nncf.Dataset(list(rows.values())),
        model_type=nncf.ModelType.TRANSFORMER,
        subset_size=len(rows),
        ignored_scope=nncf.IgnoredScope(names=narrow[: -(-len(narrow) // 2)]),
        advanced_parameters=AdvancedQuantizationParameters(smooth_quant_alphas=smoothing),
    )
    openvino.save_model(quantized, folder / QUANTIZED, compress_to_fp16=False)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
