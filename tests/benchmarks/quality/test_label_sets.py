"""The other rules that sets of labels are compared with."""

import math

import numpy as np
import pytest

from benchmarks.quality.label_sets import GUARANTEES, SCORES, mean_limit


@pytest.mark.parametrize("count", [5, 19, 20, 137])
@pytest.mark.parametrize("outside", [0.05, 0.1, 0.3])
def test_with_equal_weights_the_limit_is_the_usual_quantile(count, outside):
    values = np.random.default_rng(count).random(count)
    rank = math.ceil((count + 1) * (1 - outside) - 1e-9)
    expected = np.sort(values)[rank - 1] if rank <= count else 1.0
    for weights in (np.ones((1, count)), np.ones((7, count))):
        assert mean_limit(values, outside, weights) == expected
    assert (count >= GUARANTEES["in the mean"].least(outside)) == (rank <= count)


def test_scores_are_those_of_the_papers():
    probabilities = np.array([[0.2, 0.5, 0.3]])
    rng = np.random.default_rng(0)
    np.testing.assert_allclose(SCORES["LAC"](probabilities, rng), [[0.8, 0.5, 0.7]])
    np.testing.assert_allclose(SCORES["APS"](probabilities, rng), [[1.0, 0.5, 0.8]])
    part = np.random.default_rng(1).random()
    randomized = SCORES["APS, randomized"](probabilities, np.random.default_rng(1))
    np.testing.assert_allclose(randomized, [[1 - 0.2 * part, 0.5 - 0.5 * part, 0.8 - 0.3 * part]])
    penalized = SCORES["RAPS"](probabilities, np.random.default_rng(1)) * (1 + 3 * 0.05)
    np.testing.assert_allclose(penalized - randomized, [[0.05, 0, 0]], atol=1e-12)
