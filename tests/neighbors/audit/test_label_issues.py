"""How many labels are wrong, which ones, and which labels are confused."""

import numpy as np
import pytest

from docsplit_hf.neighbors.audit.label_issues import SURE, confused_labels, doubts_of, wrong_and_right
from docsplit_hf.neighbors.audit.near_examples import Nearest


def made_up(count=200, wrong=10, classes=3, clear=3.0, sharpness=1.0, seed=0):
    """Labels of which some are wrong, and answers to texts that are hard to tell; those are too unsure below 1."""
    rng = np.random.default_rng(seed)
    right = rng.integers(0, classes, count)
    logits = rng.standard_normal((count, classes)) + clear * np.eye(classes)[right]
    odds = np.exp(clear * logits)
    right = (rng.random((count, 1)) > np.cumsum(odds / odds.sum(1, keepdims=True), axis=1)).sum(1)
    probabilities = odds**sharpness / (odds**sharpness).sum(1, keepdims=True)
    labels, rows = right.copy(), rng.choice(count, wrong, replace=False)
    labels[rows] = (labels[rows] + rng.integers(1, classes, wrong)) % classes
    return labels, probabilities, rows, right


def near_of(right):
    return Nearest(np.array([np.flatnonzero(right == label)[:2] for label in right]), np.ones((len(right), 2)))


@pytest.mark.parametrize("sharpness", [0.4, 1])
@pytest.mark.parametrize(("count", "classes"), [(125, 25), (300, 4)])
@pytest.mark.parametrize("share", [0, 0.05, 0.2])
def test_about_as_many_are_wrong_as_it_says(count, classes, sharpness, share):
    found = []
    for seed in range(3):
        labels, probabilities, _, _ = made_up(count, round(share * count), classes, 3, sharpness, seed)
        found.append(wrong_and_right(labels, probabilities)[0].sum())
    assert np.mean(found) == pytest.approx(share * count, rel=0.35, abs=3)


def test_what_is_sure_is_right():
    hits = total = 0
    for seed in range(5):
        labels, probabilities, _, right = made_up(seed=seed, wrong=20)
        doubts, _ = doubts_of(labels, np.arange(200), probabilities, near_of(right))
        total += sum(doubt.sure for doubt in doubts)
        hits += sum(doubt.sure and doubt.suggested == right[doubt.row] for doubt in doubts)
    assert hits >= 0.9 * total > 40


def test_a_doubt_names_the_label_and_the_evidence():
    labels, probabilities, rows, right = made_up()
    doubts, count = doubts_of(labels, np.arange(200), probabilities, near_of(right))
    assert [doubt.probability for doubt in doubts] == sorted(doubt.probability for doubt in doubts)
    assert {doubt.row for doubt in doubts[:5]} < set(rows.tolist())
    wrong, _ = wrong_and_right(labels, probabilities)
    assert count == pytest.approx(wrong.sum())
    for row, suggested, _, probability, near_given, near_suggested in doubts:
        assert suggested == probabilities[row].argmax() != labels[row]
        assert probability == pytest.approx(1 - wrong[row]) and probability <= 0.9
        assert (near_given, near_suggested) == (2 * (right[row] == labels[row]), 2 * (right[row] == suggested))


def test_with_several_labels_each_is_a_question_by_itself():
    right = np.array([[1, 0], [1, 1], [0, 1], [1, 0]] * 25, bool)
    sure = np.random.default_rng(0).uniform(0.7, 0.999, right.shape).astype(np.float32)
    sure[[0, 5, 6]] = 0.999
    probabilities = np.where(right, sure, 1 - sure)
    labels = right.copy()
    labels[0, 0], labels[5, 0], labels[6, 0] = False, False, True  # one is missing, another too, one is too many
    labels[6, 1] = False
    near = Nearest(np.array([np.flatnonzero((right == own).all(1) & (np.arange(100) > 8))[:2] for own in right]), None)
    doubts, count = doubts_of(labels, np.arange(100), probabilities, near)
    assert {doubt.row: doubt.suggested for doubt in doubts} == {0: [0], 5: [0, 1], 6: [1]}
    assert doubts[0].near_given == 0 and doubts[0].near_suggested == 2 and count == pytest.approx(4, abs=0.5)
    assert all(doubt.sure and doubt.probability < 1 - SURE for doubt in doubts)


def test_counts_and_shares():
    labels = np.repeat([0, 1, 2, 0, 1, 1, 2], [6, 8, 30, 4, 2, 1, 2])
    answers = np.repeat([0, 1, 2, 1, 0, 2, 1], [6, 8, 30, 4, 2, 1, 2])
    # 0 and 1 are taken for one another in 6 of 20; 1 and 2 in 3 of 41, which is too few
    assert confused_labels(labels, answers, 4) == [(0, 1, 4, 2, 0.3)]
    assert confused_labels(np.array([0, 1]), np.array([1, 0]), 2) == []
    assert confused_labels(np.zeros(0, int), np.zeros(0, int), 3) == []
