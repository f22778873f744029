"""Recognize the text of a scanned page with a program that is installed."""

from __future__ import annotations

import shutil
import signal
import subprocess
from functools import partial

from .failures import DAMAGED, MISSING_PROGRAM, TIMED_OUT, Refusal
from .options import FileOptions

DOTS_PER_INCH = 300
LARGEST_PICTURE = 50_000_000  # pixels; a page of A2 has 35 million


def recognize_page(page, options: FileOptions) -> str:
    """Render a page of PDFium and recognize its text with tesseract."""
    program = shutil.which("tesseract")
    if program is None:
        raise Refusal(MISSING_PROGRAM, "the program tesseract is not on the PATH")
    scale = DOTS_PER_INCH / 72
    width, height = page.get_size()
    scale = min(scale, (LARGEST_PICTURE / max(1.0, width * height)) ** 0.5)
    bitmap = page.render(scale=scale, grayscale=True)
    rows = bytes(bitmap.buffer)
    pixels = b"".join(rows[row * bitmap.stride : row * bitmap.stride + bitmap.width] for row in range(bitmap.height))
    picture = b"P5 %d %d 255\n" % (bitmap.width, bitmap.height) + pixels
    if signal.getitimer(signal.ITIMER_REAL)[0] > 0:  # in a worker: each page has the time of a file
        signal.setitimer(signal.ITIMER_REAL, options.seconds)
    command = [program, "stdin", "stdout", "-l", options.ocr_language]
    # The program keeps an alarm that is set before it starts, so it ends even if this process is killed.
    set_alarm = partial(signal.setitimer, signal.ITIMER_REAL, options.seconds)
    finished = subprocess.run(command, input=picture, capture_output=True, preexec_fn=set_alarm, check=False)
    if finished.returncode == -signal.SIGALRM:
        raise Refusal(TIMED_OUT, f"tesseract took more than seconds={options.seconds:g} for a page")
    if finished.returncode != 0:
        raise Refusal(DAMAGED, f"tesseract: {finished.stderr.decode(errors='replace').strip()[-200:]}")
    return finished.stdout.decode("utf-8", errors="replace")
