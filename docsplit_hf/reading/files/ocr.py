"""Recognize the text of a scanned page with rapidocr, whose models are in its package."""

from __future__ import annotations

import functools
import importlib.util
import signal
import sys
from pathlib import Path

from .failures import MISSING_LIBRARY, Refusal
from .options import MEGABYTE, RAPIDOCR, FileOptions

DOTS_PER_INCH = 200
LARGEST_PICTURE = 20_000_000  # pixels; at 200 dots, a page of A2 has 15 million
MEMORY = 1_000 * MEGABYTE  # of address space, beside that of reading
# rapidocr looks for lines in a picture of this size, and reads them in the full one. At its own size, 2,000, a page
# took twice the seconds and did not fit into the memory.
SIDE_OF_DETECTION = 960
FILES_IN_TIME = 4  # A page has the time of four files: on a slow or busy core it takes a minute.


def memory_of_engine(options: FileOptions) -> int:
    """Return the address space that recognizing takes in this process, or took before: libraries keep it."""
    return MEMORY if options.ocr is not None or RAPIDOCR in sys.modules else 0


def recognize_page(page, options: FileOptions) -> str:
    """Render a page of PDFium and recognize its lines, from the top to the bottom."""
    if signal.getitimer(signal.ITIMER_REAL)[0] > 0:  # in a worker
        signal.setitimer(signal.ITIMER_REAL, FILES_IN_TIME * options.seconds)
    engine = _load_rapidocr()
    width, height = page.get_size()
    largest_scale = (LARGEST_PICTURE / max(1.0, width * height)) ** 0.5
    picture = page.render(scale=min(DOTS_PER_INCH / 72, largest_scale), grayscale=True).to_numpy()
    lines = engine(picture.reshape(picture.shape[:2])).txts
    return "\n".join(lines or ())


@functools.cache
def _load_rapidocr():
    """Load rapidocr with the models in its package, by their paths: it downloads what it is not given."""
    if importlib.util.find_spec("onnxruntime") is None:
        raise Refusal(MISSING_LIBRARY, "rapidocr needs onnxruntime")
    try:
        import rapidocr
    except ModuleNotFoundError as error:
        raise Refusal(MISSING_LIBRARY, str(error)) from error
    settings = {
        "Global.log_level": "error",
        "Global.use_cls": False,  # which lines are upside down
        "Global.max_side_len": 10_000,  # the picture is as large as it shall be
        "Det.limit_type": "max",
        "Det.limit_side_len": SIDE_OF_DETECTION,
        "Det.model_path": _model("*_det_*.onnx", rapidocr.__file__),
        "Rec.model_path": _model("*_rec_*.onnx", rapidocr.__file__),
        "Rec.rec_batch_num": 1,  # lines of other lengths are filled up to the longest of a batch
        "EngineConfig.onnxruntime.intra_op_num_threads": 1,  # each core has a worker
        "EngineConfig.onnxruntime.inter_op_num_threads": 1,
    }
    return rapidocr.RapidOCR(params=settings)


def _model(pattern: str, package: str) -> str:
    """The path of a model in the package."""
    found = sorted(Path(package).with_name("models").glob(pattern))
    if len(found) != 1:
        raise Refusal(MISSING_LIBRARY, f"rapidocr has {len(found)} models {pattern}, not one: install 3.10")
    return str(found[0])
