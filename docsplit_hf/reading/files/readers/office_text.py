"""Text of the XML of Word, PowerPoint and OpenDocument files.

XML is read as events with expat: no entities, no network, no tree in memory.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import NamedTuple
from xml.parsers import expat

from ..failures import DAMAGED, NESTED_TOO_DEEP, XML_ENTITIES, Refusal

DEEPEST = 500  # elements in one another

Attributes = Mapping[str, str]


# Roles of elements. A cell of a table ends with a tab, and its paragraphs with a space; a new page begins at a page.
TEXT = "text"
PARAGRAPH = "paragraph"
CELL = "cell"
ROW = "row"
PAGE_BREAK = "page"
SKIPPED = "skipped"  # its content is no text of the document


class Vocabulary(NamedTuple):
    """What the elements of a format mean, by their names without namespaces.

    Attributes:
        roles: The role of each element.
        characters: Elements within paragraphs that stand for characters.
        holds_text: The role of elements within which there is text.
    """

    roles: Mapping[str, str]
    characters: Mapping[str, str]
    holds_text: str


# Deleted text is in delText and instructions of fields in instrText, which are not listed. A Fallback repeats the text
# of a text box for old programs.
WORD = Vocabulary(
    roles={
        "t": TEXT,
        "p": PARAGRAPH,
        "tc": CELL,
        "tr": ROW,
        "lastRenderedPageBreak": PAGE_BREAK,
        **dict.fromkeys(("Fallback", "moveFrom", "pPr", "rPr"), SKIPPED),
    },
    characters={"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"},
    holds_text=TEXT,
)
OPEN_DOCUMENT = Vocabulary(
    roles={
        "p": PARAGRAPH,
        "h": PARAGRAPH,
        "table-cell": CELL,
        "table-row": ROW,
        "soft-page-break": PAGE_BREAK,
        **dict.fromkeys(("tracked-changes", "annotation", "forms", "automatic-styles", "note-citation"), SKIPPED),
    },
    characters={"tab": "\t", "line-break": "\n", "s": " "},
    holds_text=PARAGRAPH,
)


_BLANK_LINES = re.compile(r"\n{3,}")


def page_texts(content: bytes, vocabulary: Vocabulary) -> list[str]:
    """The texts of the pages of a document as its program last laid them out; one text if it names no pages."""
    pages: list[list[str]] = [[]]
    inside: Counter[str] = Counter()  # how many elements of each role are open

    def start(name: str, attributes: Attributes) -> None:
        role = vocabulary.roles.get(name)
        if inside[SKIPPED] or role == SKIPPED:
            inside[SKIPPED] += 1
        elif role == PAGE_BREAK:
            pages.append([])
        elif role:
            inside[role] += 1
        elif name in vocabulary.characters and inside[PARAGRAPH]:
            count = attributes.get("c", "1")
            pages[-1].append(vocabulary.characters[name] * (min(int(count), 100) if count.isdigit() else 1))

    def end(name: str) -> None:
        role = SKIPPED if inside[SKIPPED] else vocabulary.roles.get(name, "")
        inside[role] -= 1
        if role == CELL:
            pages[-1].append("\t")
        elif role == PARAGRAPH:
            pages[-1].append(" " if inside[CELL] else "\n")
        elif role == ROW:
            pages[-1].append("\n")

    def text(characters: str) -> None:
        if inside[vocabulary.holds_text] and not inside[SKIPPED]:
            pages[-1].append(characters)

    read_events(content, start, end, text)
    texts = ["\n".join(line.rstrip() for line in "".join(page).split("\n")) for page in pages]
    return [_BLANK_LINES.sub("\n\n", text).strip("\n") for text in texts]


def read_events(
    content: bytes,
    start: Callable[[str, Attributes], None],
    end: Callable[[str], None],
    text: Callable[[str], None],
) -> None:
    """Call functions for the start, the end and the text of elements; names come without their namespace.

    Only the id of a relation, which stands beside another id, is called ``r:id``.
    """
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    depth = 0

    def start_element(name: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > DEEPEST:
            raise Refusal(NESTED_TOO_DEEP, f"more than {DEEPEST} XML elements in one another")
        start(name.rpartition(" ")[2], {_attribute_name(key): value for key, value in attributes.items()})

    def end_element(name: str) -> None:
        nonlocal depth
        depth -= 1
        end(name.rpartition(" ")[2])

    def refuse_entity(*_: object) -> None:
        raise Refusal(XML_ENTITIES)

    parser.StartElementHandler = start_element
    parser.EndElementHandler = end_element
    parser.CharacterDataHandler = text
    parser.EntityDeclHandler = refuse_entity
    parser.UnparsedEntityDeclHandler = refuse_entity
    try:
        parser.Parse(content, True)
    except expat.ExpatError as error:
        raise Refusal(DAMAGED, f"XML: {error}") from error


def attributes_of(content: bytes, element: str) -> list[Attributes]:
    """The attributes of all elements of a name, in their order."""
    found: list[Attributes] = []

    def start(name: str, attributes: Attributes) -> None:
        if name == element:
            found.append(attributes)

    read_events(content, start, _nothing, _nothing)
    return found


def _attribute_name(name: str) -> str:
    """The name of an attribute without its namespace."""
    namespace, _, local = name.rpartition(" ")
    return "r:id" if local == "id" and namespace.endswith("relationships") else local


def _nothing(_: str) -> None:
    """Ignore an event."""
