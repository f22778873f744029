"""Text of the XML of Word, PowerPoint and OpenDocument files."""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

from .xml_events import Attributes, read_events


class Vocabulary(NamedTuple):
    """What the elements of a format mean, by their names without namespaces.

    Attributes:
        text: Elements that hold text. None: all but those in ``skipped``, within paragraphs.
        paragraphs: Elements that end a line.
        characters: Elements that stand for characters.
        cells: Elements of a table's cells, which end with a tab; their paragraphs end with a space.
        rows: Elements of a table's rows.
        pages: Elements at which a new page begins.
        skipped: Elements whose content is no text of the document.
    """

    text: frozenset[str] | None
    paragraphs: frozenset[str]
    characters: dict[str, str]
    cells: frozenset[str]
    rows: frozenset[str]
    pages: frozenset[str]
    skipped: frozenset[str]


# Deleted text is in delText and instructions of fields in instrText, which are not listed. A Fallback repeats the text
# of a text box for old programs.
WORD = Vocabulary(
    text=frozenset({"t"}),
    paragraphs=frozenset({"p"}),
    characters={"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"},
    cells=frozenset({"tc"}),
    rows=frozenset({"tr"}),
    pages=frozenset({"lastRenderedPageBreak"}),
    skipped=frozenset({"Fallback", "moveFrom", "pPr", "rPr"}),
)
POWERPOINT = WORD._replace(pages=frozenset())
OPEN_DOCUMENT = Vocabulary(
    text=None,
    paragraphs=frozenset({"p", "h"}),
    characters={"tab": "\t", "line-break": "\n", "s": " "},
    cells=frozenset({"table-cell"}),
    rows=frozenset({"table-row"}),
    pages=frozenset({"soft-page-break"}),
    skipped=frozenset({"tracked-changes", "annotation", "forms", "automatic-styles", "note-citation"}),
)


_BLANK_LINES = re.compile(r"\n{3,}")


def page_texts(content: bytes, vocabulary: Vocabulary) -> list[str]:
    """The texts of the pages of a document as its program last laid them out; one text if it names no pages."""
    pages: list[list[str]] = [[]]
    inside: Counter[str] = Counter()  # how many elements of each kind are open

    def start(name: str, attributes: Attributes) -> None:
        if inside["skipped"] or name in vocabulary.skipped:
            inside["skipped"] += 1
        elif name in vocabulary.pages:
            pages.append([])
        elif name in vocabulary.cells:
            inside["cells"] += 1
        elif name in vocabulary.paragraphs:
            inside["paragraphs"] += 1
        elif vocabulary.text is not None and name in vocabulary.text:
            inside["texts"] += 1
        elif name in vocabulary.characters and inside["paragraphs"]:
            count = attributes.get("c", "1")
            pages[-1].append(vocabulary.characters[name] * (min(int(count), 100) if count.isdigit() else 1))

    def end(name: str) -> None:
        if inside["skipped"]:
            inside["skipped"] -= 1
        elif name in vocabulary.cells:
            inside["cells"] -= 1
            pages[-1].append("\t")
        elif name in vocabulary.paragraphs:
            inside["paragraphs"] -= 1
            pages[-1].append(" " if inside["cells"] else "\n")
        elif name in vocabulary.rows:
            pages[-1].append("\n")
        elif vocabulary.text is not None and name in vocabulary.text:
            inside["texts"] -= 1

    def text(characters: str) -> None:
        is_text = inside["paragraphs"] if vocabulary.text is None else inside["texts"]
        if is_text and not inside["skipped"]:
            pages[-1].append(characters)

    read_events(content, start, end, text)
    texts = ["\n".join(line.rstrip() for line in "".join(page).split("\n")) for page in pages]
    return [_BLANK_LINES.sub("\n\n", text).strip("\n") for text in texts]
