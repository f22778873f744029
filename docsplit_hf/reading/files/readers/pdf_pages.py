"""Read the pages of a PDF file with PDFium."""

from __future__ import annotations

from ..failures import DAMAGED, EMPTY, ENCRYPTED, SCANNED, Refusal
from ..parts import Budget, Content, Part
from ..places import EMBEDDED, PAGE, LeftOut
from .cleaning import clean_pages
from .ocr import recognize_page
from .plain_text import with_line_ends

LEAST_CHARACTERS = 16  # per page: scanners add a line of their own, such as a date, which is not the page's text
DEPTH_OF_PICTURES = 3  # levels of forms in which pictures are looked for


def read_pdf(content: bytes, budget: Budget) -> Content:
    """Read a PDF file page by page, and clean the text."""
    import pypdfium2
    from pypdfium2 import raw

    try:
        document = pypdfium2.PdfDocument(content)
    except pypdfium2.PdfiumError as error:
        is_encrypted = getattr(error, "err_code", None) == raw.FPDF_ERR_PASSWORD
        raise Refusal(ENCRYPTED if is_encrypted else DAMAGED, str(error)) from error
    with document:
        budget.take_pages(len(document))
        pages: list[str] = []
        attached = [document.get_attachment(number).get_name() for number in range(document.count_attachments())]
        missing: list[LeftOut] = []
        pictures: list[LeftOut] = []
        for number in range(len(document)):
            try:
                page = document[number]
            except pypdfium2.PdfiumError as error:
                missing.append(LeftOut(name=f"page {number + 1}", reason=f"{DAMAGED} ({error})"))
                pages.append("")
                continue
            text = _text_of(page)
            found = page.get_objects(filter=[raw.FPDF_PAGEOBJ_IMAGE], max_depth=DEPTH_OF_PICTURES)
            if len(text.strip()) < LEAST_CHARACTERS and next(iter(found), None) is not None:
                if budget.options.ocr:
                    text = recognize_page(page, budget.options)
                else:
                    pictures.append(LeftOut(name=f"page {number + 1}", reason=SCANNED))
            pages.append(text)
            page.close()
    if not pages:
        raise Refusal(EMPTY, "no pages")
    if sum(len(page.strip()) for page in pages) < LEAST_CHARACTERS * len(pages) and 2 * len(pictures) >= len(pages):
        raise Refusal(SCANNED, f"{len(pictures)} of {len(pages)} pages are pictures", len(pictures))
    if len(missing) == len(pages):
        raise Refusal(DAMAGED, "no page can be read")
    left_out = [*missing, *pictures, *(LeftOut(name=name, reason=EMBEDDED) for name in attached)]
    pages, dropped = clean_pages(pages)
    parts = [Part(kind=PAGE, name=str(number), text=page) for number, page in enumerate(pages, start=1)]
    return Content(parts=parts, left_out=left_out, pages_without_text=len(pictures), dropped_lines=dropped)


def _text_of(page) -> str:
    """The text of a page with line ends of one character."""
    text_page = page.get_textpage()
    text = text_page.get_text_range(errors="replace") if text_page.count_chars() else ""
    text_page.close()
    return with_line_ends(text)
