"""Libraries that read files, each as a function from a path to text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path


def docsplit_hf(path: Path) -> str:
    """Read with our reader, in this process."""
    from docsplit_hf.text.files.formats import read_text
    from docsplit_hf.text.files.options import FileOptions

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


def markitdown(path: Path) -> str:
    """Read with markitdown."""
    from markitdown import MarkItDown

    return MarkItDown(enable_plugins=False).convert_local(path).text_content


def kreuzberg(path: Path) -> str:
    """Read with kreuzberg, without OCR."""
    import kreuzberg

    return kreuzberg.extract_file_sync(str(path)).content


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
        markitdown,
        kreuzberg,
        beautifulsoup,
        selectolax,
        trafilatura,
    )
}
OF_FORMAT = {
    "docx": ("docsplit_hf", "python_docx", "docx2python", "markitdown", "kreuzberg"),
    "html": ("docsplit_hf", "selectolax", "beautifulsoup", "trafilatura", "markitdown", "kreuzberg"),
    "pdf": ("docsplit_hf", "pypdfium2", "pypdf", "pdfminer", "markitdown", "kreuzberg"),
}
