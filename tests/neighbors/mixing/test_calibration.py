import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docsplit_hf.neighbors.mixing.calibration import (
    UNIFORM_SHARE,
    Calibration,
    calibrate,
    temperature_grid,
    without_self,
)
from docsplit_hf.neighbors.mixing.interpolation import (
    effective_neighbors,
    interpolate,
    knn_probabilities,
    neighbor_weights,
)

KS, TEMPERATURES, WEIGHTS = (1, 2, 5), (0.5, 4.0, math.inf), (0.0, 0.3, 1.0)


def random_example(seed, several=False, examples=30, neighbors=8, labels=4):
    rng = np.random.default_rng(seed)
    distances = np.sort(rng.exponential(4, (examples, neighbors)), axis=1)
    if several:
        neighbor_labels, gold = rng.random((examples, neighbors, labels)) < 0.4, rng.random((examples, labels)) < 0.4
        return distances, neighbor_labels, gold, rng.random((examples, labels))
    gold = rng.integers(0, labels, examples)
    neighbor_labels = np.where(rng.random((examples, neighbors)) < 0.5, gold[:, None], rng.integers(0, labels, (1, 1)))
    return distances, neighbor_labels, gold, rng.dirichlet(np.ones(labels), examples)


def mixture(distances, neighbor_labels, classifier, k, temperature, weight):
    knn = knn_probabilities(distances[:, :k], neighbor_labels[:, :k], classifier.shape[1], temperature)
    return interpolate(knn, classifier, weight)


def log_likelihood(probabilities, gold):
    total, count = 0.0, 0
    for row, label in zip(probabilities.tolist(), gold.tolist(), strict=True):
        several = isinstance(label, list)
        right = [p if has else 1 - p for p, has in zip(row, label, strict=True)] if several else [row[label]]
        chance = 1 / 2 if several else 1 / len(row)
        total += sum(math.log((1 - UNIFORM_SHARE) * p + UNIFORM_SHARE * chance) for p in right)
        count += len(right)
    return total / count


def accuracy(probabilities, gold):
    return ((probabilities >= 0.5) == gold).mean() if gold.ndim == 2 else (probabilities.argmax(1) == gold).mean()


def clusters(rng, examples, noise, labels=4, neighbors=32, rows=600):
    """Texts around the centers of their labels, a datastore of others, and what the centers' neighbors say."""
    centers = 2 * rng.normal(size=(labels, 6))
    stored, gold = rng.integers(0, labels, rows), rng.integers(0, labels, examples)
    keys = centers[stored] + noise * rng.normal(size=(rows, 6))
    queries = centers[gold] + noise * rng.normal(size=(examples, 6))
    squared = np.square(queries[:, None] - keys).sum(2)
    nearest = squared.argsort(1)[:, :neighbors]
    return np.take_along_axis(squared, nearest, 1), stored[nearest], gold


def overconfident(rng, gold, right, labels=4):
    """A classifier that is right by this share and always sure."""
    said = np.where(rng.random(len(gold)) < right, gold, rng.integers(0, labels, len(gold)))
    return 0.9999 * np.eye(labels)[said] + 0.0001 / labels


@given(st.integers(0, 10**6), st.booleans())
@settings(deadline=None, max_examples=25)
def test_the_choice_is_the_likeliest_of_what_is_accurate_enough(seed, several):
    example = random_example(seed, several)
    distances, neighbor_labels, gold, classifier = example
    choice = calibrate(*example, ks=KS, temperatures=TEMPERATURES, weights=WEIGHTS)
    candidates = {
        candidate: mixture(distances, neighbor_labels, classifier, *candidate)
        for candidate in itertools.product(KS, TEMPERATURES, WEIGHTS)
    }
    likelihoods = {candidate: log_likelihood(p, gold) for candidate, p in candidates.items()}
    best = [max((c for c in candidates if c[2] == w), key=lambda c: round(likelihoods[c], 9)) for w in WEIGHTS]
    if WEIGHTS[0] == 0:
        best[0] = (*best[1][:2], 0)  # of neighbors that do not count, those that would with a little weight
    accuracies = np.array([accuracy(candidates[c], gold) for c in best])
    chosen = choice[:3]
    assert chosen in best
    assert choice.log_likelihood == pytest.approx(likelihoods[chosen], abs=1e-9)
    assert accuracy(candidates[chosen], gold) >= max(accuracies[0], accuracies[-1]) - 1e-12
    most_accurate = best[accuracies.argmax()]
    assert choice.log_likelihood >= likelihoods[most_accurate] - 1e-9


@pytest.mark.parametrize("several", [False, True])
def test_what_it_says_about_the_choice(several):
    example = random_example(3, several)
    choice = calibrate(*example)
    assert choice.examples == 30 and 1 <= choice.k <= 8 and 0 <= choice.weight <= 1
    expected = mixture(example[0], example[1], example[3], *choice[:3])
    assert choice.log_likelihood == pytest.approx(log_likelihood(expected, example[2]), abs=1e-9)
    weights = neighbor_weights(example[0][:, : choice.k], choice.temperature)
    assert choice.effective_neighbors == pytest.approx(effective_neighbors(weights).mean())
    assert Calibration(**json.loads(json.dumps(choice._asdict()))) == choice


def test_perfect_neighbors_and_a_classifier_that_guesses():
    rng = np.random.default_rng(0)
    distances, neighbors, gold = clusters(rng, 200, noise=0.1)
    assert calibrate(distances, neighbors, gold, np.full((200, 4), 0.25)).weight == 1


def test_perfect_classifier_and_neighbors_that_guess():
    rng = np.random.default_rng(0)
    distances, _, gold = clusters(rng, 200, noise=0.1)
    neighbors = rng.integers(0, 4, distances.shape)
    choice = calibrate(distances, neighbors, gold, np.eye(4)[gold])
    a_little = calibrate(distances, neighbors, gold, np.eye(4)[gold], weights=[0.05])
    assert choice.weight == 0 and choice[:2] == a_little[:2]  # the neighbors that are shown are still sensible ones


def test_the_paper_s_temperature_is_no_more_than_one_of_the_grid():
    rng = np.random.default_rng(0)
    distances, neighbors, gold = clusters(rng, 300, noise=3.0)
    choices = [calibrate(scale * distances, neighbors, gold) for scale in (1e-4, 1e4)]
    assert choices[0].temperature * 1e8 == pytest.approx(choices[1].temperature)
    assert choices[0].k == choices[1].k and choices[0].log_likelihood == pytest.approx(choices[1].log_likelihood)


@pytest.mark.parametrize("right", [0.6, 0.8, 0.95])
@pytest.mark.parametrize("noise", [1.0, 2.0, 3.0])
def test_the_mixture_is_not_worse_than_its_parts_on_new_data(right, noise):
    shortfalls = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        distances, neighbors, gold = clusters(rng, 3000, noise)
        classifier = overconfident(rng, gold, right)
        held_out, new = slice(1000), slice(1000, None)
        choice = calibrate(distances[held_out], neighbors[held_out], gold[held_out], classifier[held_out])
        alone = calibrate(distances[held_out], neighbors[held_out], gold[held_out])
        part = (distances[new], neighbors[new], classifier[new])
        parts = [accuracy(classifier[new], gold[new]), accuracy(mixture(*part, *alone[:3]), gold[new])]
        shortfalls.append(max(parts) - accuracy(mixture(*part, *choice[:3]), gold[new]))
    assert np.mean(shortfalls) <= 0.003


def test_likelihood_alone_would_take_accuracy_away():
    # The right label is 0. The classifier is always sure, and wrong on 4 texts of 10. The neighbors are not sure, and
    # wrong on 6: on those 4, and on 2 others, which the mixture gets wrong as well from a weight of 0.625.
    classifier = np.repeat([[0.0, 1.0]] * 4 + [[1.0, 0.0]] * 6, 20, axis=0)
    shares = np.repeat([4] * 4 + [6] * 4 + [2] * 2, 20)
    neighbors = (np.arange(10) >= shares[:, None]).astype(int)
    example, gold = (np.zeros((200, 10)), neighbors), np.zeros(200, int)
    choice = calibrate(*example, gold, classifier, ks=[10])
    likelihoods = [log_likelihood(mixture(*example, classifier, 10, 1.0, w), gold) for w in (0.55, 0.6, 0.7)]
    assert likelihoods == sorted(likelihoods)
    assert choice.weight == pytest.approx(0.6) and choice.log_likelihood == pytest.approx(likelihoods[1])


def test_equal_likelihoods_give_the_smaller_k_then_the_weight_closer_to_the_classifier_then_the_lower_temperature():
    distances, gold = np.sort(np.random.default_rng(0).random((20, 8)), axis=1), np.zeros(20, int)
    agreeing = np.zeros((20, 8), int)
    choice = calibrate(distances, agreeing, gold, np.eye(2)[gold], ks=[8, 4, 2], temperatures=[3, 2], weights=[1, 0.5])
    assert choice[:3] == (2, 2, 0.5)


def test_without_a_classifier_the_weight_is_1():
    example = random_example(0)
    assert calibrate(*example[:3]).weight == 1
    assert calibrate(*example[:3]) == calibrate(*example, weights=[1.0])


def test_neighbors_without_the_label_do_not_make_it_infinite():
    choice = calibrate(np.zeros((5, 3)), np.zeros((5, 3), int), np.ones(5, int))
    assert choice.log_likelihood == pytest.approx(math.log(UNIFORM_SHARE / 2))


def test_labels_that_came_after_training():
    distances, neighbors, gold, _ = random_example(0)
    classifier = np.full((30, 3), 1 / 3)
    padded = np.pad(classifier, ((0, 0), (0, 1)))
    assert calibrate(distances, neighbors, gold, classifier) == calibrate(distances, neighbors, gold, padded)
    assert calibrate(distances, neighbors, gold, classifier, num_labels=4).examples == 30


def test_results_do_not_depend_on_chunks_or_their_order():
    example = random_example(0, examples=300)
    order = np.random.default_rng(0).permutation(300)
    assert calibrate(*(array[order] for array in example))[:3] == calibrate(*example)[:3]


@pytest.mark.parametrize("dimension", [2, 16, 256])
def test_the_grid_runs_from_one_neighbor_to_all(dimension):
    rng = np.random.default_rng(0)
    queries, keys = 0.01 * rng.normal(size=(50, dimension)), 0.01 * rng.normal(size=(2000, dimension))
    distances = np.sort(np.square(queries[:, None] - keys).sum(2), axis=1)[:, :64]
    grid = temperature_grid(distances)
    counts = [effective_neighbors(neighbor_weights(distances, t)).mean() for t in grid]
    assert counts == sorted(counts) and counts[0] < 1.6 and counts[-2] > 0.95 * 64 and grid[-1] == 10


def test_the_grid_where_neighbors_are_equally_far():
    assert temperature_grid(np.ones((4, 3))).tolist() == [10]
    mostly_copies = np.array([[0.0, 0.0], [0.0, 0.0], [0.0, 3.0]])
    assert len(temperature_grid(mostly_copies)) == 13


@pytest.mark.parametrize("several", [False, True])
def test_shapes_that_do_not_fit_are_refused(several):
    distances, neighbors, gold, classifier = random_example(0, several)
    for arguments in (
        (distances[:-1], neighbors, gold),
        (distances, neighbors[:, :-1], gold),
        (distances, neighbors, gold[:-1]),
        (distances[:, :0], neighbors[:, :0], gold),
        (distances, neighbors, gold, classifier[:-1]),
        (distances, neighbors, gold, classifier[:, :0]),
    ):
        with pytest.raises(ValueError, match="must be of shape"):
            calibrate(*arguments)
    with pytest.raises(ValueError, match="no held-out examples"):
        calibrate(distances[:0], neighbors[:0], gold[:0])


def test_values_that_make_no_sense_are_refused():
    distances, neighbors, gold, classifier = random_example(0)
    with pytest.raises(ValueError, match="Label -1"):
        calibrate(distances, np.where(neighbors == 0, -1, neighbors), gold)
    with pytest.raises(ValueError, match="Label 3 is not one of the 3"):
        calibrate(distances, neighbors, gold, classifier[:, :3], num_labels=3)
    with pytest.raises(ValueError, match="softmax"):
        calibrate(distances, neighbors, gold, 3 * classifier)
    with pytest.raises(ValueError, match="ascending"):
        calibrate(distances[:, ::-1], neighbors, gold)
    with pytest.raises(ValueError, match="finite"):
        calibrate(np.full_like(distances, np.nan), neighbors, gold)
    with pytest.raises(ValueError, match="leave them out"):
        calibrate(distances, neighbors, gold, weights=[0.5])


@pytest.mark.parametrize(
    "grid, match",
    [
        ({"ks": [0, 1]}, "ks must be from 1 to 8, the neighbors given, got 0"),
        ({"ks": [9]}, "got 9"),
        ({"ks": []}, "got none"),
        ({"temperatures": [0.0]}, "temperatures must be above 0, got 0.0"),
        ({"temperatures": [math.nan]}, "got nan"),
        ({"weights": [1.5]}, "weights must be from 0 to 1, got 1.5"),
    ],
)
def test_grids_outside_are_refused(grid, match):
    with pytest.raises(ValueError, match=match):
        calibrate(*random_example(0), **grid)


@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 6))
@settings(deadline=None, max_examples=80)
def test_without_self_the_nearest_others_remain(seed, examples, neighbors):
    is_self = np.random.default_rng(seed).random((examples, neighbors)) < 0.4
    columns = without_self(is_self)
    assert columns.shape == (examples, min((~row).sum() for row in is_self)) and columns.dtype == np.int64
    for kept, row in zip(columns.tolist(), is_self, strict=True):
        assert kept == np.flatnonzero(~row)[: len(kept)].tolist()
