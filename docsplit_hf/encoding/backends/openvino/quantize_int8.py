"""Quantize a model of OpenVINO to int8 in a process of its own, ``python quantize_int8.py FOLDER [--seven_bits]``.

NNCF creates and destroys several cores of OpenVINO, which would later crash the calling process (see
``openvino_core``). The file is run by its path, and imports nothing from docsplit_hf.
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

# SmoothQuant's alpha: how far outliers are moved from activations to weights. Chosen on Wikipedia: from 0.7 to 0.85
# results are similar; NNCF's default of 0.95 keeps a third fewer of the nearest neighbors.
SMOOTH_QUANT_ALPHA = 0.7
# Names of files in the folder that is passed to the process.
MODEL_FILE = "float32.xml"
ROWS_FILE = "rows.npz"
QUANTIZED_FILE = "int8.xml"
SEVEN_BITS = "--seven_bits"


@functools.cache
def openvino_core() -> openvino.Core:
    """The only core of OpenVINO in this process; it is never destroyed.

    A core installs a stack for signal handlers, and restores the previous one when it is destroyed. A second core would
    restore the freed stack of the first, and the next signal would crash the process (openvino 2026.4.1).
    """
    import openvino

    return openvino.Core()


def quantize(model: openvino.Model, rows: Sequence[dict[str, np.ndarray]], seven_bits: bool) -> openvino.Model:
    """Quantize the matrix products of a model to int8, with ranges measured on ``rows``.

    ``rows``: the model's inputs for each text, int64 ``(1, L)``. The first half of the narrowing layers, rounded up,
    stays in float32, because their inputs have outliers: for a model with six layers this keeps 2 percentage points
    more of the nearest neighbors, and costs a fourteenth of the speed. ``seven_bits``: weights use 7 of the 8 bits, for
    processors whose sums would overflow: there, docsplit-small-en keeps 99.4 of 100 nearest neighbors instead of 97.1.
    """
    import openvino

    with tempfile.TemporaryDirectory() as folder:
        openvino.save_model(model, Path(folder) / MODEL_FILE, compress_to_fp16=False)
        np.savez(Path(folder) / ROWS_FILE, **{f"{i}/{name}": row[name] for i, row in enumerate(rows) for name in row})
        # -P: the files beside this one must not be importable. The output is progress bars, and goes to stderr.
        command = [sys.executable, "-P", __file__, folder]
        if seven_bits:
            command.append(SEVEN_BITS)
        done = subprocess.run(command, stdout=2)
        if done.returncode:
            raise RuntimeError(
                f"The process that quantizes ended with {done.returncode}; its output is above. Without output, it ran "
                "out of memory: give fewer calibration_texts, or leave precision='int8' out."
            )
        quantized = Path(folder) / QUANTIZED_FILE  # read into memory, as the folder is deleted
        return openvino_core().read_model(quantized.read_bytes(), quantized.with_suffix(".bin").read_bytes())


def narrowing(model: openvino.Model) -> list[str]:
    """The names of the matrix products with weights of fewer output than input dimensions, in order."""
    names = []
    for product in (operation for operation in model.get_ordered_ops() if operation.get_type_name() == "MatMul"):
        weights = product.input_value(1).get_partial_shape()
        if not weights.is_static or len(weights) != 2:
            continue
        rows, columns = weights.to_shape()
        if rows < columns if product.get_attributes()["transpose_b"] else rows > columns:
            names.append(product.get_friendly_name())
    return names


def main(folder: Path, seven_bits: bool) -> None:
    """Quantize the model that ``quantize`` wrote into ``folder``, and write the result beside it."""
    import nncf
    import openvino
    from nncf.quantization.advanced_parameters import (
        AdvancedQuantizationParameters,
        AdvancedSmoothQuantParameters,
        OverflowFix,
    )

    model = openvino.Core().read_model(folder / MODEL_FILE)
    rows: dict[str, dict[str, np.ndarray]] = {}
    for key, values in np.load(folder / ROWS_FILE, allow_pickle=False).items():
        number, name = key.split("/")
        rows.setdefault(number, {})[name] = values
    narrowing_products = narrowing(model)
    kept_in_float32 = narrowing_products[: -(-len(narrowing_products) // 2)]
    alphas = AdvancedSmoothQuantParameters(matmul=SMOOTH_QUANT_ALPHA)
    quantized = nncf.quantize(
        model,
        nncf.Dataset(list(rows.values())),
        model_type=nncf.ModelType.TRANSFORMER,
        subset_size=len(rows),
        ignored_scope=nncf.IgnoredScope(names=kept_in_float32),
        advanced_parameters=AdvancedQuantizationParameters(
            smooth_quant_alphas=alphas,
            overflow_fix=OverflowFix.ENABLE if seven_bits else OverflowFix.FIRST_LAYER,
        ),
    )
    openvino.save_model(quantized, folder / QUANTIZED_FILE, compress_to_fp16=False)


if __name__ == "__main__":
    main(Path(sys.argv[1]), SEVEN_BITS in sys.argv)
