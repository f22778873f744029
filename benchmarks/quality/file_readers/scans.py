"""Make scans of printed contracts, and measure how many of their words each OCR engine finds, and how fast.

    python -m benchmarks.quality.file_readers.make_files --texts contracts/test.jsonl.gz --output files --count 50
    python -m benchmarks.quality.file_readers.scans --files files --output scans

``--files`` is a folder of make_files.py. One page of each PDF file becomes a scan: a gray JPEG picture in a PDF file,
of 150 to 200 dots per inch, turned by up to a degree, blurred and noisy. The words are those that PDFium reads in the
page that was printed. Seconds are those of the processor, the programs that are started included; the engine is
loaded before. Records are lines of scans.jsonl of docs/results/file_readers, one for a page and an engine; finished
ones are kept.
"""

from __future__ import annotations

import argparse
import json
import os
import random
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pypdfium2
from PIL import Image, ImageFilter

from docsplit_hf.reading.files.formats import read_text
from docsplit_hf.reading.files.options import OCR_ENGINES, TESSERACT, FileOptions

from .compare import RESULTS, quality

DOTS_PER_INCH = (150, 175, 200)
LARGEST_ANGLE = 1.0  # degrees
LARGEST_BLUR = 0.7  # pixels
LARGEST_NOISE = 20.0  # standard deviation, of 255
LOWEST_QUALITY = 50  # of JPEG
HIGHEST_QUALITY = 85
FIRST_PAGES = 3  # from which one is taken
SECONDS = 300.0


def make_scan(page: Any, path: Path, draw: random.Random) -> None:
    """Render a page of PDFium as a scanner would have it."""
    dots = draw.choice(DOTS_PER_INCH)
    picture = page.render(scale=dots / 72, grayscale=True).to_pil().convert("L")
    angle = draw.uniform(-LARGEST_ANGLE, LARGEST_ANGLE)
    picture = picture.rotate(angle, resample=Image.Resampling.BICUBIC, fillcolor=255)
    picture = picture.filter(ImageFilter.GaussianBlur(draw.uniform(0.0, LARGEST_BLUR)))
    gray = np.asarray(picture, dtype=np.float32)
    noise = np.random.default_rng(draw.randrange(2**32)).normal(0.0, draw.uniform(0.0, LARGEST_NOISE), gray.shape)
    paper = draw.uniform(225.0, 250.0)
    gray = (gray * paper / 255.0 + noise).clip(0.0, 255.0)
    picture = Image.fromarray(gray.astype(np.uint8))
    quality_of_jpeg = draw.randint(LOWEST_QUALITY, HIGHEST_QUALITY)
    picture.save(path, format="PDF", resolution=dots, quality=quality_of_jpeg)


def make_scans(files: Path, output: Path, count: int, first: int) -> list[Path]:
    """Make a scan of a page of each PDF file, with the words of that page beside it."""
    output.mkdir(parents=True, exist_ok=True)
    scans = []
    for number, source in enumerate(sorted((files / "pdf").glob("*.pdf"))[first : first + count]):
        scan = output / f"{source.stem}.pdf"
        draw = random.Random(number)
        with pypdfium2.PdfDocument(source) as document:
            chosen = draw.randrange(min(FIRST_PAGES, len(document)))
            text = document[chosen].get_textpage().get_text_range()
            scan.with_suffix(".txt").write_text(text, encoding="utf-8")
            make_scan(document[chosen], scan, draw)
        scans.append(scan)
    return scans


def processor_seconds() -> float:
    """The seconds of the processor that this process and those that it started have taken."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def version_of(engine: str) -> str:
    """The version of an engine."""
    if engine == TESSERACT:
        return os.popen("tesseract --version").readline().split()[-1]
    return metadata.version(engine)


def recognize(scan: Path, engine: str) -> dict[str, Any]:
    """Recognize a scan, and compare its words with those that were printed."""
    options = FileOptions(ocr=engine, seconds=SECONDS)
    content = scan.read_bytes()
    began = processor_seconds()
    text = read_text(content, scan.name, options).text
    seconds = processor_seconds() - began
    scores = quality(text, scan.with_suffix(".txt").read_text(encoding="utf-8"))
    record = {"scan": scan.stem, "engine": engine, "version": version_of(engine)}
    return record | scores | {"seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True, help="Folder of the scans.")
    parser.add_argument("--count", type=int, default=50, help="Number of scans. Default: %(default)s.")
    parser.add_argument("--first", type=int, default=0, help="The first file. Default: %(default)s.")
    parser.add_argument("--record", type=Path, default=RESULTS / "scans.jsonl", help="Default: %(default)s.")
    arguments = parser.parse_args()
    scans = make_scans(arguments.files, arguments.output, arguments.count, arguments.first)
    for engine in OCR_ENGINES:
        recognize(scans[0], engine)  # which loads it
    done = [json.loads(line) for line in arguments.record.read_text().splitlines()] if arguments.record.exists() else []
    keys = [(record["scan"], record["engine"]) for record in done]
    for scan in scans:
        for engine in OCR_ENGINES:
            if (scan.stem, engine) not in keys:
                record = recognize(scan, engine)
                with arguments.record.open("a") as file:
                    file.write(json.dumps(record) + "\n")
                print(record, flush=True)


if __name__ == "__main__":
    main()
