"""Equations 1 to 3, term by term."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docsplit_hf import KNNDatastore
from docsplit_hf.arrays.passages import Predictions
from docsplit_hf.fitting.interpolation import (
    add_one_smoothing,
    effective_neighbors,
    interpolate,
    interpolate_with_neighbors,
    knn_probabilities,
    neighbor_weights,
)

LABELS = 5
shapes = st.tuples(st.integers(1, 6), st.integers(1, 9))
seeds = st.integers(0, 2**32 - 1)
temperatures = st.floats(1e-3, 1e6)


def random_neighbors(shape, seed, scale=30.0):
    rng = np.random.default_rng(seed)
    distances = np.sort(rng.exponential(scale, shape), axis=1).astype(np.float32)
    return distances, rng.integers(0, LABELS, shape)


def reference_knn(distances, labels, temperature):
    """Equation 2, term by term; ``labels`` are bool ``(N, k, C)``. Before exp the nearest is subtracted."""
    rows = []
    for row, row_labels in zip(distances.astype(float).tolist(), labels.tolist(), strict=True):
        terms = [math.exp(-(distance - min(row)) / temperature) for distance in row]
        sums = [0.0] * LABELS
        for term, has in zip(terms, row_labels, strict=True):
            for label in range(LABELS):
                if has[label]:
                    sums[label] += term
        rows.append([found / sum(terms) for found in sums])
    return np.array(rows)


@given(shapes, seeds, temperatures, st.booleans())
def test_probabilities_against_equation_2_term_by_term(shape, seed, temperature, multi_label):
    distances, labels = random_neighbors(shape, seed)
    as_bool = np.eye(LABELS, dtype=bool)[labels]
    if multi_label:
        as_bool = labels = np.random.default_rng(seed).random((*shape, LABELS)) < 0.4
    knn = knn_probabilities(distances, labels, LABELS, temperature)
    np.testing.assert_allclose(knn, reference_knn(distances, as_bool, temperature), atol=1e-6)
    assert (knn >= 0).all()
    if multi_label:
        assert (knn <= 1).all()
    else:
        assert np.allclose(knn.sum(1), 1)


@pytest.mark.parametrize("temperature", [1e-9, 1e-300, 5e-324])
def test_a_low_temperature_gives_the_label_of_the_nearest_neighbor(temperature, recwarn):
    distances, labels = random_neighbors((50, 9), seed=0)
    np.testing.assert_array_equal(neighbor_weights(distances, temperature), np.eye(9)[np.zeros(50, int)])
    knn = knn_probabilities(distances, labels, LABELS, temperature)
    np.testing.assert_array_equal(knn, np.eye(LABELS)[labels[:, 0]])
    assert not recwarn.list
    of_equals = neighbor_weights(np.array([[3.0, 3.0, 4.0]]), temperature)
    np.testing.assert_array_equal(of_equals, [[0.5, 0.5, 0]])


@pytest.mark.parametrize("temperature", [1e12, 1e300, math.inf])
def test_a_high_temperature_gives_the_label_frequencies_of_the_neighbors(temperature):
    distances, labels = random_neighbors((50, 8), seed=0)
    frequencies = (labels[:, :, None] == np.arange(LABELS)).mean(1)
    np.testing.assert_allclose(knn_probabilities(distances, labels, LABELS, temperature), frequencies, atol=1e-9)


def test_effective_neighbors():
    distances, _ = random_neighbors((20, 16), seed=0)
    np.testing.assert_allclose(effective_neighbors(neighbor_weights(distances, math.inf)), 16)
    np.testing.assert_array_equal(effective_neighbors(neighbor_weights(distances, 1e-9)), 1)
    counts = [effective_neighbors(neighbor_weights(distances, t)).mean() for t in (0.1, 1, 10, 100)]
    assert counts == sorted(counts) and 1 < counts[0] and counts[-1] < 16


@pytest.mark.parametrize("distances, temperature, message", [
    (np.zeros((1, 2)), 0, "temperature must be above 0, got 0"),
    (np.zeros((1, 2)), -1, "got -1"),
    (np.zeros((1, 2)), math.nan, "got nan"),
    (np.array([[0.0, math.nan]]), 1.0, "distances must be finite"),
    (np.full((1, 2), np.inf), 1.0, "distances must be finite"),
])  # fmt: skip
def test_distances_and_temperatures_that_give_no_weights_are_refused(distances, temperature, message):
    with pytest.raises(ValueError, match=message):
        neighbor_weights(distances, temperature)


@pytest.mark.parametrize("labels, message", [
    (np.array([[0, -1]]), "Label -1 is not one of the 3"),
    (np.array([[0, 3]]), "Label 3 is not one of the 3"),
    (np.zeros((1, 2)), "integers"),
])  # fmt: skip
def test_labels_outside_or_of_another_type_are_refused(labels, message):
    with pytest.raises(ValueError, match=message):
        knn_probabilities(np.zeros((1, 2)), labels, 3, 1.0)


@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 10**6))
def test_add_one_smoothing_changes_certainty_and_no_decision(seed, labels, examples):
    knn = np.random.default_rng(seed).dirichlet(np.full(labels, 0.3), 5)
    smoothed = add_one_smoothing(knn, examples)
    np.testing.assert_allclose(smoothed.sum(1), 1)
    assert (smoothed.max(1) <= (examples + 1) / (examples + labels) + 1e-12).all()
    assert (smoothed.min(1) >= 1 / (examples + labels) - 1e-12).all()
    assert (np.argsort(smoothed, 1) == np.argsort(knn, 1)).all()
    assert np.abs(smoothed - knn).max() <= labels / (examples + labels) + 1e-12
    smoothed = add_one_smoothing(knn, examples, multi_label=True)
    of_two = [add_one_smoothing(np.stack([p, 1 - p], 1), examples)[:, 0] for p in knn.T]
    np.testing.assert_allclose(smoothed, np.stack(of_two, 1), atol=1e-12)


@given(st.integers(0, 2**32 - 1), st.floats(0, 1))
def test_interpolation_is_equation_3_and_each_end_is_exactly_one_part(seed, weight):
    knn, classifier = np.random.default_rng(seed).dirichlet(np.ones(7), (2, 5))
    kept = knn.copy(), classifier.copy()
    by_hand = np.empty(knn.shape)
    for place in np.ndindex(knn.shape):
        by_hand[place] = weight * float(knn[place]) + (1 - weight) * float(classifier[place])
    np.testing.assert_allclose(interpolate(knn, classifier, weight), by_hand, rtol=1e-12)
    np.testing.assert_array_equal(interpolate(knn, classifier, 0), classifier)
    np.testing.assert_array_equal(interpolate(knn, classifier, 1), knn)
    np.testing.assert_array_equal((knn, classifier), kept)


def predictions(keys):
    return Predictions(np.zeros((len(keys), 0), np.float32), np.asarray(keys, np.float32))


def test_three_examples_give_no_certainty_and_many_examples_do():
    keys = np.random.default_rng(0).normal(size=(3000, 4))
    for count, most in ((3, 4 / 5), (3000, 3001 / 3002)):
        datastore = KNNDatastore(keys[:count], [i % 2 for i in range(count)], ["a", "b"])
        found = interpolate_with_neighbors(predictions(keys[:50]), datastore.snapshot, k=1, temperature=1.0, weight=1.0)
        np.testing.assert_allclose(found.probabilities.max(1), most)
        np.testing.assert_allclose(found.probabilities, found.knn)
    datastore = KNNDatastore(keys[:3], [["a"], [], ["a", "b"]], ["a", "b"])
    found = interpolate_with_neighbors(predictions(keys[:3]), datastore.snapshot, k=1, temperature=1.0, weight=1.0)
    np.testing.assert_allclose(found.knn, [[0.8, 0.2], [0.2, 0.2], [0.8, 0.8]])
