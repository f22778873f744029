"""View functions: halves, sentences, crops, spans."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docsplit_hf.pretraining.views import (
    count_views,
    docsplit,
    get_views,
)

LENGTHS = st.lists(st.integers(1, 5), min_size=1, max_size=30)
SEEDS = st.integers(0, 2**32 - 1)


def views_of(function, lengths, seed, **options):
    """Views of a document with token i at place i."""
    return function(np.arange(sum(lengths)), np.array(lengths), np.random.default_rng(seed), **options)


def is_contiguous(view):
    return (np.diff(view) == 1).all()


@pytest.mark.parametrize("sentences, parts, splits", [(3, 2, 6), (4, 3, 36)])  # surjections
def test_every_assignment_without_an_empty_part_is_equally_likely(sentences, parts, splits):
    counts = Counter()
    for seed in range(200 * splits):
        views = views_of(docsplit, [1] * sentences, seed, parts=parts)
        counts[tuple(tuple(view.tolist()) for view in views)] += 1
    assert len(counts) == splits
    assert all(abs(count - 200) < 5 * np.sqrt(200) for count in counts.values())


def papers_docsplit(tokens, sentence_lengths, rng):
    """The papers' halves, with the random numbers of the first version of ``docsplit``."""
    if len(sentence_lengths) == 1:
        return tokens, tokens
    in_second = rng.random(len(sentence_lengths)) < 0.5
    while in_second.all() or not in_second.any():
        in_second = rng.random(len(sentence_lengths)) < 0.5
    token_in_second = np.repeat(in_second, sentence_lengths)
    return tokens[~token_in_second], tokens[token_in_second]


@given(lengths=LENGTHS, seed=SEEDS)
def test_without_options_halves_and_random_numbers_equal_the_papers(lengths, seed):
    tokens = np.arange(sum(lengths))
    sentence_lengths = np.array(lengths)
    expected_rng = np.random.default_rng(seed)
    rng = np.random.default_rng(seed)
    expected = papers_docsplit(tokens, sentence_lengths, expected_rng)
    found = docsplit(tokens, sentence_lengths, rng)
    assert [half.tolist() for half in found] == [half.tolist() for half in expected]
    assert rng.bit_generator.state == expected_rng.bit_generator.state


@given(lengths=LENGTHS, seed=SEEDS, max_tokens=st.integers(1, 40), parts=st.integers(2, 3))
def test_a_budget_is_filled_with_sentences_and_at_most_one_is_truncated(lengths, seed, max_tokens, parts):
    wholes = views_of(docsplit, lengths, seed, parts=parts)
    sentences = np.split(np.arange(sum(lengths)), np.cumsum(lengths)[:-1])
    views = views_of(docsplit, lengths, seed, max_tokens=max_tokens, parts=parts)
    for view, whole in zip(views, wholes, strict=True):
        assert np.isin(view, whole).all() and (np.diff(view) > 0).all()
        assert len(view) == min(len(whole), max_tokens)
        truncated = 0
        for sentence in sentences:
            kept = view[np.isin(view, sentence)]
            if len(kept) > 0:
                assert kept.tolist() == sentence[: len(kept)].tolist()
                truncated += len(kept) < len(sentence)
        assert truncated <= 1


def test_a_budget_samples_the_whole_document_and_long_sentences_as_often_as_short_ones():
    def drawn(length, seed):
        halves = views_of(docsplit, [length, *[7] * 11], seed, max_tokens=20)
        return [bool((half < length).any()) for half in halves]

    assert all(drawn(1, seed) == drawn(60, seed) for seed in range(200))
    kept = np.concatenate([views_of(docsplit, [1] * 40, seed, max_tokens=5) for seed in range(1000)])
    counts = np.bincount(kept.ravel(), minlength=40)
    assert abs(counts - 250).max() < 5 * np.sqrt(250)


@given(lengths=LENGTHS, seed=SEEDS, parts=st.integers(2, 8))
def test_parts_are_a_partition_or_each_has_a_sentence(lengths, seed, parts):
    views = views_of(docsplit, lengths, seed, parts=parts)
    sentences = [sentence.tolist() for sentence in np.split(np.arange(sum(lengths)), np.cumsum(lengths)[:-1])]
    assert len(views) == parts and all(len(view) > 0 for view in views)
    if len(lengths) >= parts:
        assert sorted(np.concatenate(views)) == list(range(sum(lengths)))
        assert all((np.diff(view) > 0).all() for view in views)
        assert all(any(set(sentence) <= set(view) for view in views) for sentence in sentences)
    else:  # sentences are repeated, each equally often or once more
        times = [sum(view.tolist() == sentence for view in views) for sentence in sentences]
        assert sum(times) == parts and max(times) - min(times) <= 1


def test_views_are_counted():
    assert count_views(docsplit) == 2 and count_views(get_views("docsplit", {"parts": 5})) == 5
    assert count_views(lambda tokens, sentence_lengths, rng: (tokens,)) == 1


def test_one_sentence_is_paired_with_itself():
    tokens = np.array([7, 8])
    first, second = docsplit(tokens, np.array([2]), np.random.default_rng(0))
    assert first.tolist() == second.tolist() == [7, 8]


def test_an_empty_document_is_an_error():
    with pytest.raises(ValueError, match="empty document"):
        docsplit(np.array([]), np.array([]), np.random.default_rng(0))


@pytest.mark.parametrize(
    "views, options, message",
    [
        ("halves", None, "'halves'.*'docsplit'"),
        ("docsplit", {"ratio": 0.1}, "no option 'ratio'.*max_tokens=0, parts=2"),
        ("docsplit", {"max_tokens": 9.5}, "max_tokens of the views 'docsplit' is a whole number, got 9.5"),
        ("docsplit", {"max_tokens": -1}, r"max_tokens must be 0 \(whole halves\) or above, got -1"),
        ("docsplit", {"parts": 0}, "parts must be from 1 to 8, 2 as in the papers, got 0"),
        ("docsplit", {"parts": 9}, "got 9"),
        ("docsplit", [0.1], r"a dictionary such as .*got \[0.1\]"),
    ],
)
def test_invalid_options_are_refused(views, options, message):
    with pytest.raises(ValueError, match=message):
        get_views(views, options)
