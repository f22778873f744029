import numpy as np

from docsplit_hf.neighbors.audit.confused_labels import confused_labels


def test_counts_and_shares():
    labels = np.repeat([0, 1, 2, 0, 1, 1, 2], [6, 8, 30, 4, 2, 1, 2])
    answers = np.repeat([0, 1, 2, 1, 0, 2, 1], [6, 8, 30, 4, 2, 1, 2])
    # 0 and 1 are taken for one another in 6 of 20; 1 and 2 in 3 of 41, which is too few
    assert confused_labels(labels, answers, 4) == [(0, 1, 4, 2, 0.3)]
    assert confused_labels(np.array([0, 1]), np.array([1, 0]), 2) == []
    assert confused_labels(np.zeros(0, int), np.zeros(0, int), 3) == []


def test_the_most_confused_are_first():
    labels, answers = np.repeat([0, 1, 2, 3], 10), np.repeat([0, 1, 2, 3], 10)
    answers[:3], answers[20:25] = 1, 3
    assert [pair[:2] for pair in confused_labels(labels, answers, 4)] == [(2, 3), (0, 1)]
