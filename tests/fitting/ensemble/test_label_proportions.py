"""Label proportions among documents, by calibrated probabilities."""

import numpy as np
import pytest
from scipy.special import log_softmax, softmax

from docsplit_hf.fitting.ensemble.label_proportions import (
    PSEUDO_COUNT,
    calibration,
    estimate_proportions,
    moved_toward_equal,
    proportions_of,
)


def draw(labels, seed, noise=1.5):
    """Logits that are calibrated for equally many texts of three labels: log likelihoods of a normal distribution."""
    rng = np.random.default_rng(seed)
    centers = 2 * np.eye(3)
    points = centers[labels] + noise * rng.standard_normal((len(labels), 3))
    return -np.square(points[:, None] - centers).sum(2) / (2 * noise**2)


TRUE = np.array([0.7, 0.25, 0.05])


def test_proportions_of_many_texts_are_found():
    labels = np.random.default_rng(0).choice(3, 4000, p=TRUE)
    found = proportions_of(softmax(draw(labels, 1), axis=1), np.full(3, 1 / 3))
    np.testing.assert_allclose(found, TRUE, atol=0.03)


def test_proportions_of_certain_answers_are_their_frequencies():
    """The estimate is the proportion of each label, with pseudo counts."""
    labels = np.repeat([0, 1, 2], [70, 25, 5])
    found = proportions_of(np.eye(3)[labels], np.full(3, 1 / 3))
    np.testing.assert_allclose(found, (np.array([70, 25, 5]) + PSEUDO_COUNT) / (100 + 3 * PSEUDO_COUNT), atol=1e-6)


def test_calibration_undoes_a_bias_and_a_sharpness():
    labels = np.random.default_rng(0).integers(0, 3, 3000)
    logits = draw(labels, 1)
    found = calibration(2 * logits + [1.0, 0.0, -1.0], np.eye(3)[labels])(2 * logits + [1.0, 0.0, -1.0])
    np.testing.assert_allclose(found, softmax(logits, axis=1), atol=0.1)
    assert np.abs(log_softmax(logits, axis=1) - np.log(found)).mean() < 0.2


def test_draws_are_closer_together_with_more_examples():
    documents = draw(np.random.default_rng(0).choice(3, 1000, p=TRUE), 1)
    spreads = []
    for count in (12, 300):
        labels = np.arange(count) % 3
        found = estimate_proportions(draw(labels, 2), np.eye(3)[labels], documents)
        assert found.likeliest.sum() == pytest.approx(1)
        np.testing.assert_allclose(found.draws.sum(1), 1)
        spreads.append(found.draws.std(0).max())
    assert spreads[1] < 0.8 * spreads[0]
    assert np.abs(found.draws.mean(0) - TRUE).max() < 0.1


def moved(proportions, log_likelihoods, labels):
    """Proportions to use, by draws that resample these held-out texts and agree on the proportions."""
    rng = np.random.default_rng(0)
    counts = np.bincount(labels, minlength=3).clip(1)
    weights = []
    for _ in range(50):
        rows = rng.integers(len(labels), size=len(labels))
        weights.append(np.bincount(rows, minlength=len(labels)) * (proportions / counts)[labels])
    return moved_toward_equal(proportions, log_likelihoods, labels, np.stack(weights))


def test_proportions_are_used_where_held_out_answers_gain_by_them():
    labels = np.arange(300) % 3
    logits = draw(labels, 1)
    np.testing.assert_allclose(moved(TRUE, logits, labels), TRUE, atol=0.2)
    assert np.abs(moved(TRUE, logits, labels) - 1 / 3).sum() > 0.1


def test_proportions_that_only_change_right_answers_are_not_used():
    """Every answer is right without them, and a label that they make rare is lost with them."""
    labels = np.arange(60) % 3
    logits = 0.5 * np.eye(3)[labels]
    np.testing.assert_array_equal(moved(TRUE, logits, labels), np.full(3, 1 / 3))


def test_a_gain_in_few_draws_is_not_enough():
    """One text of 60 is answered rightly only by the proportions: a third of the draws leave it out."""
    labels = np.arange(60) % 3
    logits = 9.0 * np.eye(3)[labels]
    logits[0] = [0.0, 0.5, 0.0]
    np.testing.assert_array_equal(moved(TRUE, logits, labels), np.full(3, 1 / 3))


def test_answers_near_chance_say_nothing_about_proportions():
    labels = np.arange(300) % 3
    logits = draw(labels, 1, noise=8.0)
    assert np.mean(logits.argmax(1) == labels) < 0.6
    np.testing.assert_array_equal(moved(TRUE, logits, labels), np.full(3, 1 / 3))


def test_a_clear_shift_is_kept():
    documents = draw(np.random.default_rng(0).choice(3, 1000, p=TRUE), 1, noise=1.0)
    labels = np.arange(60) % 3
    found = estimate_proportions(draw(labels, 2, noise=1.0), np.eye(3)[labels], documents)
    assert np.abs(found.likeliest - TRUE).max() < np.abs(1 / 3 - TRUE).max() / 2


def test_the_estimate_is_reproducible():
    labels = np.arange(30) % 3
    documents = draw(np.random.default_rng(0).choice(3, 200, p=TRUE), 1)
    first, second = (estimate_proportions(draw(labels, 2), np.eye(3)[labels], documents) for _ in range(2))
    np.testing.assert_array_equal(first.draws, second.draws)
