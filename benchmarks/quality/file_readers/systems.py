"""Libraries that read files, each as a function from a path to text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path


def docsplit_hf(path: Path) -> str:
    """Read with our reader, in this process."""
    from docsplit_hf.reading.files.formats import read_text
    from docsplit_hf.reading.files.options import FileOptions

    return read_text(path.read_bytes(), path.name, FileOptions()).text


def pypdfium2(path: Path) -> str:
    """Read with PDFium as it is."""
    import pypdfium2

    with pypdfium2.PdfDocument(path) as document:
        return "\n".join(page.get_textpage().get_text_range() for page in document)


def pypdf(path: Path) -> str:
    """Read with pypdf."""
    from pypdf import PdfReader

    return "\n".join(page.extract_text() for page in PdfReader(path).pages)


def pdfminer(path: Path) -> str:
    """Read with pdfminer.six."""
    from pdfminer.high_level import extract_text

    return extract_text(path)


def python_docx(path: Path) -> str:
    """Read paragraphs and tables with python-docx."""
    import docx

    lines: list[str] = []
    for block in docx.Document(str(path)).iter_inner_content():
        if hasattr(block, "rows"):
            lines.extend("\t".join(cell.text for cell in row.cells) for row in block.rows)
        else:
            lines.append(block.text)
    return "\n".join(lines)


def docx2python(path: Path) -> str:
    """Read with docx2python."""
    from docx2python import docx2python as read

    with read(path) as content:
        return content.text


def mammoth(path: Path) -> str:
    """Read as HTML with mammoth."""
    import mammoth

    from docsplit_hf.reading.files.readers.html_text import text_of_html

    with path.open("rb") as file:
        return text_of_html(mammoth.convert_to_html(file, convert_image=lambda _: []).value)


def python_pptx(path: Path) -> str:
    """Read shapes, tables and notes with python-pptx."""
    from pptx import Presentation

    lines: list[str] = []

    def read(shapes) -> None:
        for shape in shapes:
            if hasattr(shape, "shapes"):
                read(shape.shapes)
            elif shape.has_text_frame:
                lines.append(shape.text_frame.text)
            elif getattr(shape, "has_table", False):
                lines.extend("\t".join(cell.text for cell in row.cells) for row in shape.table.rows)

    for slide in Presentation(str(path)).slides:
        read(slide.shapes)
        if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
            lines.append(slide.notes_slide.notes_text_frame.text)
    return "\n".join(lines)


def odfpy(path: Path) -> str:
    """Read paragraphs with odfpy."""
    from odf import opendocument, teletype

    lines: list[str] = []

    def read(node) -> None:
        name = node.qname[1]
        if name in ("p", "h"):
            lines.append(teletype.extractText(node))
        elif name not in ("tracked-changes", "annotation"):
            for child in node.childNodes:
                if child.nodeType == child.ELEMENT_NODE:
                    read(child)

    read(opendocument.load(str(path)).body)
    return "\n".join(lines)


def odfdo(path: Path) -> str:
    """Read with odfdo."""
    from odfdo import Document

    return Document(str(path)).get_formatted_text()


def markitdown(path: Path) -> str:
    """Read with markitdown."""
    from markitdown import MarkItDown

    return MarkItDown(enable_plugins=False).convert_local(path).text_content


def kreuzberg(path: Path) -> str:
    """Read with kreuzberg, without OCR."""
    import kreuzberg

    return kreuzberg.extract_file_sync(str(path)).content


def xberg(path: Path) -> str:
    """Read with xberg, without OCR."""
    import asyncio

    import xberg

    config = xberg.ExtractionConfig(use_cache=False, disable_ocr=True)
    found = asyncio.run(
        xberg.extract(xberg.ExtractInput(kind="bytes", bytes=path.read_bytes(), filename=path.name), config)
    )
    return found.results[0].content


def beautifulsoup(path: Path) -> str:
    """Read with BeautifulSoup and Python's parser."""
    from bs4 import BeautifulSoup

    soup = BeautifulSoup(path.read_bytes(), "html.parser")
    for node in soup(["script", "style"]):
        node.decompose()
    return soup.get_text("\n", strip=True)


def selectolax(path: Path) -> str:
    """Read with selectolax as it is."""
    from selectolax.lexbor import LexborHTMLParser

    tree = LexborHTMLParser(path.read_bytes())
    tree.strip_tags(["script", "style"])
    return tree.body.text(separator="\n", strip=True)


def trafilatura(path: Path) -> str:
    """Read the main text with trafilatura."""
    import trafilatura

    return trafilatura.extract(path.read_bytes(), favor_recall=True) or ""


SYSTEMS: Mapping[str, Callable[[Path], str]] = {
    function.__name__: function
    for function in (
        docsplit_hf,
        pypdfium2,
        pypdf,
        pdfminer,
        python_docx,
        docx2python,
        mammoth,
        python_pptx,
        odfpy,
        odfdo,
        markitdown,
        kreuzberg,
        xberg,
        beautifulsoup,
        selectolax,
        trafilatura,
    )
}
OF_FORMAT = {
    "doc": ("docsplit_hf", "xberg"),
    "docx": ("docsplit_hf", "python_docx", "docx2python", "mammoth", "markitdown", "kreuzberg"),
    "html": ("docsplit_hf", "selectolax", "beautifulsoup", "trafilatura", "markitdown", "kreuzberg"),
    "odp": ("docsplit_hf", "odfpy", "odfdo"),
    "ppt": ("docsplit_hf", "xberg"),
    "odt": ("docsplit_hf", "odfpy", "odfdo", "kreuzberg"),
    "pptx": ("docsplit_hf", "python_pptx", "markitdown", "kreuzberg"),
    "pdf": ("docsplit_hf", "pypdfium2", "pypdf", "pdfminer", "markitdown", "kreuzberg"),
}
