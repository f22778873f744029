"""Views of the baselines: sentences, crops, spans."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docsplit_hf.pretraining.views import get_views
from experiments.baselines.views import BASELINE_VIEWS, cropping, inverse_cloze, simcse, simcse_long
from tests.pretraining.test_views import LENGTHS, SEEDS, is_contiguous, views_of


@pytest.mark.parametrize("view", BASELINE_VIEWS.values(), ids=BASELINE_VIEWS)
def test_an_empty_document_is_an_error(view):
    with pytest.raises(ValueError, match="empty document"):
        view(np.array([]), np.array([]), np.random.default_rng(0))


@given(lengths=LENGTHS, seed=SEEDS)
def test_simcse_is_one_whole_sentence_twice_and_simcse_long_the_document(lengths, seed):
    first, second = views_of(simcse, lengths, seed)
    sentences = np.split(np.arange(sum(lengths)), np.cumsum(lengths)[:-1])
    assert first.tolist() == second.tolist() and first.tolist() in [sentence.tolist() for sentence in sentences]
    assert [view.tolist() for view in views_of(simcse_long, lengths, seed)] == 2 * [list(range(sum(lengths)))]


@given(lengths=LENGTHS, seed=SEEDS, ratios=st.tuples(st.floats(0.01, 1), st.floats(0.01, 1)))
def test_crops_are_contiguous_and_have_lengths_within_the_ratios(lengths, seed, ratios):
    assert all(len(crop) > 0 and (np.diff(crop) > 0).all() for crop in views_of(cropping, lengths, seed, deletion=0.99))
    low, high = sorted(ratios)
    for crop in views_of(cropping, lengths, seed, ratio_min=low, ratio_max=high):
        assert is_contiguous(crop) and crop[0] >= 0 and crop[-1] < sum(lengths)
        assert max(1, int(sum(lengths) * low)) <= len(crop) <= max(1, int(sum(lengths) * high))


def test_crops_are_independent_reach_both_ends_and_lose_a_tenth():
    pairs = [views_of(cropping, [100], seed, deletion=0.1) for seed in range(2000)]
    crops = [crop for pair in pairs for crop in pair]
    assert min(crop[0] for crop in crops) == 0 and max(crop[-1] for crop in crops) == 99
    lengths = np.array([[len(view) for view in pair] for pair in pairs])
    assert abs(np.corrcoef(lengths.T)[0, 1]) < 0.1
    assert lengths.mean() == pytest.approx(0.9 * 29.5, abs=0.5)  # int(100 * U(0.1, 0.5)), and a tenth deleted


@given(lengths=st.lists(st.integers(1, 5), min_size=2, max_size=30), seed=SEEDS)
def test_span_and_complement_together_are_the_document(lengths, seed):
    span, rest = views_of(inverse_cloze, lengths, seed)
    assert is_contiguous(span) and len(span) > 0 and len(rest) > 0
    assert np.concatenate([rest[rest < span[0]], span, rest[rest > span[-1]]]).tolist() == list(range(sum(lengths)))
    assert (np.diff(rest) > 0).all()
    boundaries = {0, *np.cumsum(lengths).tolist()}
    assert span[0] in boundaries and span[-1] + 1 in boundaries


def test_the_span_stays_in_its_document_with_the_given_probability():
    kept = [len(views_of(inverse_cloze, [1, 2, 3], seed, keep_span=0.1)[1]) == 6 for seed in range(2000)]
    assert np.mean(kept) == pytest.approx(0.1, abs=0.03)


@pytest.mark.parametrize(
    "views, options, message",
    [
        (cropping, {"ratio": 0.1}, "no option 'ratio'.*ratio_min=0.1, ratio_max=0.5, deletion=0.0"),
        (simcse, {"ratio": 0.1}, "no option 'ratio'.*none"),
        (cropping, {"ratio_min": "a"}, "ratio_min of the views 'cropping' is a number, got 'a'"),
        (cropping, {"ratio_min": 0.6}, "ratio_min <= ratio_max <= 1, got 0.6 and 0.5"),
        (cropping, {"ratio_min": 0}, "0 < ratio_min"),
        (cropping, {"deletion": 1.0}, r"deletion must be in \[0, 1\), got 1.0"),
        (inverse_cloze, {"keep_span": 2}, "keep_span must be in .*got 2"),
    ],
)
def test_invalid_options_are_refused(views, options, message):
    with pytest.raises(ValueError, match=message):
        get_views(views, options)
