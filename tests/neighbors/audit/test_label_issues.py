import numpy as np
import pytest
from cleanlab.count import num_label_issues

from docsplit_hf.neighbors.audit.label_issues import Doubt, doubts_of, label_issues
from docsplit_hf.neighbors.audit.nearest_examples import Nearest


def made_up(count=200, wrong=10, seed=0):
    """Labels of which some are wrong, and probabilities that know the right ones."""
    rng = np.random.default_rng(seed)
    right = rng.integers(0, 3, count)
    probabilities = rng.dirichlet(np.ones(3), count)
    probabilities = 0.3 * probabilities + 0.7 * np.eye(3)[right]
    labels, rows = right.copy(), rng.choice(count, wrong, replace=False)
    labels[rows] = (labels[rows] + 1) % 3
    return labels, probabilities, rows, right


def test_those_of_lowest_self_confidence_are_found_as_many_as_the_joint_says():
    labels, probabilities, rows, _ = made_up()
    count = num_label_issues(labels, probabilities, estimation_method="off_diagonal_calibrated")
    lowest = np.argsort(probabilities[np.arange(200), labels])[:count]
    found = np.flatnonzero(label_issues(labels, probabilities, np.zeros(200)))
    assert count == 9 and set(found.tolist()) == set(lowest.tolist()) < set(rows.tolist())
    assert not label_issues(labels, np.full((200, 3), 1 / 3), np.zeros(200)).any()  # nothing is said


def test_what_the_nearest_support_is_left_alone():
    labels, probabilities, rows, _ = made_up()
    agreeing, before = np.zeros(200), label_issues(labels, probabilities, np.zeros(200))
    agreeing[rows[:4]] = 0.2
    before[rows[:4]] = False
    assert np.array_equal(label_issues(labels, probabilities, agreeing), before) and before.any()


def test_with_one_label_there_is_nothing_to_doubt():
    assert not label_issues(np.zeros(9, int), np.full((9, 2), 0.5), np.zeros(9)).any()


def test_a_doubt_names_the_label_and_the_evidence():
    labels, probabilities, rows, right = made_up()
    near = Nearest(np.array([np.flatnonzero(right == label)[:2] for label in right]), np.ones((200, 2)))
    doubts = doubts_of(labels, np.arange(200), probabilities, near)
    assert [doubt.probability for doubt in doubts] == sorted(doubt.probability for doubt in doubts)
    for row, suggested, probability, near_given, near_suggested in doubts:
        assert row in rows and suggested == right[row] and near_given == 0 and near_suggested >= 1
        assert probability == pytest.approx(probabilities[row, labels[row]])


def test_rows_are_those_of_all_examples():
    labels, probabilities, rows, right = made_up()
    near = Nearest(np.array([np.flatnonzero(right == label)[:2] for label in right]), np.ones((200, 2)))
    asked = np.arange(0, 200, 2)
    found = {doubt.row for doubt in doubts_of(labels, asked, probabilities[asked], near)}
    assert found and found <= {row for row in rows.tolist() if row % 2 == 0}


def test_with_several_labels_each_is_a_question_by_itself():
    right = np.array([[1, 0], [1, 1], [0, 1], [1, 0]] * 25, bool)
    probabilities = np.where(right, 0.9, 0.1).astype(np.float32)
    labels = right.copy()
    labels[0, 0], labels[5, 0], labels[6, 0] = False, False, True  # one is missing, another too, one is too many
    labels[6, 1] = False
    near = Nearest(np.array([np.flatnonzero((right == own).all(1) & (np.arange(100) > 8))[:2] for own in right]), None)
    doubts = {doubt.row: doubt for doubt in doubts_of(labels, np.arange(100), probabilities, near)}
    assert {row: doubt.suggested for row, doubt in doubts.items()} == {0: [0], 5: [0, 1], 6: [1]}
    assert doubts[0] == Doubt(0, [0], pytest.approx(0.1), 0, 2)
