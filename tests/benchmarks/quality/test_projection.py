"""DocSplit in closed form, of benchmarks/quality/projection.py."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from benchmarks.quality.projection import SHRINKAGES, choose_shrinkage, half_to_half, moments, projection


def halves(documents, seed=0, dimensions=12, shared=3, noise=0.5):
    """Halves with a common signal in the first dimensions, and independent noise in all dimensions."""
    rng = np.random.default_rng(seed)
    signal = np.zeros((documents, dimensions))
    signal[:, :shared] = rng.normal(size=(documents, shared))
    first = signal + noise * rng.normal(size=signal.shape) + 0.3
    second = signal + noise * rng.normal(size=signal.shape) + 0.3
    return first, second


@pytest.mark.parametrize("shrinkage", [0.0, 0.1, 3.0])
def test_the_map_is_a_ridge_regression_between_halves_shrunk_to_a_multiple_of_the_identity(shrinkage):
    first, second = halves(40)
    mean = np.concatenate([first, second]).mean(0)
    total, cross = moments(first - mean, second - mean)
    matrix = half_to_half(total / 40, cross / 40, shrinkage)
    x = np.concatenate([first, second]) - mean
    y = np.concatenate([second, first]) - mean
    scale = (x**2).sum() / len(x) / x.shape[1]
    ratio = (x * y).sum() / (x * x).sum()
    ridge = Ridge(alpha=shrinkage * scale * len(x), fit_intercept=False).fit(x, y - ratio * x)
    assert matrix == pytest.approx(ridge.coef_.T + ratio * np.eye(12), abs=1e-9)


def test_with_many_documents_the_map_keeps_only_the_common_signal():
    first, second = halves(200_000)
    mean = np.concatenate([first, second]).mean(0)
    total, cross = moments(first - mean, second - mean)
    matrix = half_to_half(total / len(first), cross / len(first), shrinkage=0.0)
    expected = np.diag([1 / (1 + 0.5**2)] * 3 + [0.0] * 9)  # variance of the document over that of a half
    assert matrix == pytest.approx(expected, abs=0.01)


def test_the_shrinkage_is_chosen_by_cross_validation():
    first, second = halves(60)
    mean = np.concatenate([first, second]).mean(0)
    first = first - mean
    second = second - mean
    fold = np.random.default_rng(7).permutation(60) % 5
    errors = []
    for shrinkage in SHRINKAGES:
        error = 0.0
        for number in range(5):
            held_out = fold == number
            total, cross = moments(first[~held_out], second[~held_out])
            matrix = half_to_half(total / (~held_out).sum(), cross / (~held_out).sum(), shrinkage)
            error += ((first[held_out] @ matrix - second[held_out]) ** 2).sum()
            error += ((second[held_out] @ matrix - first[held_out]) ** 2).sum()
        errors.append(error / ((first**2).sum() + (second**2).sum()))
    best = int(np.argmin(errors))
    assert 0 < best < len(SHRINKAGES) - 1
    assert choose_shrinkage(first + mean, second + mean, seed=7) == pytest.approx((SHRINKAGES[best], errors[best]))


def test_the_map_gives_rows_of_norm_1_with_the_shrinkage_that_it_chooses():
    first, second = halves(60)
    mapped = projection(first, first, second)(first)
    assert mapped.dtype == np.float32 and np.linalg.norm(mapped, axis=1) == pytest.approx(np.ones(60), abs=1e-6)
    unit = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (first, second)]
    chosen, _ = choose_shrinkage(*unit, seed=0)
    assert np.array_equal(mapped, projection(first, first, second, shrinkage=chosen)(first))
