import numpy as np
import pytest
from scipy.stats import t

from docsplit_hf.neighbors.watching.change import CERTAINTY, Change, change_of


def test_the_interval_is_welchs():
    rng = np.random.default_rng(0)
    now, then = rng.normal(1, 1, 30), rng.normal(0, 3, 80)
    a, b = now.var(ddof=1) / 30, then.var(ddof=1) / 80
    freedom = (a + b) ** 2 / (a**2 / 29 + b**2 / 79)
    half, difference = t.ppf((1 + CERTAINTY) / 2, freedom) * np.sqrt(a + b), now.mean() - then.mean()
    found = change_of(now, then)
    assert (found.now, found.then) == pytest.approx((now.mean(), then.mean()))
    assert (found.low, found.high) == pytest.approx((difference - half, difference + half))


@pytest.mark.parametrize(
    "now, then, expected",
    [
        ([0.5], [0.25, 0.75], Change(0.5, 0.5)),
        ([0.5, 0.5], [0.25, 0.25], Change(0.5, 0.25)),  # no spread says nothing of the next text
        ([0.5, 1.0], [], Change(0.75, None)),
        ([], [], Change(None, None)),
    ],
)
def test_without_two_texts_or_a_spread_there_is_no_interval(now, then, expected):
    found = change_of(np.array(now), np.array(then))
    assert found == expected and not found.is_certain


def test_bools_are_shares():
    assert change_of(np.array([True, True, False]), np.array([False, True])).now == pytest.approx(2 / 3)


@pytest.mark.parametrize("low, high, certain", [(-0.1, 0.1, False), (0.1, 0.2, True), (-0.2, -0.1, True)])
def test_it_is_certain_off_0(low, high, certain):
    assert Change(0.0, 0.0, low, high).is_certain == certain
