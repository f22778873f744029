"""Choice of triplets, and the triplet loss."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from docsplit_hf.finetuning.triplets import choose_triplets, same_labels, squared_distances, triplet_loss


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def choose(labels, strategy="random", seed=0, embeddings=None):
    """The triplets of a whole batch, as lists."""
    labels = torch.tensor(labels)
    if embeddings is None:
        embeddings = torch.randn(len(labels), 4, generator=generator(1))
    choice = choose_triplets(
        squared_distances(embeddings, embeddings),
        same_labels(labels, labels),
        torch.arange(len(labels)),
        strategy,
        generator(seed),
    )
    return [places.tolist() for places in choice]


both_strategies = pytest.mark.parametrize("strategy", ["random", "hardest"])


@both_strategies
@given(labels=st.lists(st.integers(0, 3), min_size=1, max_size=9), seed=st.integers(0, 99))
def test_positives_and_negatives_are_those_of_the_paper(strategy, labels, seed):
    """Appendix B, also if no other text or every text has the label."""
    positives, negatives = choose(labels, strategy, seed)
    for anchor, label in enumerate(labels):
        others = [place for place in range(len(labels)) if place != anchor]
        same = [place for place in others if labels[place] == label]
        different = [place for place in others if labels[place] != label]
        assert positives[anchor] in (same or [anchor]) and negatives[anchor] in (different or others or [anchor])


@both_strategies
def test_in_a_batch_of_one_label_negatives_are_random_with_each_strategy(strategy):
    chosen = set()
    for seed in range(60):
        _, negatives = choose([7] * 4, strategy, seed)
        chosen.add(negatives[0])
    assert chosen == {1, 2, 3}


def test_random_choices_are_uniform():
    labels = torch.arange(240) % 2
    same = same_labels(labels, labels)
    counts = torch.zeros(2, 240)  # how often each text is a positive, and a negative
    runs = 20
    random = generator()
    for _ in range(runs):
        positives, negatives = choose_triplets(torch.zeros(240, 240), same, torch.arange(240), generator=random)
        counts[0] += torch.bincount(positives, minlength=240)
        counts[1] += torch.bincount(negatives, minlength=240)
    expected = runs  # in each run, 240 anchors choose among 240 texts
    chi_square = ((counts - expected) ** 2 / expected).sum(1)
    assert (chi_square < 239 + 5 * math.sqrt(2 * 239)).all() and (chi_square > 239 - 5 * math.sqrt(2 * 239)).all()


def test_hardest_are_the_farthest_positive_and_the_nearest_negative():
    embeddings = torch.tensor([[0.0], [1.0], [5.5], [3.0], [9.0]])
    assert choose([0, 0, 0, 1, 1], "hardest", embeddings=embeddings) == [[2, 2, 0, 4, 3], [3, 3, 3, 1, 2]]


def test_hardest_works_with_infinite_and_nan_distances():
    labels = torch.tensor([0, 0, 1, 1])
    same = same_labels(labels, labels)
    for broken in (math.inf, math.nan):
        distances = torch.full((4, 4), broken)
        positives, negatives = choose_triplets(distances, same, torch.arange(4), "hardest", generator())
        assert positives.tolist() == [1, 0, 3, 2] and (labels[negatives] != labels).all()


@both_strategies
def test_anchors_of_one_process_choose_as_in_the_whole_batch(strategy):
    labels = torch.randint(0, 3, (12,), generator=generator())
    embeddings = torch.randn(12, 4, generator=generator())
    distances = squared_distances(embeddings, embeddings)
    same = same_labels(labels, labels)
    places = torch.arange(12)
    positives, negatives = choose_triplets(distances, same, places, strategy, generator(3))
    for half in (slice(0, 6), slice(6, 12)):
        of_half = choose_triplets(distances[half], same[half], places[half], strategy, generator(3))
        half_positives, half_negatives = of_half
        assert half_positives.equal(positives[half]) and half_negatives.equal(negatives[half])


def test_texts_that_share_one_of_several_labels_have_the_same_label():
    labels = torch.tensor([[1, 1, 0], [0, 1, 1], [0, 0, 1], [0, 0, 0]])
    expected = torch.tensor([[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 0], [0, 0, 0, 0]]).bool()
    for dtype in (torch.int64, torch.float32, torch.bool):
        assert same_labels(labels.to(dtype), labels.to(dtype)).equal(expected)
    assert same_labels(labels[:1], labels).equal(expected[:1])


def test_squared_distances_are_exact_for_close_vectors_of_large_norm():
    embeddings = 1000 + torch.randn(20, 16, generator=generator()).double()
    expected = torch.cdist(embeddings, embeddings).square()
    distances = squared_distances(embeddings.float(), embeddings.float())
    torch.testing.assert_close(distances, expected.float(), atol=1e-2, rtol=1e-3)
    assert (distances >= 0).all()


def test_low_precision_embeddings_are_compared_in_float32():
    embeddings = torch.randn(8, 64, generator=generator()).bfloat16()
    expected = squared_distances(embeddings.float(), embeddings.float())
    with torch.autocast("cpu", torch.bfloat16):
        distances = squared_distances(embeddings, embeddings)
        loss = triplet_loss(embeddings, embeddings.roll(1, 0), embeddings.roll(2, 0), margin=1.0)
    assert distances.dtype == loss.dtype == torch.float32
    torch.testing.assert_close(distances, expected)
    rows = torch.arange(8)
    by_distance = (expected[rows, rows.roll(1)] - expected[rows, rows.roll(2)] + 1).relu()
    torch.testing.assert_close(loss, by_distance, atol=1e-3, rtol=1e-4)


def test_closed_forms_of_the_loss():
    anchors = torch.zeros(3, 2)
    positives = torch.tensor([[1.0, 2.0]] * 3)  # squared distance 5
    negatives = torch.tensor([[3.0, 0.0], [2.0, 1.0], [2.0, 0.0]])  # 9, 5, 4
    assert triplet_loss(anchors, positives, negatives, margin=1.0).tolist() == [0, 1, 2]
    assert triplet_loss(anchors, positives, negatives, margin=0).tolist() == [0, 0, 1]
    same = torch.full((5, 8), 3e4)
    assert triplet_loss(same, same, same, margin=0.7).tolist() == pytest.approx([0.7] * 5)
