"""The comparison of the ensemble with its parts."""

import numpy as np
import pytest

from benchmarks.quality.learned_prior.parts import highest_difference, macro_f1, macro_f1_of_resamples


def test_resamples_have_the_macro_f1_of_their_texts():
    rng = np.random.default_rng(0)
    labels, answers = rng.integers(0, 4, (2, 30))
    counts = rng.multinomial(30, np.full(30, 1 / 30), 20)
    expected = [macro_f1(np.repeat(labels, row), np.repeat(answers, row)) for row in counts]
    assert macro_f1_of_resamples(labels, answers, counts) == pytest.approx(expected)


def test_the_interval_tells_chance_from_a_difference():
    labels = np.arange(200) % 2
    rng = np.random.default_rng(0)
    one, other = (np.where(rng.random(200) < 0.7, labels, 1 - labels) for _ in range(2))
    assert highest_difference(labels, one, one) == 0
    assert highest_difference(labels, one, other) > 0
    assert highest_difference(labels, 1 - labels, labels) == -100
