"""Read Word, PowerPoint, OpenDocument and EPUB files, which are zip files of XML."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from urllib.parse import unquote

from ..failures import DAMAGED, EMPTY, ENCRYPTED, Refusal
from ..parts import Budget, Content, Part
from ..places import EMBEDDED, PAGE, PART, SHEET, SLIDE, LeftOut
from .html_text import text_of_html
from .office_text import OPEN_DOCUMENT, PAGE_BREAK, WORD, attributes_of, page_texts
from .plain_text import decode_html
from .zip_files import ZipMembers

BESIDE_BODY = ("footnotes", "endnotes", "diagramData")  # parts of a Word file with text of their own
BESIDE_SLIDE = ("diagramData", "chart", "notesSlide")  # parts of a slide with text of their own
EMBEDDED_KINDS = ("aFChunk", "oleObject", "package")
LONGEST_CHAPTER_TITLE = 80  # characters of the title of a chapter


def read_docx(content: bytes, budget: Budget) -> Content:
    """Read a Word file: the body by pages, if Word saved where they begin, notes and diagrams; no macros."""
    members = ZipMembers(content, budget)
    main = _main_document(members, fallback="word/document.xml")
    parts = _pages_or_whole(page_texts(members.read(main), WORD), budget)
    for _, kind, target in _relations(members, main):
        if kind in BESIDE_BODY and target in members:
            parts.append(Part(kind=PART, name=kind, text="\n".join(page_texts(members.read(target), WORD))))
    return Content(parts=parts, left_out=_embedded(members, main))


def read_word_xml(content: bytes, budget: Budget) -> Content:
    """Read a Word file that is a single file of XML, as Word 2003 saved them."""
    return Content(_pages_or_whole(page_texts(content, WORD), budget))


def _embedded(members: ZipMembers, path: str) -> list[LeftOut]:
    """The files that a part of an office file embeds, such as a spreadsheet."""
    targets = [target for _, kind, target in _relations(members, path) if kind in EMBEDDED_KINDS]
    return [LeftOut(name=posixpath.basename(target), reason=EMBEDDED) for target in targets]


def read_pptx(content: bytes, budget: Budget) -> Content:
    """Read a PowerPoint file slide by slide in the order of the show, each with its diagrams, charts and notes."""
    members = ZipMembers(content, budget)
    main = _main_document(members, fallback="ppt/presentation.xml")
    path_of = {identity: target for identity, _, target in _relations(members, main)}
    # A list of sections names the slides once more, without the id of a relation.
    slides = [slide["r:id"] for slide in attributes_of(members.read(main), "sldId") if "r:id" in slide]
    budget.take_pages(len(slides))
    parts: list[Part] = []
    left_out: list[LeftOut] = []
    for number, slide in enumerate(slides, start=1):
        path = path_of.get(slide, "")
        if path not in members:
            left_out.append(LeftOut(name=f"{SLIDE} {number}", reason="missing"))
            continue
        left_out.extend(_embedded(members, path))
        texts = page_texts(members.read(path), WORD)
        for _, kind, target in _relations(members, path):
            if kind in BESIDE_SLIDE and target in members:
                texts.extend(page_texts(members.read(target), WORD))
        parts.append(Part(kind=SLIDE, name=str(number), text="\n".join(texts)))
    if left_out and not parts:
        raise Refusal(DAMAGED, f"{left_out[0].name} is missing")
    return Content(parts=parts, left_out=left_out)


def read_open_document(content: bytes, budget: Budget) -> Content:
    """Read an OpenDocument text by pages, if its program saved where they begin; others by slides or sheets."""
    members = ZipMembers(content, budget)
    if "META-INF/manifest.xml" in members and b"encryption-data" in members.read("META-INF/manifest.xml"):
        raise Refusal(ENCRYPTED)
    body = members.read("content.xml")
    if b"<office:presentation" in body:
        return _read_elements(body, "page", SLIDE, budget)
    if b"<office:spreadsheet" in body:
        return _read_elements(body, "table", SHEET, budget)
    return Content(_pages_or_whole(page_texts(body, OPEN_DOCUMENT), budget))


def read_epub(content: bytes, budget: Budget) -> Content:
    """Read a book in EPUB chapter by chapter."""
    members = ZipMembers(content, budget)
    if "META-INF/rights.xml" in members:
        raise Refusal(ENCRYPTED, "protected by digital rights management")
    containers = attributes_of(members.read("META-INF/container.xml"), "rootfile")
    if not containers:
        raise Refusal(DAMAGED, "META-INF/container.xml names no book")
    package = containers[0].get("full-path", "")
    book = members.read(package)
    items = {item.get("id"): item for item in attributes_of(book, "item")}
    parts: list[Part] = []
    for reference in attributes_of(book, "itemref"):
        item = items.get(reference.get("idref"))
        if item is None or "html" not in item.get("media-type", ""):
            continue
        budget.take_pages(1)
        path = _resolve(package, unquote(item.get("href", "")))
        text = text_of_html(decode_html(members.read(path), budget.options))
        name = text.partition("\n")[0][:LONGEST_CHAPTER_TITLE] or posixpath.basename(path)
        parts.append(Part(kind=PART, name=name, text=text))
    if not parts:
        raise Refusal(EMPTY, "no chapters")
    return Content(parts)


def _read_elements(body: bytes, element: str, kind: str, budget: Budget) -> Content:
    """Read each slide by its number, or each sheet by its name, as a part."""
    names = [attributes.get("name", "") for attributes in attributes_of(body, element)]
    budget.take_pages(len(names))
    roles = {**OPEN_DOCUMENT.roles, "soft-page-break": "", element: PAGE_BREAK}
    texts = page_texts(body, OPEN_DOCUMENT._replace(roles=roles))[1:]
    if kind == SLIDE:
        names = [str(number) for number in range(1, len(names) + 1)]
    return Content([Part(kind=kind, name=name, text=text) for name, text in zip(names, texts, strict=False)])


def _pages_or_whole(pages: list[str], budget: Budget) -> list[Part]:
    """Parts for pages, or one that is no place if there is only one."""
    budget.take_pages(len(pages))
    if len(pages) == 1:
        return [Part("", "", pages[0])]
    return [Part(kind=PAGE, name=str(number), text=page) for number, page in enumerate(pages, start=1)]


def _main_document(members: ZipMembers, fallback: str) -> str:
    """The path of the main part of an office file."""
    documents = (target for _, kind, target in _relations(members, "") if kind == "officeDocument")
    return next(filter(members.__contains__, documents), fallback)


def _relations(members: ZipMembers, path: str) -> Iterator[tuple[str, str, str]]:
    """Yield the id, the kind and the target of each relation of a part, but for those that lead out of the file."""
    folder, name = posixpath.split(path)
    relations = posixpath.join(folder, "_rels", f"{name}.rels")
    for attributes in attributes_of(members.read(relations), "Relationship") if relations in members else ():
        if attributes.get("TargetMode") != "External":
            target = _resolve(path, attributes.get("Target", ""))
            yield attributes.get("Id", ""), attributes.get("Type", "").rpartition("/")[2], target


def _resolve(path: str, target: str) -> str:
    """The path of a member that another one names, from the root of the zip file."""
    return posixpath.normpath(posixpath.join("/", posixpath.dirname(path), target)).lstrip("/")
