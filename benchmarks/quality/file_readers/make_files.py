"""Print texts as PDF, Word and HTML files, some of them scanned or damaged.

    python -m benchmarks.quality.file_readers.make_files --texts contracts/train.jsonl.gz --output files

It needs Chromium, and the packages playwright and python-docx. The output has ``texts/NUMBER.txt`` and the same texts
in ``pdf/``, ``docx/``, ``html/``, ``scanned/`` (pictures of the first pages), ``damaged/`` (cut in the middle).
"""

from __future__ import annotations

import argparse
import gzip
import html
import io
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

LONGEST = 200_000  # characters
SCANNED_PAGES = 3
STYLES = (
    "body {font: 11pt serif}",
    "body {font: 10pt sans-serif; text-align: justify}",
    "body {font: 9pt serif; columns: 2; text-align: justify}",
    "body {font: 12pt monospace}",
)
HEADER = '<div style="font-size:8px; width:100%; text-align:center">CONFIDENTIAL - {name}</div>'
FOOTER = (
    '<div style="font-size:8px; width:100%; text-align:center">'
    'Page <span class="pageNumber"></span> of <span class="totalPages"></span></div>'
)
MARGIN = {"top": "2cm", "bottom": "2cm", "left": "2cm", "right": "2cm"}
PAGE = """<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<style>p {{margin: 0.4em 0}} {style}</style><script>var tracking = "not a word of the text";</script></head>
<body>{body}</body></html>"""


def paragraphs(text: str) -> list[str]:
    """The paragraphs of a text, each on one line."""
    return [" ".join(part.split()) for part in re.split(r"\n\s*\n", text) if part.strip()]


def as_html(text: str, title: str, style: str) -> str:
    """A page of HTML with a text."""
    body = "\n".join(f"<p>{html.escape(part)}</p>" for part in paragraphs(text))
    return PAGE.format(title=html.escape(title), style=style, body=body)


def write_pdf(page: Any, path: Path, text: str, style: str) -> None:
    """Print a text with Chromium, with a header and a footer on each page."""
    page.set_content(as_html(text, path.stem, style))
    page.pdf(
        path=str(path),
        format="A4",
        display_header_footer=True,
        header_template=HEADER.format(name=path.stem),
        footer_template=FOOTER,
        margin=MARGIN,
    )


def write_docx(path: Path, text: str) -> None:
    """Write a Word file with a header and a footer, and the first three paragraphs as a table."""
    import docx

    document = docx.Document()
    document.sections[0].header.paragraphs[0].text = f"CONFIDENTIAL - {path.stem}"
    document.sections[0].footer.paragraphs[0].text = "Page 1"
    parts = paragraphs(re.sub(r"[\x00-\x08\x0b-\x1f]", "", text))
    table = document.add_table(rows=1, cols=min(3, len(parts)))
    for cell, part in zip(table.rows[0].cells, parts, strict=False):
        cell.text = part
    for part in parts[3:]:
        document.add_paragraph(part)
    document.save(str(path))


def write_scan(path: Path, source: Path) -> None:
    """Write the first pages of a PDF file as pictures."""
    import pypdfium2

    with pypdfium2.PdfDocument(source) as document:
        pages = range(min(SCANNED_PAGES, len(document)))
        pictures = [document[number].render(scale=150 / 72, grayscale=True).to_pil() for number in pages]
    pictures[0].save(path, format="PDF", save_all=True, append_images=pictures[1:], resolution=150)


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Read the rows of a file of JSON lines, which may be compressed."""
    with (gzip.open if path.suffix == ".gz" else io.open)(path, "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--count", type=int, default=600)
    parser.add_argument("--special", type=int, default=30, help="Number of scanned, and of damaged files.")
    arguments = parser.parse_args()
    from playwright.sync_api import sync_playwright

    rows = [row for row in read_rows(arguments.texts) if len(row["text"]) <= LONGEST][: arguments.count]
    folders = {name: arguments.output / name for name in ("texts", "pdf", "docx", "html", "scanned", "damaged")}
    for folder in folders.values():
        folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page()
        for number, row in enumerate(rows):
            name = f"{number:04d}"
            style = STYLES[number % len(STYLES)]
            (folders["texts"] / f"{name}.txt").write_text(row["text"], encoding="utf-8")
            pdf = folders["pdf"] / f"{name}.pdf"
            if not pdf.exists():
                write_pdf(page, pdf, row["text"], style)
            (folders["html"] / f"{name}.html").write_text(as_html(row["text"], name, style), encoding="utf-8")
            write_docx(folders["docx"] / f"{name}.docx", row["text"])
            if number < arguments.special:
                write_scan(folders["scanned"] / pdf.name, pdf)
                content = pdf.read_bytes()
                (folders["damaged"] / pdf.name).write_bytes(content[: len(content) // 2])
        browser.close()


if __name__ == "__main__":
    main()
