import sys

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import betainc

from docsplit_hf.fitting import incomplete_beta as module
from docsplit_hf.fitting import rejection
from docsplit_hf.fitting.incomplete_beta import incomplete_beta

PARAMETER = st.floats(1e-9, 1e5)


@given(PARAMETER, PARAMETER, st.floats(0, 1))
def test_it_is_that_of_scipy(a, b, x):
    np.testing.assert_allclose(incomplete_beta(a, b, x), betainc(a, b, x), rtol=1e-7, atol=1e-9)


def test_it_ends_when_it_has_converged(monkeypatch):
    # Many at once: with rounding errors, one of them never gets to the last digit.
    rng = np.random.default_rng(0)
    a, b = rng.uniform(1, 1_000, (2, 4_000))
    factors = []
    not_zero = module._not_zero
    monkeypatch.setattr(module, "_not_zero", lambda values: factors.append(1) or not_zero(values))
    incomplete_beta(a, b, rng.random(4_000))
    assert len(factors) < 4 * 200 < 4 * module.MOST_TERMS


def test_a_guarantee_is_the_same_without_scipy(monkeypatch):
    rng = np.random.default_rng(0)
    confidence = rng.random(80)
    right = rng.random(80) < 0.8 + 0.2 * confidence
    errors = (0.15, 0.25)
    expected = [rejection.confidence_threshold(confidence, right, error) for error in errors]
    assert np.isfinite(expected).any()
    monkeypatch.setitem(sys.modules, "scipy.special", None)
    assert [rejection.confidence_threshold(confidence, right, error) for error in errors] == expected
