"""Arguments for the encoder, shared by ``docsplit embed`` and ``docsplit embed-corpus``."""

from dataclasses import dataclass

from transformers.hf_argparser import HfArg

from ...encoding.backends.openvino.export import CALIBRATION_TEXTS, MEASUREMENT_TEXTS
from ...encoding.backends.precision import PRECISIONS
from ...encoding.checkpoints.checkpoint import DEFAULT_CHECKPOINT
from ...encoding.chunking import SINGLE_VECTOR

INT8_TEXTS = CALIBRATION_TEXTS + MEASUREMENT_TEXTS  # the first are for calibrating int8, the others for measuring it


@dataclass
class EncoderArguments:
    """Encoder, and the part of each text that it reads."""

    model_name_or_path: str | None = HfArg(
        default=None, help=f"An encoder on the Hub or a folder. Default: {DEFAULT_CHECKPOINT}, which is included."
    )
    max_length: int | None = HfArg(default=None, help="Longest text in tokens. Default: the encoder's own.")
    long_documents: str = HfArg(
        default="first",
        help="Part of longer texts to read: 'first', the beginning; 'head_tail', beginning and end; 'average', "
        "all of it; 'whole', the beginning, and all of it.",
        metadata={"choices": list(SINGLE_VECTOR)},
    )
    precision: str = HfArg(
        default="float32",
        help="'bfloat16' is faster on processors that support it. 'int8' is the fastest on a CPU, from a few "
        "thousand texts on, with slightly different embeddings: it uses OpenVINO (pip install -e '.[openvino]'), and "
        f"is quantized on {CALIBRATION_TEXTS} of the texts.",
        metadata={"choices": list(PRECISIONS)},
    )
