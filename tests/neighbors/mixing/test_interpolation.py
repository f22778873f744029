import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docsplit_hf.neighbors.mixing.interpolation import (
    add_one_smoothing,
    effective_neighbors,
    interpolate,
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
        rows.append(
            [
                sum(term for term, has in zip(terms, row_labels, strict=True) if has[label]) / sum(terms)
                for label in range(LABELS)
            ]
        )
    return np.array(rows)


@given(shapes, seeds, temperatures)
@settings(deadline=None, max_examples=60)
def test_probabilities_and_mixture_against_equations_2_and_3(shape, seed, temperature):
    distances, labels = random_neighbors(shape, seed)
    expected = reference_knn(distances, np.eye(LABELS, dtype=bool)[labels], temperature)
    knn = knn_probabilities(distances, labels, LABELS, temperature)
    np.testing.assert_allclose(knn, expected, atol=1e-6)
    np.testing.assert_allclose(knn.sum(1), 1)
    rng = np.random.default_rng(seed)
    classifier, weight = rng.dirichlet(np.ones(LABELS), len(knn)), rng.random()
    by_hand = [
        [weight * a + (1 - weight) * b for a, b in zip(*rows, strict=True)]
        for rows in zip(expected.tolist(), classifier.tolist(), strict=True)
    ]
    np.testing.assert_allclose(interpolate(knn, classifier, weight), by_hand, atol=1e-6)


@given(shapes, seeds, temperatures)
@settings(deadline=None, max_examples=60)
def test_several_labels_a_text_against_a_loop(shape, seed, temperature):
    distances, _ = random_neighbors(shape, seed)
    labels = np.random.default_rng(seed).random((*shape, LABELS)) < 0.4
    shares = knn_probabilities(distances, labels, LABELS, temperature)
    np.testing.assert_allclose(shares, reference_knn(distances, labels, temperature), atol=1e-6)
    assert (shares >= 0).all() and (shares <= 1).all()


@given(shapes, seeds)
@settings(deadline=None, max_examples=30)
def test_one_label_a_text_is_a_special_case_of_several(shape, seed):
    distances, labels = random_neighbors(shape, seed)
    several = knn_probabilities(distances, np.eye(LABELS, dtype=bool)[labels], LABELS, 10.0)
    np.testing.assert_allclose(several, knn_probabilities(distances, labels, LABELS, 10.0), atol=1e-12)


@pytest.mark.parametrize("temperature", [1e-9, 1e-300, 5e-324])
def test_low_temperature_is_the_nearest_neighbor(temperature, recwarn):
    distances, labels = random_neighbors((50, 9), seed=0)
    np.testing.assert_array_equal(neighbor_weights(distances, temperature), np.eye(9)[np.zeros(50, int)])
    knn = knn_probabilities(distances, labels, LABELS, temperature)
    np.testing.assert_array_equal(knn, np.eye(LABELS)[labels[:, 0]])
    assert not recwarn.list


@pytest.mark.parametrize("temperature", [1e12, 1e300, math.inf])
def test_high_temperature_is_the_frequency_of_labels_among_the_k(temperature):
    distances, labels = random_neighbors((50, 8), seed=0)
    frequencies = (labels[:, :, None] == np.arange(LABELS)).mean(1)
    np.testing.assert_allclose(knn_probabilities(distances, labels, LABELS, temperature), frequencies, atol=1e-9)


def test_neighbors_that_are_exactly_as_near_share_the_weight():
    np.testing.assert_array_equal(neighbor_weights(np.array([[3.0, 3.0, 4.0]]), 1e-9), [[0.5, 0.5, 0]])


def test_only_differences_of_distances_matter():
    distances, _ = random_neighbors((5, 7), seed=1)
    np.testing.assert_allclose(
        neighbor_weights(distances.astype(float) + 1e6, 10), neighbor_weights(distances, 10), rtol=1e-9
    )


def test_weight_0_is_the_classifier_and_1_the_neighbors_bit_for_bit():
    rng = np.random.default_rng(0)
    knn, classifier = rng.dirichlet(np.ones(7), (2, 40))
    np.testing.assert_array_equal(interpolate(knn, classifier, 0), classifier)
    np.testing.assert_array_equal(interpolate(knn, classifier, 1), knn)
    single_precision = classifier.astype(np.float32)
    np.testing.assert_array_equal(interpolate(knn, single_precision, 0), single_precision)


def test_mixing_leaves_its_arguments_alone():
    knn, classifier = np.array([[0.5, 0.5]]), np.array([[1.0, 0.0]])
    interpolate(knn, classifier, 0.5)
    interpolate(knn, classifier, 1)
    assert knn.tolist() == [[0.5, 0.5]] and classifier.tolist() == [[1.0, 0.0]]


def test_labels_that_came_later_get_nothing_from_the_classifier():
    mixture = interpolate(np.array([[0.2, 0.2, 0.6]]), np.array([[0.9, 0.1]]), 0.5)
    np.testing.assert_allclose(mixture, [[0.55, 0.15, 0.3]])
    np.testing.assert_array_equal(interpolate(np.array([[0.2, 0.8]]), np.array([[1.0]]), 0), [[1, 0]])


def test_effective_neighbors():
    distances, _ = random_neighbors((20, 16), seed=0)
    np.testing.assert_allclose(effective_neighbors(neighbor_weights(distances, math.inf)), 16)
    np.testing.assert_array_equal(effective_neighbors(neighbor_weights(distances, 1e-9)), 1)
    counts = [effective_neighbors(neighbor_weights(distances, t)).mean() for t in (0.1, 1, 10, 100)]
    assert counts == sorted(counts) and 1 < counts[0] and counts[-1] < 16


@pytest.mark.parametrize("temperature", [0, -1, math.nan])
def test_temperature_must_be_positive(temperature):
    with pytest.raises(ValueError, match=f"above 0, got {temperature}"):
        neighbor_weights(np.zeros((1, 2)), temperature)


@pytest.mark.parametrize("weight", [-0.1, 1.1, math.nan])
def test_weight_must_be_a_share(weight):
    with pytest.raises(ValueError, match=f"got {weight}"):
        interpolate(np.ones((1, 1)), np.ones((1, 1)), weight)


@pytest.mark.parametrize(
    "distances", [np.zeros((2, 0)), np.zeros(3), np.array([[0.0, math.nan]]), np.full((1, 2), np.inf)]
)
def test_unusable_distances_are_refused(distances):
    with pytest.raises(ValueError, match="distances must be"):
        neighbor_weights(distances, 1.0)


@pytest.mark.parametrize("label", [-1, 3])
def test_labels_outside_are_refused(label):
    with pytest.raises(ValueError, match=f"Label {label} is not one of the 3"):
        knn_probabilities(np.zeros((1, 2)), np.array([[0, label]]), 3, 1.0)


@pytest.mark.parametrize(
    "labels, match",
    [
        (np.zeros((1, 3), int), "shape"),
        (np.zeros((1, 2, 4), bool), "shape"),
        (np.zeros((1, 2)), "integers"),
        (np.zeros((1, 2), bool), "integers"),
    ],
)
def test_labels_of_another_shape_or_type_are_refused(labels, match):
    with pytest.raises(ValueError, match=match):
        knn_probabilities(np.zeros((1, 2)), labels, 3, 1.0)


def test_probabilities_that_do_not_fit_are_refused():
    for classifier in (np.ones((2, 2)), np.ones((1, 3)), np.ones(2)):
        with pytest.raises(ValueError, match="shape"):
            interpolate(np.ones((1, 2)), classifier, 0.5)
    with pytest.raises(ValueError, match="no classifier"):
        interpolate(np.ones((1, 2)), np.ones((1, 0)), 0.5)
    np.testing.assert_array_equal(interpolate(np.ones((1, 2)), np.ones((1, 0)), 1), [[1, 1]])


@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 10**6))
@settings(deadline=None, max_examples=60)
def test_add_one_smoothing_changes_certainty_and_no_decision(seed, labels, examples):
    knn = np.random.default_rng(seed).dirichlet(np.full(labels, 0.3), 5)
    smoothed = add_one_smoothing(knn, examples)
    np.testing.assert_allclose(smoothed.sum(1), 1)
    assert (smoothed.max(1) <= (examples + 1) / (examples + labels) + 1e-12).all()
    assert (smoothed.min(1) >= 1 / (examples + labels) - 1e-12).all()
    assert (np.argsort(smoothed, 1) == np.argsort(knn, 1)).all()
    assert np.abs(smoothed - knn).max() <= labels / (examples + labels) + 1e-12
    several = add_one_smoothing(knn, examples, several=True)
    of_two = [add_one_smoothing(np.stack([p, 1 - p], 1), examples)[:, 0] for p in knn.T]
    np.testing.assert_allclose(several, np.stack(of_two, 1), atol=1e-12)


def test_add_one_smoothing_of_all_neighbors_alike_is_the_rule_of_succession():
    """With all examples as neighbors of the same weight: (examples of the label + 1) / (examples + labels)."""
    knn = knn_probabilities(np.ones((1, 5)), np.array([[0, 0, 0, 2, 2]]), 3, 1.0)
    np.testing.assert_allclose(add_one_smoothing(knn, 5), [[4 / 8, 1 / 8, 3 / 8]])
