"""Arguments that ``docsplit embed`` and ``docsplit embed-corpus`` share: the encoder, and how it reads texts."""

from dataclasses import dataclass

from transformers.hf_argparser import HfArg

from ..encoders.backends.openvino.export import CALIBRATION_TEXTS, MEASUREMENT_TEXTS
from ..encoders.backends.registry import PRECISIONS
from ..encoders.checkpoints.checkpoint import DEFAULT_CHECKPOINT
from ..encoders.chunking import SINGLE_VECTOR

INT8_TEXTS = CALIBRATION_TEXTS + MEASUREMENT_TEXTS  # int8 is calibrated on the first ones, and measured on the others


@dataclass
class EncoderArguments:
    """The encoder, and what it reads of a text."""

    model_name_or_path: str | None = HfArg(
        default=None, help=f"An encoder on the Hub or a folder. Default: {DEFAULT_CHECKPOINT}, which ships."
    )
    max_length: int | None = HfArg(default=None, help="Longest text in tokens. Default: the encoder's own.")
    long_documents: str = HfArg(
        default="first",
        help="What is read of longer texts: 'first', the beginning; 'head_tail', beginning and end; 'average', all; "
        "'whole', the beginning and all together.",
        metadata={"choices": list(SINGLE_VECTOR)},
    )
    precision: str = HfArg(
        default="float32",
        help="'bfloat16' is faster where the processor has it. 'int8' is the fastest on a CPU, from some thousand "
        "texts on, and not quite the same: by OpenVINO (pip install -e '.[openvino]'), quantized on "
        f"{CALIBRATION_TEXTS} of the texts.",
        metadata={"choices": list(PRECISIONS)},
    )
