"""Passages: whole sentences, no more tokens than asked, nothing lost."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docsplit_hf.text.passages import passage_bounds

LENGTHS = st.lists(st.integers(1, 30), max_size=30)


@pytest.mark.parametrize(
    ("lengths", "overlap", "expected"),
    [
        ([3, 3, 3], 0, [(0, 9)]),
        ([3, 3, 5], 0, [(0, 6), (6, 11)]),
        ([3, 3, 5], 3, [(0, 6), (3, 11)]),
        ([3, 3, 8], 3, [(0, 6), (6, 14)]),  # beside what is read again there would be no room
        ([2, 25, 3], 0, [(0, 2), (2, 12), (12, 22), (22, 30)]),
        ([], 0, [(0, 0)]),
    ],
)
def test_sentences_are_taken_until_one_does_not_fit(lengths, overlap, expected):
    assert passage_bounds(lengths, 10, overlap).tolist() == [list(bounds) for bounds in expected]


@given(lengths=LENGTHS, most=st.integers(1, 40), data=st.data())
def test_passages_cover_the_document_in_order(lengths, most, data):
    overlap = data.draw(st.integers(0, most - 1))
    bounds = passage_bounds(lengths, most, overlap)
    starts, ends = bounds.T
    assert starts[0] == 0 and ends[-1] == sum(lengths)
    assert ((ends - starts) <= most).all()
    repeated = ends[:-1] - starts[1:]
    assert ((repeated >= 0) & (repeated <= overlap)).all()
    assert (np.diff(ends) > 0).all()


@given(lengths=LENGTHS, most=st.integers(1, 40))
def test_only_a_sentence_that_is_too_long_is_cut(lengths, most):
    sentences = np.cumsum([0, *lengths])
    is_long = {place for start, end in zip(sentences[:-1], sentences[1:], strict=True) if end - start > most
               for place in range(start, end)}  # fmt: skip
    for place in passage_bounds(lengths, most)[:-1, 1]:
        assert place in sentences or place in is_long


def test_a_wrong_size_is_refused():
    for most, overlap in ((0, 0), (5, 5), (5, -1)):
        with pytest.raises(ValueError, match="overlap below it"):
            passage_bounds([1], most, overlap)
