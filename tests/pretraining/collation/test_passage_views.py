import functools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docsplit_hf.pretraining.collation.passage_views import passage_views
from docsplit_hf.pretraining.collation.views import VIEWS, docsplit
from docsplit_hf.text.passages import passage_bounds

LENGTHS = st.lists(st.integers(1, 9), min_size=1, max_size=40)
SEEDS = st.integers(0, 2**32 - 1)
ALL = 10**6


def passages_of(function, lengths, seed, max_tokens, most, views=2):
    """The passages of each view of a document whose tokens are their own places in it."""
    rng = np.random.default_rng(seed)
    tokens, sentence_lengths = np.arange(sum(lengths)), np.array(lengths)
    found = passage_views(tokens, sentence_lengths, rng, function, views, max_tokens, most)
    return [[passage.tolist() for passage in view] for view in found]


@given(lengths=LENGTHS, seed=SEEDS, max_tokens=st.integers(1, 20), most=st.integers(1, 5), parts=st.integers(2, 4))
def test_whole_passages_are_dealt_to_the_views_and_some_of_each_are_drawn(lengths, seed, max_tokens, most, parts):
    function = functools.partial(docsplit, parts=parts)
    bounds = passage_bounds(lengths, max_tokens)
    if len(bounds) < parts:
        return
    passages = [list(range(start, end)) for start, end in bounds]
    every = passages_of(function, lengths, seed, max_tokens, ALL, parts)
    assert sorted(passage for view in every for passage in view) == passages  # each one once
    for view, drawn in zip(every, passages_of(function, lengths, seed, max_tokens, most, parts), strict=True):
        assert len(drawn) == min(most, len(view)) and drawn == sorted(drawn)
        assert all(passage in view for passage in drawn)


@pytest.mark.parametrize("name", VIEWS)
@given(lengths=LENGTHS, seed=SEEDS, max_tokens=st.integers(1, 20))
def test_any_view_is_cut_where_the_passage_changes(name, lengths, seed, max_tokens):
    bounds = passage_bounds(lengths, max_tokens)
    if len(bounds) < 2:
        return
    of_passages = VIEWS[name](np.arange(sum(lengths)), np.diff(bounds, axis=1)[:, 0], np.random.default_rng(seed))
    for view, passages in zip(of_passages, passages_of(VIEWS[name], lengths, seed, max_tokens, ALL), strict=True):
        assert sum(passages, []) == view.tolist()
        numbers = [set(np.searchsorted(bounds[:, 1], passage, side="right")) for passage in passages]
        assert all(len(number) == 1 for number in numbers) and len(set.union(*numbers)) == len(numbers)


@given(lengths=LENGTHS, seed=SEEDS, most=st.integers(1, 5))
def test_sentences_are_dealt_where_there_are_fewer_passages_than_views(lengths, seed, most):
    expected = docsplit(np.arange(sum(lengths)), np.array(lengths), np.random.default_rng(seed))
    assert passages_of(docsplit, lengths, seed, sum(lengths), most) == [[half.tolist()] for half in expected]


def test_every_passage_is_drawn_as_often():
    drawn = [passages_of(VIEWS["simcse_long"], [1] * 6, seed, 1, 2)[0] for seed in range(1500)]
    counts = np.bincount([place for passages in drawn for (place,) in passages])
    assert (abs(counts - 500) < 5 * np.sqrt(500)).all()
