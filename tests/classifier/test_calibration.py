import itertools
import json
import logging
import math
from typing import NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoModel, BertModel

from docsplit_hf import KNNClassifierPipeline, KNNDatastore
from docsplit_hf.arrays.passages import Predictions
from docsplit_hf.classifier.calibration import (
    UNIFORM_FRACTION,
    Calibration,
    KnownExamplesError,
    TooFewExamplesError,
    calibrate,
    calibrate_leaving_one_out,
    calibrate_on_held_out,
    temperature_grid,
    without_self,
)
from docsplit_hf.fitting.interpolation import effective_neighbors, interpolate, knn_probabilities, neighbor_weights

KS = (1, 2, 4, 8)
WEIGHTS = np.arange(21) / 20


class Example(NamedTuple):
    """Held-out examples: their neighbors, their labels, and the probabilities of a classifier."""

    distances: np.ndarray
    neighbor_labels: np.ndarray
    gold: np.ndarray
    classifier: np.ndarray

    def mixture(self, k, temperature, weight):
        """The probabilities of equation 3 for these numbers."""
        distances = self.distances[:, :k]
        neighbor_labels = self.neighbor_labels[:, :k]
        knn = knn_probabilities(distances, neighbor_labels, self.classifier.shape[1], temperature)
        return interpolate(knn, self.classifier, weight)

    def part(self, rows):
        """The examples of a slice."""
        return Example(self.distances[rows], self.neighbor_labels[rows], self.gold[rows], self.classifier[rows])

    def calibrated(self):
        return calibrate(self.distances, self.neighbor_labels, self.gold, self.classifier)


def random_example(seed, multi_label=False, examples=30, neighbors=8, labels=4):
    rng = np.random.default_rng(seed)
    distances = np.sort(rng.exponential(4, (examples, neighbors)), axis=1)
    if multi_label:
        neighbor_labels = rng.random((examples, neighbors, labels)) < 0.4
        gold = rng.random((examples, labels)) < 0.4
        return Example(distances, neighbor_labels, gold, rng.random((examples, labels)))
    gold = rng.integers(0, labels, examples)
    neighbor_labels = np.where(rng.random((examples, neighbors)) < 0.5, gold[:, None], rng.integers(0, labels, (1, 1)))
    return Example(distances, neighbor_labels, gold, rng.dirichlet(np.ones(labels), examples))


def log_likelihood(probabilities, gold):
    """The mean log likelihood of right labels with a fraction of the uniform distribution, computed directly."""
    if gold.ndim == 2:
        right = np.where(gold, probabilities, 1 - probabilities)
        chance = 1 / 2
    else:
        right = probabilities[np.arange(len(gold)), gold]
        chance = 1 / probabilities.shape[1]
    return np.log((1 - UNIFORM_FRACTION) * right + UNIFORM_FRACTION * chance).mean()


def accuracy(probabilities, gold):
    if gold.ndim == 2:
        return ((probabilities >= 0.5) == gold).mean()
    return (probabilities.argmax(1) == gold).mean()


def clusters(rng, examples, noise, labels=4, neighbors=32, rows=600):
    """Distances and labels of the neighbors of texts around the centers of their labels, and the texts' labels."""
    centers = 2 * rng.normal(size=(labels, 6))
    stored = rng.integers(0, labels, rows)
    gold = rng.integers(0, labels, examples)
    keys = centers[stored] + noise * rng.normal(size=(rows, 6))
    queries = centers[gold] + noise * rng.normal(size=(examples, 6))
    squared = np.square(queries[:, None] - keys).sum(2)
    nearest = squared.argsort(1)[:, :neighbors]
    return np.take_along_axis(squared, nearest, 1), stored[nearest], gold


def overconfident(rng, gold, right, labels=4):
    """Probabilities of a classifier that is right with this accuracy, and always certain."""
    answers = np.where(rng.random(len(gold)) < right, gold, rng.integers(0, labels, len(gold)))
    return 0.9999 * np.eye(labels)[answers] + 0.0001 / labels


@given(st.integers(0, 10**6), st.booleans())
@settings(max_examples=6)
def test_the_likeliest_of_the_accurate_candidates_is_chosen(seed, multi_label):
    example = random_example(seed, multi_label)
    gold = example.gold
    choice = example.calibrated()
    neighborhoods = list(itertools.product(KS, temperature_grid(example.distances)))
    by_weight = np.array([
        [log_likelihood(example.mixture(k, temperature, weight), gold) for weight in WEIGHTS]
        for k, temperature in neighborhoods
    ])  # fmt: skip
    best = np.argmax(by_weight >= by_weight.max(0) - 1e-9, axis=0)  # the first of equal ones has the smallest k
    best[0] = best[1]  # neighbors without weight do not count: those are taken that would with a little weight
    candidates = []
    accuracies = []
    for number, weight in zip(best, WEIGHTS, strict=True):
        k, temperature = neighborhoods[number]
        candidates.append((k, temperature, weight))
        accuracies.append(accuracy(example.mixture(k, temperature, weight), gold))
    accuracies = np.array(accuracies)
    chosen = candidates.index((choice.k, choice.temperature, choice.weight))
    assert choice.log_likelihood == pytest.approx(by_weight[best[chosen], chosen], abs=1e-9)
    assert accuracies[chosen] >= max(accuracies[0], accuracies[-1]) - 1e-12
    most_accurate = accuracies.argmax()
    assert choice.log_likelihood >= by_weight[best[most_accurate], most_accurate] - 1e-9
    weights = neighbor_weights(example.distances[:, : choice.k], choice.temperature)
    assert choice.effective_neighbors == pytest.approx(effective_neighbors(weights).mean()) and choice.examples == 30
    assert Calibration(**json.loads(json.dumps(choice._asdict()))) == choice


@pytest.mark.parametrize("perfect", ["neighbors", "classifier"])
def test_a_perfect_part_gets_all_the_weight(perfect):
    rng = np.random.default_rng(0)
    distances, neighbors, gold = clusters(rng, 200, noise=0.1)
    if perfect == "neighbors":
        assert calibrate(distances, neighbors, gold, np.full((200, 4), 0.25)).weight == 1
    else:
        assert calibrate(distances, rng.integers(0, 4, distances.shape), gold, np.eye(4)[gold]).weight == 0


def test_the_temperature_of_the_paper_is_one_candidate():
    rng = np.random.default_rng(0)
    distances, neighbors, gold = clusters(rng, 300, noise=3.0)
    choices = [calibrate(scale * distances, neighbors, gold) for scale in (1e-4, 1e4)]
    assert choices[0].temperature * 1e8 == pytest.approx(choices[1].temperature)
    assert choices[0].k == choices[1].k and choices[0].log_likelihood == pytest.approx(choices[1].log_likelihood)


@pytest.mark.parametrize(("right", "noise"), [(0.6, 1.0), (0.95, 2.0), (0.8, 3.0)])
def test_calibrated_interpolation_is_not_worse_than_its_parts_on_new_data(right, noise):
    shortfalls = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        distances, neighbors, gold = clusters(rng, 3000, noise, rows=300)
        example = Example(distances, neighbors, gold, overconfident(rng, gold, right))
        held_out = example.part(slice(1000))
        new = example.part(slice(1000, None))
        choice = held_out.calibrated()
        alone = calibrate(held_out.distances, held_out.neighbor_labels, held_out.gold)
        classifier_accuracy = accuracy(new.classifier, new.gold)
        neighbors_accuracy = accuracy(new.mixture(alone.k, alone.temperature, alone.weight), new.gold)
        mixture_accuracy = accuracy(new.mixture(choice.k, choice.temperature, choice.weight), new.gold)
        shortfalls.append(max(classifier_accuracy, neighbors_accuracy) - mixture_accuracy)
    assert np.mean(shortfalls) <= 0.003


def test_the_likeliest_weight_may_be_less_accurate():
    # The right label is 0. The classifier is always certain, and wrong on 4 texts of 10. The neighbors are uncertain,
    # and wrong on 6: on those 4, and on 2 others, which the mixture gets wrong as well from a weight of 0.625.
    classifier = np.repeat([[0.0, 1.0]] * 4 + [[1.0, 0.0]] * 6, 20, axis=0)
    shares = np.repeat([4] * 4 + [6] * 4 + [2] * 2, 20)
    neighbors = (np.arange(10) < 10 - shares[:, None]).astype(int)  # all 10 tell more than a part of them
    example = Example(np.zeros((200, 10)), neighbors, np.zeros(200, int), classifier)
    choice = example.calibrated()
    likelihoods = [log_likelihood(example.mixture(10, 1.0, weight), example.gold) for weight in (0.55, 0.6, 0.7)]
    assert likelihoods == sorted(likelihoods)
    assert choice.weight == pytest.approx(0.6) and choice.log_likelihood == pytest.approx(likelihoods[1])


def test_ties_go_to_the_smaller_k_then_the_smaller_weight_then_the_lower_temperature():
    distances = np.sort(np.random.default_rng(0).random((20, 8)), axis=1)
    gold = np.zeros(20, int)
    choice = calibrate(distances, np.zeros((20, 8), int), gold, np.eye(2)[gold])
    assert (choice.k, choice.temperature, choice.weight) == (1, temperature_grid(distances)[0], 0)


def test_degenerate_neighbors():
    choice = calibrate(np.zeros((5, 3)), np.zeros((5, 3), int), np.ones(5, int))  # none has the label
    assert choice.weight == 1 and choice.log_likelihood == pytest.approx(math.log(UNIFORM_FRACTION / 2))
    assert temperature_grid(np.ones((4, 3))).tolist() == [10]
    assert len(temperature_grid(np.array([[0.0, 0.0], [0.0, 0.0], [0.0, 3.0]]))) == 13  # mostly copies
    with pytest.raises(ValueError, match="no held-out examples"):
        calibrate(np.zeros((0, 3)), np.zeros((0, 3), int), np.zeros(0, int))


def test_labels_that_came_after_training():
    random = random_example(0)
    example = random._replace(classifier=np.full((30, 3), 1 / 3))
    padded = example._replace(classifier=np.pad(example.classifier, ((0, 0), (0, 1))))
    assert example.calibrated() == padded.calibrated()
    told = calibrate(example.distances, example.neighbor_labels, example.gold, example.classifier, num_labels=4)
    assert told.examples == 30


@pytest.mark.parametrize("dimension", [2, 64])
def test_the_grid_runs_from_one_neighbor_to_all(dimension):
    rng = np.random.default_rng(0)
    queries = 0.01 * rng.normal(size=(50, dimension))
    keys = 0.01 * rng.normal(size=(1000, dimension))
    distances = np.sort(np.square(queries[:, None] - keys).sum(2), axis=1)[:, :64]
    grid = temperature_grid(distances)
    counts = [effective_neighbors(neighbor_weights(distances, t)).mean() for t in grid]
    assert counts == sorted(counts) and counts[0] < 1.6 and counts[-2] > 0.95 * 64 and grid[-1] == 10


def clustered(examples=60, labels=3, dimension=4, seed=0):
    rng = np.random.default_rng(seed)
    numbers = rng.integers(0, labels, examples)
    centers = rng.normal(size=(labels, dimension))
    keys = centers[numbers] + rng.normal(size=(examples, dimension))
    return keys, numbers.tolist()


def make_datastore(keys, labels, texts=None, **options):
    return KNNDatastore(keys, labels, ["a", "b", "c"], texts=texts, **options)


def predictions(keys):
    return Predictions(np.zeros((len(keys), 0), np.float32), np.asarray(keys, np.float32))


def calibration_of(calibration):
    return calibration.temperature, calibration.weight, calibration.log_likelihood


@pytest.mark.parametrize("index", ["Flat", "HNSW16"])
@pytest.mark.parametrize("noise, with_texts", [(0.0, False), (1e-7, False), (0.01, True)])
def test_duplicated_examples_do_not_change_the_calibration(noise, with_texts, index):
    """Each example is there twice, with embeddings that differ by the rounding of another batch or of bfloat16."""
    keys, labels = clustered()
    texts = [f"text {i}" for i in range(60)] if with_texts else None
    once = calibrate_leaving_one_out(make_datastore(keys, labels, texts, index=index))
    again = keys + noise * np.random.default_rng(1).normal(size=keys.shape)
    datastore = make_datastore(np.vstack([keys, again]), labels * 2, texts and texts * 2, index=index)
    twice = calibrate_leaving_one_out(datastore)
    assert once.k > 1 and twice.k == 2 * once.k and twice.examples == 120
    np.testing.assert_allclose(calibration_of(twice), calibration_of(once), rtol=0.01 if noise > 1e-6 else 1e-4)


def test_examples_with_many_copies_are_calibrated():
    keys, labels = clustered()
    copies = np.repeat(keys[:1], 300, axis=0)
    datastore = make_datastore(np.vstack([keys, copies]), labels + [(labels[0] + 1) % 3] * 300)
    calibration = calibrate_leaving_one_out(datastore)
    assert calibration.examples == 360 and np.isfinite(calibration.log_likelihood)


def test_equal_texts_with_different_pairs_are_different():
    keys, labels = clustered(20)
    pairs = [f"pair {i}" for i in range(20)]
    apart = KNNDatastore(keys, labels, ["a", "b", "c"], texts=["same"] * 20, text_pairs=pairs)
    assert calibrate_leaving_one_out(apart) == calibrate_leaving_one_out(make_datastore(keys, labels))
    with pytest.raises(TooFewExamplesError, match="all the same"):
        calibrate_leaving_one_out(make_datastore(keys, labels, ["same"] * 20))


def test_held_out_texts_that_are_among_the_examples_are_left_out(caplog):
    keys, labels = clustered()
    queries, gold = clustered(20, seed=0)
    queries = queries + 0.5
    datastore = make_datastore(keys, labels, [f"text {i}" for i in range(60)])
    texts = [f"held out {i}" for i in range(20)]
    clean = calibrate_on_held_out(predictions(queries), np.array(gold), datastore, texts)
    with caplog.at_level(logging.WARNING):
        mixed = calibrate_on_held_out(
            predictions(np.vstack([queries, keys[:5], keys[5:10] + 0.1])),
            np.array(gold + labels[:10]),
            datastore,
            texts + [f"same embedding {i}" for i in range(5)] + [f"text {i}" for i in range(5, 10)],
        )
    assert mixed == clean and "10 of 30 held-out texts" in caplog.text
    with pytest.raises(ValueError, match="All 60 held-out texts"):
        calibrate_on_held_out(predictions(keys), np.array(labels), datastore, texts[:1] * 60)
    half = make_datastore(keys, labels, dtype="float16")  # without texts, the embeddings tell, and these are rounded
    with pytest.raises(KnownExamplesError):
        calibrate_on_held_out(predictions(keys), np.array(labels), half, texts[:1] * 60)


@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 6))
def test_without_self_the_nearest_others_remain(seed, examples, neighbors):
    is_self = np.random.default_rng(seed).random((examples, neighbors)) < 0.4
    columns = without_self(is_self)
    assert columns.shape == (examples, min((~row).sum() for row in is_self)) and columns.dtype == np.int64
    for kept, row in zip(columns.tolist(), is_self, strict=True):
        assert kept == np.flatnonzero(~row)[: len(kept)].tolist()


def test_calibration_on_held_out_texts_is_kept(pipe, texts, tmp_path):
    held_out = [text + " again" for text in texts[:30]]
    labels = ["engine" if "river" in text else "river" for text in texts[:30]]
    calibration = pipe.calibrate(held_out_texts=held_out, held_out_labels=labels)
    pipe.save_pretrained(tmp_path)
    config = AutoModel.from_pretrained(tmp_path).config
    assert config.k == calibration.k
    assert config.knn_temperature == calibration.temperature
    assert config.knn_weight == calibration.weight
    assert config.knn_calibration["source"] == "held-out examples"


def test_a_datastore_given_to_a_plain_encoder_is_calibrated(untrained, tiny_config, tokenizer, texts):
    names = ["river" if "river" in text else "other" for text in texts]
    untrained.add_examples(texts, names)
    torch.manual_seed(0)
    again = KNNClassifierPipeline(
        BertModel(tiny_config),
        tokenizer,
        untrained.datastore,
        device="cpu",
        long_documents="whole",  # as the datastore was made, which a plain encoder does not record
    )
    assert again(list(texts)) == untrained(list(texts))


def test_versions_of_an_example_are_left_out_with_it():
    """Each example has a version with another label, which is its nearest neighbor."""
    keys, labels = clustered()
    words = [[f"w{word}" for word in np.random.default_rng(i).integers(0, 5_000, 40)] for i in range(60)]
    texts = [" ".join(own) for own in words]
    versions = [" ".join([*own, "amended"]) for own in words]
    others = [(label + 1) % 3 for label in labels]
    near = keys + 1e-3
    found = calibrate_leaving_one_out(make_datastore(np.vstack([keys, near]), labels + others, texts + versions))
    misled = calibrate_leaving_one_out(make_datastore(np.vstack([keys, near]), labels + others))
    assert found.examples == misled.examples == 120 and found.log_likelihood > misled.log_likelihood + 0.02
