"""With which encoder texts are embedded, and how: arguments that scripts which embed have in common."""

from dataclasses import dataclass

from transformers.hf_argparser import HfArg

from docsplit_hf.models.checkpoints.checkpoint import DEFAULT_CHECKPOINT
from docsplit_hf.models.inference.backends import PRECISIONS
from docsplit_hf.models.inference.long_documents import SINGLE_VECTOR
from docsplit_hf.models.inference.openvino.export import CALIBRATED, MEASURED

DRAWN = CALIBRATED + MEASURED  # texts that int8 learns the ranges of numbers from, and is measured on


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
        f"{CALIBRATED} of the texts.",
        metadata={"choices": list(PRECISIONS)},
    )
