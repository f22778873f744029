"""Scanned pages are recognized, and keep their numbers."""

import sys

import pytest

from docsplit_hf.reading.files.failures import MISSING_LIBRARY, SCANNED, Refusal
from docsplit_hf.reading.files.formats import read_text
from docsplit_hf.reading.files.ocr import memory_of_engine
from docsplit_hf.reading.files.options import FileOptions
from docsplit_hf.reading.files.reader import read_files

from .sample_files import make_pdf

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
    picture.save(path, save_all=True, append_images=[Image.new("RGB", picture.size, "white")])
    with pypdfium2.PdfDocument(path) as scanned, pypdfium2.PdfDocument(make_pdf(["Two keys are handed over."])) as text:
        scanned.import_pages(text)
        scanned.save(path.with_name("mixed.pdf"))
    return path


def test_scanned_pages_are_recognized_and_keep_their_numbers(scan):
    pytest.importorskip("rapidocr", reason="The extra ocr is not installed.")
    assert refusal(scan.read_bytes()).reason == SCANNED
    paths = [scan, scan.with_name("mixed.pdf")]
    alone, mixed = read_files(paths, FileOptions(ocr="rapidocr", seconds=200), processes=1, show_progress=False)
    assert alone.text.split() == LINES.split() and not alone.left_out
    assert [place.name for place in alone.places] == ["1"]
    assert [place.name for place in mixed.places] == ["1", "3"] and mixed.text.endswith("Two keys are handed over.")


def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    missing = refusal(make_pdf(["", ""], picture_on=(0, 1)), ocr="rapidocr")
    assert missing.reason == MISSING_LIBRARY and "onnxruntime" in missing.detail


def test_the_variable_names_the_engine(monkeypatch):
    monkeypatch.delenv("DOCSPLIT_OCR", raising=False)
    assert FileOptions().ocr is None
    monkeypatch.setenv("DOCSPLIT_OCR", "")
    assert FileOptions().ocr is None
    monkeypatch.setenv("DOCSPLIT_OCR", "rapidocr")
    assert FileOptions().ocr == "rapidocr" and memory_of_engine(FileOptions()) > 0
    monkeypatch.setenv("DOCSPLIT_OCR", "rus")
    with pytest.raises(ValueError, match="got 'rus': for other languages, run ocrmypdf"):
        FileOptions()
