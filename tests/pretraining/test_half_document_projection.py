"""Tests of the map in closed form, against the least squares that define it and a model whose truth is known."""

import time

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from docsplit_hf.pretraining.half_document_projection import SHRINKAGES, choose_shrinkage, half_document_projection


def halves(documents, seed=0, dimensions=12, shared=3, noise=0.5):
    """Documents with something of their own in the first dimensions, and noise of each half in all of them."""
    rng = np.random.default_rng(seed)
    own = np.zeros((documents, dimensions))
    own[:, :shared] = rng.normal(size=(documents, shared))
    return (own + noise * rng.normal(size=own.shape) + 0.3 for _ in range(2))


@pytest.mark.parametrize("shrinkage", [0.0, 0.1, 3.0])
def test_it_is_the_ridge_regression_of_one_half_on_the_other_shrunk_to_a_multiple_of_the_identity(shrinkage):
    first, second = halves(40)
    mean, matrix = half_document_projection(first, second, shrinkage)
    assert mean == pytest.approx(np.concatenate([first, second]).mean(0))
    x, y = np.concatenate([first, second]) - mean, np.concatenate([second, first]) - mean
    scale = (x**2).sum() / len(x) / x.shape[1]
    ratio = (x * y).sum() / (x * x).sum()
    ridge = Ridge(alpha=shrinkage * scale * len(x), fit_intercept=False).fit(x, y - ratio * x)
    assert matrix == pytest.approx(ridge.coef_.T + ratio * np.eye(12), abs=1e-9)


def test_in_the_limits_it_is_least_squares_and_no_map():
    first, second = halves(40)
    mean, matrix = half_document_projection(first, second, 1e9)
    assert matrix == pytest.approx(matrix[0, 0] * np.eye(12), abs=1e-6)
    mean, matrix = half_document_projection(first, second, 0.0)
    x, y = np.concatenate([first, second]) - mean, np.concatenate([second, first]) - mean
    assert matrix == pytest.approx(np.linalg.lstsq(x, y)[0], abs=1e-9)


def test_of_many_documents_it_keeps_what_the_halves_share_and_nothing_else():
    _, matrix = half_document_projection(*halves(200_000), 0.0)
    expected = np.diag([1 / (1 + 0.5**2)] * 3 + [0.0] * 9)  # variance of the document over that of a half
    assert matrix == pytest.approx(expected, abs=0.01)


def test_it_turns_with_the_embeddings():
    first, second = halves(40)
    turn = np.linalg.qr(np.random.default_rng(1).normal(size=(12, 12)))[0]
    mean, matrix = half_document_projection(first, second, 0.3)
    turned_mean, turned = half_document_projection(first @ turn, second @ turn, 0.3)
    assert turned_mean == pytest.approx(mean @ turn)
    assert turned == pytest.approx(turn.T @ matrix @ turn)
    assert choose_shrinkage(first @ turn, second @ turn) == pytest.approx(choose_shrinkage(first, second))


def test_the_shrinkage_is_the_one_that_is_best_on_held_out_documents():
    first, second = halves(60)
    mean = np.concatenate([first, second]).mean(0)
    first, second = first - mean, second - mean
    fold = np.random.default_rng(7).permutation(60) % 5
    errors = []
    for shrinkage in SHRINKAGES:
        error = 0.0
        for number in range(5):
            kept, held_out = fold != number, fold == number
            # The mean of all documents is taken for known.
            one, other = (np.concatenate([half[kept], -half[kept]]) for half in (first, second))
            _, matrix = half_document_projection(one, other, shrinkage)
            error += ((first[held_out] @ matrix - second[held_out]) ** 2).sum()
            error += ((second[held_out] @ matrix - first[held_out]) ** 2).sum()
        errors.append(error / ((first**2).sum() + (second**2).sum()))
    best = int(np.argmin(errors))
    assert 0 < best < len(SHRINKAGES) - 1
    assert choose_shrinkage(first + mean, second + mean, seed=7) == pytest.approx((SHRINKAGES[best], errors[best]))


def test_fewer_documents_are_shrunk_more():
    chosen = [choose_shrinkage(*halves(documents, dimensions=64))[0] for documents in (20, 100, 2000)]
    assert chosen[0] > chosen[1] > chosen[2]


def test_the_embeddings_of_ten_thousand_documents_take_seconds():
    first, second = halves(10_000, dimensions=384)
    start = time.process_time()
    shrinkage, _ = choose_shrinkage(first, second)
    half_document_projection(first, second, shrinkage)
    assert time.process_time() - start < 10


def test_too_few_documents():
    with pytest.raises(ValueError, match="4 documents are too few to choose a shrinkage on: give 5 or more, or set it"):
        choose_shrinkage(*halves(4))
