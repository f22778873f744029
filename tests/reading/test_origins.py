"""The file of a text, and its places."""

import pytest

from docsplit_hf.reading.files.places import Place
from docsplit_hf.reading.origins import Origin, describe_place

PAGES = Origin("a/b.pdf", (Place("page", "1", 0, 10), Place("page", "2", 11, 20), Place("page", "iv", 21, 30)))


@pytest.mark.parametrize(
    ("start", "end", "shown", "words"),
    [
        (0, 10, {"page": 1}, "page 1"),
        (11, 12, {"page": 2}, "page 2"),
        (9, 12, {"pages": [1, 2]}, "pages 1, 2"),
        (0, 30, {"pages": [1, 2, "iv"]}, "pages 1, 2, iv"),
        (22, 30, {"page": "iv"}, "page iv"),
        (10, 11, {}, ""),
    ],
)
def test_a_span_names_its_pages(start, end, shown, words):
    assert PAGES.shown(start, end) == {"file": "a/b.pdf"} | shown
    assert describe_place(shown) == words


def test_sheets_slides_and_parts_have_their_own_names():
    mixed = Origin("m.eml", (Place("part", "body", 0, 5), Place("sheet", "12", 6, 9), Place("slide", "3", 10, 12)))
    assert mixed.shown(0, 12) == {"file": "m.eml", "part": "body", "sheet": "12", "slide": 3}
    assert describe_place(mixed.shown(0, 12)) == "sheet 12, slide 3, part body"


def test_places_are_the_same_after_json():
    assert Origin.from_json(PAGES.file, PAGES.places_as_json()) == PAGES
    assert Origin("a.txt").places_as_json() is None and Origin.from_json("a.txt", None) == Origin("a.txt")


NO_LISTS = ["{", "{}", "[1]", '[["page", "1", 0]]']
NO_SPANS = ['[["page", 1, 0, 5]]', '[["page", "1", 5, 0]]', '[["x", "1", 0, 5]]']


@pytest.mark.parametrize("places", NO_LISTS + NO_SPANS)
def test_places_that_no_reader_makes_are_refused(places):
    with pytest.raises(ValueError, match=r"the places of 'a\.pdf' are no"):
        Origin.from_json("a.pdf", places)
