"""Which places a span of a text is in."""

from hypothesis import given
from hypothesis import strategies as st

from docsplit_hf.reading.files.places import Place, places_of_span

LENGTHS = st.lists(st.tuples(st.integers(1, 5), st.integers(0, 3)), max_size=6)


@given(LENGTHS, st.integers(0, 40), st.integers(0, 10))
def test_they_are_those_that_share_a_character(lengths, start, length):
    places = []
    position = 0
    for number, (size, gap) in enumerate(lengths):
        places.append(Place("page", str(number), position + gap, position + gap + size))
        position += gap + size
    span = set(range(start, start + max(1, length)))
    expected = tuple(place for place in places if span & set(range(place.start, place.end)))
    assert places_of_span(places, start, start + length) == expected
