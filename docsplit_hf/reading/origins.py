"""The file that a text was read from, and its pages or other places in it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypedDict

from .files.places import KINDS, PAGE, SLIDE, Place, places_of_span

if TYPE_CHECKING:
    from datasets import Dataset

FILE_COLUMN = "file"
PLACES_COLUMN = "places"


class PlaceShown(TypedDict, total=False):
    """Where a passage is: its file, and the page, sheet, slide or part; several, if it crosses their border."""

    file: str
    page: int | str  # a number, unless the file names its pages otherwise
    pages: list[int | str]
    sheet: str
    sheets: list[str]
    slide: int | str
    slides: list[int | str]
    part: str
    parts: list[str]


class Origin(NamedTuple):
    """The file that a text was read from, and its places by characters of the text."""

    file: str
    places: tuple[Place, ...] = ()

    @classmethod
    def from_json(cls, file: str, places: str | None) -> Self:
        """Read an origin from the form in which a datastore keeps it; raise ValueError if it is none."""
        try:
            listed = json.loads(places or "[]")
        except (ValueError, RecursionError) as error:
            raise ValueError(f"the places of {file!r} are not JSON") from error
        if not isinstance(listed, list) or not all(map(_is_place, listed)):
            raise ValueError(f"the places of {file!r} are no list of kind, name, start and end")
        return cls(file, tuple(Place(kind, name, start, end) for kind, name, start, end in listed))

    def places_as_json(self) -> str | None:
        """Return the places as JSON; None without places."""
        return json.dumps(self.places, ensure_ascii=False) if self.places else None

    def shown(self, start: int, end: int) -> PlaceShown:
        """Name the places of a span of the text, in characters."""
        shown = PlaceShown(file=self.file)
        names: dict[str, list[int | str]] = {}
        for place in places_of_span(self.places, start, end):
            name = int(place.name) if place.kind in (PAGE, SLIDE) and place.name.isdecimal() else place.name
            names.setdefault(place.kind, []).append(name)
        for kind, found in names.items():
            if len(found) == 1:
                shown[kind] = found[0]
            else:
                shown[f"{kind}s"] = found
        return shown


def describe_place(shown: Mapping[str, Any]) -> str:
    """Name the places of a passage in words, such as "page 12" or "pages 3, 4"; empty without places."""
    words = []
    for kind in KINDS:
        if kind in shown:
            words.append(f"{kind} {shown[kind]}")
        elif f"{kind}s" in shown:
            words.append(f"{kind}s {', '.join(map(str, shown[f'{kind}s']))}")
    return ", ".join(words)


def origins_of_rows(rows: Dataset) -> list[Origin | None] | None:
    """Return the origin of each row of a data set; None if it has no column ``file`` beside ``places``."""
    if FILE_COLUMN not in rows.column_names or PLACES_COLUMN not in rows.column_names:
        return None
    return [make_origin(file, places) for file, places in zip(rows[FILE_COLUMN], rows[PLACES_COLUMN], strict=True)]


def make_origin(file: str | None, places: Iterable[Mapping[str, Any]] | None) -> Origin | None:
    """Make an origin of the values of the columns ``file`` and ``places``; None without a file."""
    if file is None:
        return None
    found = [Place(place["kind"], place["name"], place["start"], place["end"]) for place in places or ()]
    return Origin(file, tuple(found))


def _is_place(value: Any) -> bool:
    """Whether a JSON value is a place."""
    if not isinstance(value, list) or [type(part) for part in value] != [str, str, int, int]:
        return False
    kind, _, start, end = value
    return kind in KINDS and 0 <= start <= end
