import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docsplit_hf.neighbors.experts.label_thresholds import FEWEST, label_thresholds


def f1_score(targets, predicted):
    return 2 * (targets * predicted).sum() / max(targets.sum() + predicted.sum(), 1)


def best_f1(probabilities, targets):
    cuts = [0.0, *np.unique(probabilities), 2.0]
    return max(f1_score(targets, probabilities >= cut) for cut in cuts)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.booleans())
def test_no_other_threshold_is_better(seed, rounded):
    rng = np.random.default_rng(seed)
    targets = rng.integers(0, 2, (40, 3))
    probabilities = rng.random((40, 3)) * 0.7 + targets * 0.3
    probabilities = probabilities.round(1) if rounded else probabilities
    thresholds = label_thresholds(probabilities, targets)
    assert ((0 <= thresholds) & (thresholds <= 1)).all()
    for threshold, p, y in zip(thresholds, probabilities.T, targets.T, strict=True):
        if min(y.sum(), (1 - y).sum()) >= FEWEST:
            assert f1_score(y, p >= threshold) == pytest.approx(best_f1(p, y))


def test_a_label_of_few_examples_has_the_threshold_of_all():
    rng = np.random.default_rng(0)
    targets = (rng.random((60, 3)) < [0.5, 0.03, 0.99]).astype(int)
    probabilities = rng.random((60, 3))
    first, second, third = label_thresholds(probabilities, targets)
    assert second == third != first
    flat = probabilities.ravel(), targets.ravel()
    assert f1_score(flat[1], flat[0] >= second) == pytest.approx(best_f1(*flat))


def test_without_examples_it_is_a_half():
    assert label_thresholds(np.zeros((0, 2)), np.zeros((0, 2))).tolist() == [0.5, 0.5]
