import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docsplit_hf.data.views import VIEWS, docsplit, get_views


@given(lengths=st.lists(st.integers(1, 5), min_size=2, max_size=30), seed=st.integers(0, 2**32 - 1))
def test_halves_are_a_partition_that_keeps_sentences_and_order(lengths, seed):
    tokens = np.arange(sum(lengths))
    halves = docsplit(tokens, np.array(lengths), np.random.default_rng(seed))
    assert all(len(half) > 0 for half in halves)
    assert all((np.diff(half) > 0).all() for half in halves)
    assert sorted(np.concatenate(halves)) == tokens.tolist()
    for sentence in np.split(tokens, np.cumsum(lengths)[:-1]):
        assert np.isin(sentence, halves[0]).all() or np.isin(sentence, halves[1]).all()


def test_every_split_with_two_non_empty_halves_is_equally_likely():
    rng = np.random.default_rng(0)
    splits = [tuple(docsplit(np.arange(3), np.ones(3, int), rng)[0].tolist()) for _ in range(6000)]
    counts = {split: splits.count(split) for split in set(splits)}
    assert len(counts) == 6
    assert all(abs(count - 1000) < 150 for count in counts.values())  # 5 standard deviations


def test_one_sentence_is_paired_with_itself():
    tokens = np.array([7, 8])
    first, second = docsplit(tokens, np.array([2]), np.random.default_rng(0))
    assert first.tolist() == second.tolist() == [7, 8]


def test_an_empty_document_is_an_error():
    with pytest.raises(ValueError, match="empty document"):
        docsplit(np.array([]), np.array([]), np.random.default_rng(0))


def test_views_by_name_or_function():
    assert get_views("docsplit") is VIEWS["docsplit"]
    assert get_views(docsplit) is docsplit
    with pytest.raises(ValueError, match="'cropping'.*'docsplit'"):
        get_views("cropping")
