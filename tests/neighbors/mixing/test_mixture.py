import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docsplit_hf import KNNDatastore
from docsplit_hf.models.inference.reader import Predictions
from docsplit_hf.neighbors.mixing.mixture import interpolate, mix_with_neighbors


@given(st.integers(0, 2**32 - 1), st.floats(0, 1))
@settings(deadline=None, max_examples=30)
def test_the_mixture_is_equation_3_and_each_end_exactly_one_part(seed, weight):
    knn, classifier = np.random.default_rng(seed).dirichlet(np.ones(7), (2, 5))
    kept = knn.copy(), classifier.copy()
    by_hand = [
        [weight * a + (1 - weight) * b for a, b in zip(*rows, strict=True)]
        for rows in zip(knn.tolist(), classifier.tolist(), strict=True)
    ]
    np.testing.assert_allclose(interpolate(knn, classifier, weight), by_hand, rtol=1e-12)
    np.testing.assert_array_equal(interpolate(knn, classifier, 0), classifier)
    np.testing.assert_array_equal(interpolate(knn, classifier, 1), knn)
    np.testing.assert_array_equal((knn, classifier), kept)


@pytest.mark.parametrize("classifier, weight, said", [
    (np.ones((1, 2)), -0.1, "weight must be from 0 .*, got -0.1"),
    (np.ones((1, 2)), 1.1, "got 1.1"),
    (np.ones((1, 2)), np.nan, "got nan"),
    (np.ones((2, 2)), 0.5, "shape"),
    (np.ones((1, 3)), 0.5, "shape"),
])  # fmt: skip
def test_what_cannot_be_mixed_is_refused(classifier, weight, said):
    with pytest.raises(ValueError, match=said):
        interpolate(np.ones((1, 2)), classifier, weight)


def predictions(keys, logits=None):
    logits = np.zeros((len(keys), 0)) if logits is None else logits
    return Predictions(np.asarray(logits, np.float32), np.asarray(keys, np.float32))


def test_three_examples_give_no_certainty_and_many_examples_do():
    keys = np.random.default_rng(0).normal(size=(3000, 4))
    for count, most in ((3, 4 / 5), (3000, 3001 / 3002)):
        datastore = KNNDatastore(keys[:count], [i % 2 for i in range(count)], ["a", "b"])
        mixture = mix_with_neighbors(predictions(keys[:50]), datastore, k=1, temperature=1.0, weight=1.0)
        np.testing.assert_allclose(mixture.mixture.max(1), most)
        np.testing.assert_allclose(mixture.mixture, mixture.knn)
    several = KNNDatastore(keys[:3], [["a"], [], ["a", "b"]], ["a", "b"])
    mixture = mix_with_neighbors(predictions(keys[:3]), several, k=1, temperature=1.0, weight=1.0)
    np.testing.assert_allclose(mixture.knn, [[0.8, 0.2], [0.2, 0.2], [0.8, 0.8]])
