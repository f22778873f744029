import numpy as np
import pytest
from scipy import stats

from experiments.protocols.jackknife import half_interval, ratio_without_each, with_intervals


def test_of_a_mean_it_is_the_t_interval():
    values = np.random.default_rng(0).normal(size=12)
    low, high = stats.t.interval(0.95, len(values) - 1, loc=values.mean(), scale=stats.sem(values))
    found = with_intervals({"x": values.mean()}, {"x": ratio_without_each(values, np.ones(12))})
    assert found == {"x": values.mean(), "x_interval": pytest.approx((high - low) / 2)}


def test_a_ratio_is_divided_without_each_and_has_no_interval_where_nothing_is_left():
    assert ratio_without_each(np.array([1.0, 2, 3]), np.array([1, 1, 2])) == pytest.approx([5 / 3, 4 / 3, 3 / 2])
    assert half_interval(ratio_without_each(np.array([1.0, 0]), np.array([1, 0]))) is None
    assert half_interval(np.array([0.5])) is None
