import numpy as np
import pytest
import scipy.special

from docsplit_hf.fitting.experts.log_linear_pool import expit, log_softmax, softmax


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_softmax_is_that_of_scipy(axis, dtype):
    logits = (300 * np.random.default_rng(0).normal(size=(5, 4))).astype(dtype)
    for own, stock in ((softmax, scipy.special.softmax), (log_softmax, scipy.special.log_softmax)):
        found = own(logits, axis=axis)
        assert found.dtype == dtype
        np.testing.assert_allclose(found, stock(logits, axis=axis), rtol=1e-6)


def test_the_logistic_function_is_that_of_scipy_without_a_warning():
    log_odds = np.array([-1e4, -800.0, -20.0, -1e-9, 0.0, 3.0, 40.0, 1e4])
    np.testing.assert_allclose(expit(log_odds), scipy.special.expit(log_odds), rtol=1e-12)
    assert expit(0.0) == 0.5
