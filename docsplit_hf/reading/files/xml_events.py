"""Read XML as events with expat: no entities, no network, no tree in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from xml.parsers import expat

from .failures import DAMAGED, NESTED_TOO_DEEP, XML_ENTITIES, Refusal

DEEPEST = 500  # elements in one another

Attributes = Mapping[str, str]


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
