import logging
import re

import numpy as np
import pytest
import scipy.sparse
from scipy import stats
from sklearn.neighbors import KNeighborsClassifier

from experiments.protocols import nearest_neighbors as neighbors
from experiments.protocols.jackknife import half_interval, ratio_without_each, with_intervals
from experiments.protocols.nearest_neighbors import knn_metrics
from tests.evaluation.test_probes import clusters, labeled


@pytest.mark.parametrize("sparse", [False, True])
def test_separable_classes_are_separated_and_random_labels_give_chance(sparse):
    train, labels = clusters(80)
    test, test_labels = clusters(400, seed=1)
    convert = scipy.sparse.csr_matrix if sparse else np.asarray
    perfect = knn_metrics(labeled((train, labels), (3 * test, test_labels), convert), 0)
    assert perfect == {"accuracy": 1.0, "macro_f1": 1.0, "matthews_correlation": 1.0}
    shuffled = np.random.default_rng(0).permutation(labels)
    assert knn_metrics(labeled((train, shuffled), (test, test_labels), convert), 0)["accuracy"] < 0.5


def test_dense_and_sparse_search_agree():
    train = clusters(300, spread=1.0)
    test = clusters(200, spread=1.0, seed=1)
    dense = knn_metrics(labeled(train, test), 0)
    sparse = knn_metrics(labeled(train, test, scipy.sparse.csr_matrix), 0)
    assert dense == pytest.approx(sparse, abs=0.01)  # distances are rounded differently


def test_one_neighbor_is_scikit_learns_nearest_neighbor(monkeypatch):
    train, labels = clusters(300, spread=1.0)
    test, test_labels = clusters(200, spread=1.0, seed=1)
    monkeypatch.setattr(neighbors, "MOST_NEIGHBORS", 1)
    expected = KNeighborsClassifier(1).fit(train, labels).score(test, test_labels)
    found = knn_metrics(labeled((train, labels), (test, test_labels)), 0)
    assert found["accuracy"] == pytest.approx(expected)


def test_calibration_ignores_copies_of_held_out_texts(caplog):
    rng = np.random.default_rng(0)
    inputs = 2 * list(range(200))
    features = np.tile(rng.normal(size=(200, 8)).astype(np.float32), (2, 1))
    labels = np.tile(rng.permutation(200) % 2, 2)  # random: only the copies are informative
    with caplog.at_level(logging.INFO, "experiments"):
        knn_metrics(labeled((features, labels), (features, labels))._replace(train_inputs=inputs), 0)
    [line] = [message for message in caplog.messages if "temperature" in message]
    temperature = float(re.search(r"at temperature (\S+),", line)[1])
    assert temperature > 0.5  # with a copy at distance 0 it would be a tenth of that


def test_the_jackknife_of_a_mean_is_the_t_interval():
    values = np.random.default_rng(0).normal(size=12)
    low, high = stats.t.interval(0.95, len(values) - 1, loc=values.mean(), scale=stats.sem(values))
    found = with_intervals({"x": values.mean()}, {"x": ratio_without_each(values, np.ones(12))})
    assert found == {"x": values.mean(), "x_interval": pytest.approx((high - low) / 2)}


def test_ratios_without_each_document_by_hand_and_no_interval_where_one_is_undefined():
    assert ratio_without_each(np.array([1.0, 2, 3]), np.array([1, 1, 2])) == pytest.approx([5 / 3, 4 / 3, 3 / 2])
    assert half_interval(ratio_without_each(np.array([1.0, 0]), np.array([1, 0]))) is None
    assert half_interval(np.array([0.5])) is None
