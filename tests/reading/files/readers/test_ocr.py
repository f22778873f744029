"""Scanned pages are recognized by either engine, counted before, and keep their numbers."""

import logging
import math
import re
import shutil
import sys

import pytest

from docsplit_hf import load_files
from docsplit_hf.reading.files.failures import MISSING_LIBRARY, MISSING_PROGRAM, SCANNED, Refusal
from docsplit_hf.reading.files.formats import read_text
from docsplit_hf.reading.files.options import OCR_ENGINES, FileOptions
from docsplit_hf.reading.files.reader import read_files
from docsplit_hf.reading.files.readers.ocr import (
    DOTS_PER_INCH,
    LARGEST_PICTURE,
    _render,
    installed_engine,
    memory_of_engine,
)
from docsplit_hf.reading.files.workers import Worker

from ..sample_files import make_mail, make_pdf, make_zip

pytest.importorskip("pypdfium2", reason="The extra files is not installed.")

LINES = "THE RENT IS DUE\nON THE FIRST DAY"


def refusal(content, **options):
    with pytest.raises(Refusal) as refused:
        read_text(content, "a.pdf", FileOptions(**options))
    return refused.value


@pytest.fixture
def scan(tmp_path):
    """A PDF file of three pages: a picture of lines, an empty picture, and a page with text."""
    import pypdfium2
    from PIL import Image

    with pypdfium2.PdfDocument(make_pdf([LINES])) as document:
        picture = document[0].render(scale=3).to_pil()
    path = tmp_path / "scan.pdf"
    dots = 3 * 72  # an inch, so that the page has its size again: the engine takes seconds more for a larger one
    picture.save(path, save_all=True, append_images=[Image.new("RGB", picture.size, "white")], resolution=dots)
    with pypdfium2.PdfDocument(path) as scanned, pypdfium2.PdfDocument(make_pdf(["Two keys are handed over."])) as text:
        scanned.import_pages(text)
        scanned.save(path.with_name("mixed.pdf"))
    return path


@pytest.fixture
def program(tmp_path, monkeypatch):
    """A program of the name of tesseract, which finds another line in each picture."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "tesseract").write_text("#!/bin/sh\ncat > /dev/null\necho recognized $(date +%N | tr 0-9 a-j)\n")
    (folder / "tesseract").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/bin:/usr/bin")


def is_missing(engine):
    if engine == "tesseract":
        return shutil.which(engine) is None
    return not pytest.importorskip(engine, reason="The extra ocr is not installed.")


@pytest.mark.slow
@pytest.mark.parametrize("engine", OCR_ENGINES)
def test_scanned_pages_are_recognized_and_keep_their_numbers(scan, engine):
    if is_missing(engine):
        pytest.skip(f"{engine} is not installed.")
    assert refusal(scan.read_bytes()).reason == SCANNED
    paths = [scan, scan.with_name("mixed.pdf")]
    alone, mixed = read_files(paths, FileOptions(ocr=engine, seconds=200), processes=1, show_progress=False)
    assert alone.text.split() == LINES.split()
    assert [place.name for place in alone.places] == ["1"] and not alone.left_out
    assert [place.name for place in mixed.places] == ["1", "3"] and mixed.text.endswith("Two keys are handed over.")


@pytest.mark.parametrize("engine", OCR_ENGINES)
def test_a_page_has_the_dots_that_the_engine_reads_unless_it_is_larger_than_most(engine):
    import pypdfium2

    document = pypdfium2.PdfDocument.new()
    scale = DOTS_PER_INCH[engine] / 72
    letter = _render(document.new_page(612, 792), engine)
    assert (letter.width, letter.height) == (math.ceil(612 * scale), math.ceil(792 * scale))
    large = _render(document.new_page(4_000, 8_000), engine)
    assert large.width * large.height == pytest.approx(LARGEST_PICTURE[engine], rel=0.001)


def test_an_engine_that_is_missing_is_named(monkeypatch):
    monkeypatch.setenv("PATH", "")
    scanned = make_pdf(["", ""], picture_on=(0, 1))
    assert refusal(scanned, ocr="tesseract").reason == MISSING_PROGRAM
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    missing = refusal(scanned, ocr="rapidocr")
    assert missing.reason == MISSING_LIBRARY and "onnxruntime" in missing.detail


def test_the_variable_names_a_language_or_an_engine(monkeypatch):
    monkeypatch.delenv("DOCSPLIT_OCR", raising=False)
    assert FileOptions().ocr is None
    for value, engine, language in (("deu", "tesseract", "deu"), ("rapidocr", "rapidocr", "eng"), ("", None, "eng")):
        monkeypatch.setenv("DOCSPLIT_OCR", value)
        assert (FileOptions().ocr, FileOptions().ocr_language) == (engine, language)


def test_the_engine_that_is_installed_is_chosen(monkeypatch, program):
    assert installed_engine() == "tesseract"
    monkeypatch.setenv("PATH", "")
    monkeypatch.setitem(sys.modules, "rapidocr", None)
    assert installed_engine() == "tesseract"
    assert memory_of_engine(FileOptions(ocr="rapidocr")) > 0


def test_pages_are_counted_before_and_other_files_are_read_once(tmp_path, program, monkeypatch, caplog):
    folder = tmp_path / "in"
    folder.mkdir()
    scanned = make_pdf([""] * 5, picture_on=range(5))
    (folder / "scan.pdf").write_bytes(scanned)
    (folder / "half.pdf").write_bytes(make_pdf(["A page with enough words on it, and some more.", ""], picture_on=(1,)))
    (folder / "scans.zip").write_bytes(make_zip({"one.pdf": scanned}))
    (folder / "mail.eml").write_bytes(make_mail("See below.", [("two.pdf", scanned)]))
    (folder / "text.pdf").write_bytes(make_pdf(["A page with enough words on it."]))
    (folder / "text.txt").write_text("Some text.")
    read = []
    original = Worker.read
    monkeypatch.setattr(Worker, "read", lambda self, *given: (read.append(given[0].name), original(self, *given))[1])

    def load(**engine):
        options = FileOptions(**engine)
        read.clear()
        caplog.clear()
        with caplog.at_level(logging.WARNING, logger="docsplit_hf"):
            rows = load_files(folder, options, cache_dir=tmp_path / "cache", show_progress=False)
        return dict(zip(rows["file"], rows["text"], strict=True))

    without = load()
    assert sorted(without) == ["half.pdf", "mail.eml", "text.pdf", "text.txt"]
    recognized = load(ocr="tesseract")
    assert "Pages to recognize, which are pictures without text: 16, in 4 of 6 files." in caplog.text
    assert re.search(r"tesseract takes about \d+ minutes?: ", caplog.text)
    assert sorted(read) == ["half.pdf", "mail.eml", "scan.pdf", "scans.zip"]
    for name in ("scan.pdf", "scans.zip", "mail.eml"):
        assert recognized[name].split().count("recognized") == 5
    assert recognized["text.pdf"] == without["text.pdf"]
    assert load(ocr="tesseract") == recognized
    assert not read and "Pages to recognize" not in caplog.text
