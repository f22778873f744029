"""Choice of triplets, and the triplet loss."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from docsplit_hf.finetuning import triplets
from docsplit_hf.finetuning.triplets import choose_triplets, same_labels, triplet_loss


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def choose(labels, seed=0):
    """The triplets of a whole batch, as lists."""
    labels = torch.tensor(labels)
    choice = choose_triplets(same_labels(labels, labels), torch.arange(len(labels)), generator(seed))
    return [places.tolist() for places in choice]


@given(labels=st.lists(st.integers(0, 3), min_size=1, max_size=9), seed=st.integers(0, 99))
def test_positives_and_negatives_are_those_of_the_paper(labels, seed):
    """Appendix B, also if no other text or every text has the label."""
    positives, negatives = choose(labels, seed)
    for anchor, label in enumerate(labels):
        others = [place for place in range(len(labels)) if place != anchor]
        same = [place for place in others if labels[place] == label]
        different = [place for place in others if labels[place] != label]
        assert positives[anchor] in (same or [anchor]) and negatives[anchor] in (different or others or [anchor])


def test_in_a_batch_of_one_label_negatives_are_random():
    chosen = set()
    for seed in range(60):
        _, negatives = choose([7] * 4, seed)
        chosen.add(negatives[0])
    assert chosen == {1, 2, 3}


def test_random_choices_are_uniform():
    labels = torch.arange(240) % 2
    same = same_labels(labels, labels)
    counts = torch.zeros(2, 240)  # how often each text is a positive, and a negative
    runs = 20
    random = generator()
    for _ in range(runs):
        positives, negatives = choose_triplets(same, torch.arange(240), random)
        counts[0] += torch.bincount(positives, minlength=240)
        counts[1] += torch.bincount(negatives, minlength=240)
    expected = runs  # in each run, 240 anchors choose among 240 texts
    chi_square = ((counts - expected) ** 2 / expected).sum(1)
    assert (chi_square < 239 + 5 * math.sqrt(2 * 239)).all() and (chi_square > 239 - 5 * math.sqrt(2 * 239)).all()


def test_anchors_of_one_process_choose_as_in_the_whole_batch():
    labels = torch.randint(0, 3, (12,), generator=generator())
    same = same_labels(labels, labels)
    places = torch.arange(12)
    positives, negatives = choose_triplets(same, places, generator(3))
    for half in (slice(0, 6), slice(6, 12)):
        of_half = choose_triplets(same[half], places[half], generator(3))
        half_positives, half_negatives = of_half
        assert half_positives.equal(positives[half]) and half_negatives.equal(negatives[half])


def test_losses_of_the_processes_are_those_of_the_whole_batch(monkeypatch):
    embeddings = torch.randn(12, 4, generator=generator())
    labels = torch.randint(0, 3, (12,), generator=generator())
    whole = triplets.triplet_losses_of_batch(embeddings, labels, 1.0, generator(3))
    monkeypatch.setattr(triplets, "gather", lambda own: labels)
    monkeypatch.setattr(triplets, "gather_with_gradient", lambda own: embeddings)
    for process, half in enumerate((slice(0, 6), slice(6, 12))):
        monkeypatch.setattr(triplets, "process_index", lambda process=process: process)
        losses = triplets.triplet_losses_of_batch(embeddings[half], labels[half], 1.0, generator(3))
        assert losses.equal(whole[half])


def test_texts_that_share_one_of_several_labels_have_the_same_label():
    labels = torch.tensor([[1, 1, 0], [0, 1, 1], [0, 0, 1], [0, 0, 0]])
    expected = torch.tensor([[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 0], [0, 0, 0, 0]]).bool()
    for dtype in (torch.int64, torch.float32, torch.bool):
        assert same_labels(labels.to(dtype), labels.to(dtype)).equal(expected)
    assert same_labels(labels[:1], labels).equal(expected[:1])


def test_low_precision_embeddings_are_compared_in_float32():
    embeddings = torch.randn(8, 64, generator=generator()).bfloat16()
    wide = embeddings.float()
    with torch.autocast("cpu", torch.bfloat16):
        loss = triplet_loss(embeddings, embeddings.roll(1, 0), embeddings.roll(2, 0), margin=1.0)
    expected = (wide - wide.roll(1, 0)).square().sum(1) - (wide - wide.roll(2, 0)).square().sum(1) + 1
    torch.testing.assert_close(loss, expected.relu(), atol=1e-3, rtol=1e-4)


def test_closed_forms_of_the_loss():
    anchors = torch.zeros(3, 2)
    positives = torch.tensor([[1.0, 2.0]] * 3)  # squared distance 5
    negatives = torch.tensor([[3.0, 0.0], [2.0, 1.0], [2.0, 0.0]])  # 9, 5, 4
    assert triplet_loss(anchors, positives, negatives, margin=1.0).tolist() == [0, 1, 2]
    assert triplet_loss(anchors, positives, negatives, margin=0).tolist() == [0, 0, 1]
    same = torch.full((5, 8), 3e4)
    assert triplet_loss(same, same, same, margin=0.7).tolist() == pytest.approx([0.7] * 5)
