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
from tests.evaluation.test_protocols import clusters, labeled


@pytest.mark.parametrize("sparse", [False, True])
def test_what_can_be_separated_is_and_random_labels_give_chance(sparse):
    (train, labels), (test, test_labels) = clusters(80), clusters(400, seed=1)
    convert = scipy.sparse.csr_matrix if sparse else np.asarray
    perfect = knn_metrics(labeled((train, labels), (3 * test, test_labels), convert), 0)
    assert perfect == {"accuracy": 1.0, "macro_f1": 1.0, "matthews_correlation": 1.0}
    shuffled = np.random.default_rng(0).permutation(labels)
    assert knn_metrics(labeled((train, shuffled), (test, test_labels), convert), 0)["accuracy"] < 0.5


def test_dense_and_sparse_search_agree():
    sets = clusters(300, spread=1.0), clusters(200, spread=1.0, seed=1)
    dense, sparse = (knn_metrics(labeled(*sets, convert), 0) for convert in (np.asarray, scipy.sparse.csr_matrix))
    assert dense == pytest.approx(sparse, abs=0.01)  # distances are rounded otherwise


def test_one_neighbor_is_scikit_learns_nearest_neighbor(monkeypatch):
    (train, labels), (test, test_labels) = clusters(300, spread=1.0), clusters(200, spread=1.0, seed=1)
    monkeypatch.setattr(neighbors, "MOST_NEIGHBORS", 1)
    expected = KNeighborsClassifier(1).fit(train, labels).score(test, test_labels)
    found = knn_metrics(labeled((train, labels), (test, test_labels)), 0)
    assert found["accuracy"] == pytest.approx(expected)


def test_neighbors_are_not_chosen_on_copies_of_themselves(caplog):
    rng = np.random.default_rng(0)
    inputs = 2 * list(range(200))
    features = 2 * [*rng.normal(size=(200, 8)).astype(np.float32)]
    labels = np.concatenate(2 * [rng.permutation(200) % 2])  # there is nothing to learn but the copies
    with caplog.at_level(logging.INFO, "experiments"):
        both = np.stack(features), labels
        knn_metrics(labeled(both, both)._replace(train_inputs=inputs), 0)
    [temperature] = [re.search(r"at temperature (\S+),", line)[1] for line in caplog.messages if "temperature" in line]
    assert float(temperature) > 0.5  # with a copy at distance 0 it is a tenth of that: the nearest one decides


def test_of_a_mean_it_is_the_t_interval():
    values = np.random.default_rng(0).normal(size=12)
    low, high = stats.t.interval(0.95, len(values) - 1, loc=values.mean(), scale=stats.sem(values))
    found = with_intervals({"x": values.mean()}, {"x": ratio_without_each(values, np.ones(12))})
    assert found == {"x": values.mean(), "x_interval": pytest.approx((high - low) / 2)}


def test_a_ratio_is_divided_without_each_and_has_no_interval_where_nothing_is_left():
    assert ratio_without_each(np.array([1.0, 2, 3]), np.array([1, 1, 2])) == pytest.approx([5 / 3, 4 / 3, 3 / 2])
    assert half_interval(ratio_without_each(np.array([1.0, 0]), np.array([1, 0]))) is None
    assert half_interval(np.array([0.5])) is None
