"""Recognize the text of a scanned page with an engine that is installed: the program tesseract, or rapidocr."""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

from ..failures import DAMAGED, MISSING_LIBRARY, MISSING_PROGRAM, TIMED_OUT, Refusal
from ..options import MEGABYTE, RAPIDOCR, TESSERACT, FileOptions

DOTS_PER_INCH = {TESSERACT: 300, RAPIDOCR: 200}
LARGEST_PICTURE = {TESSERACT: 50_000_000, RAPIDOCR: 20_000_000}  # pixels; at 300 dots, a page of A2 has 35 million
# Seconds of a core for a page of a contract: medians of docs/results/file_readers/scans.jsonl, on a busy machine.
SECONDS_OF_PAGE = {TESSERACT: 4.5, RAPIDOCR: 6.5}
MEMORY_OF_RAPIDOCR = 1_000 * MEGABYTE  # of address space, beside that of reading
# rapidocr looks for lines in a picture of this size, and reads them in the full one. At its own size, 2,000, a page
# took twice the seconds and did not fit into the memory.
SIDE_OF_DETECTION = 960
FILES_IN_TIME = 4  # A page has the time of four files: on a slow or busy core it takes a minute.


def installed_engine() -> str:
    """Return the engine to use where none is named: tesseract, unless only rapidocr is installed."""
    has_rapidocr = importlib.util.find_spec(RAPIDOCR) is not None
    return RAPIDOCR if has_rapidocr and shutil.which(TESSERACT) is None else TESSERACT


def memory_of_engine(options: FileOptions) -> int:
    """Return the address space that recognizing takes in this process, or took before: libraries keep it."""
    return MEMORY_OF_RAPIDOCR if options.ocr == RAPIDOCR or RAPIDOCR in sys.modules else 0


def recognize_page(page, options: FileOptions) -> str:
    """Render a page of PDFium and recognize its text."""
    if signal.getitimer(signal.ITIMER_REAL)[0] > 0:  # in a worker
        signal.setitimer(signal.ITIMER_REAL, FILES_IN_TIME * options.seconds)
    return _run_rapidocr(page) if options.ocr == RAPIDOCR else _run_tesseract(page, options)


def _render(page, engine: str):
    """The gray picture of a page, as large as an engine reads it."""
    width, height = page.get_size()
    largest_scale = (LARGEST_PICTURE[engine] / max(1.0, width * height)) ** 0.5
    return page.render(scale=min(DOTS_PER_INCH[engine] / 72, largest_scale), grayscale=True)


def _run_tesseract(page, options: FileOptions) -> str:
    """Recognize a page with tesseract."""
    program = shutil.which(TESSERACT)
    if program is None:
        raise Refusal(MISSING_PROGRAM, "the program tesseract is not on the PATH")
    bitmap = _render(page, TESSERACT)
    picture = b"P5 %d %d 255\n" % (bitmap.width, bitmap.height) + bitmap.to_numpy().tobytes()
    command = [program, "stdin", "stdout", "-l", options.ocr_language]
    # The program keeps an alarm that is set before it starts, so it ends even if this process is killed.
    seconds = FILES_IN_TIME * options.seconds
    set_alarm = partial(signal.setitimer, signal.ITIMER_REAL, seconds)
    environment = {**os.environ, "OMP_THREAD_LIMIT": "1"}  # its threads wait for one another; each core has a worker
    finished = subprocess.run(
        command, input=picture, capture_output=True, preexec_fn=set_alarm, env=environment, check=False
    )
    if finished.returncode == -signal.SIGALRM:
        raise Refusal(TIMED_OUT, f"tesseract took more than {seconds:g} seconds for a page")
    if finished.returncode != 0:
        raise Refusal(DAMAGED, f"tesseract: {finished.stderr.decode(errors='replace').strip()[-200:]}")
    return finished.stdout.decode("utf-8", errors="replace")


def _run_rapidocr(page) -> str:
    """Recognize a page with rapidocr: the lines from the top to the bottom."""
    engine = _load_rapidocr()
    picture = _render(page, RAPIDOCR).to_numpy()
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
