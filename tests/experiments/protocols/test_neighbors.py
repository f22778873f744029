import numpy as np
import pytest
import scipy.sparse
from sklearn.neighbors import KNeighborsClassifier

from docsplit_hf.experiments.protocols import neighbors
from docsplit_hf.experiments.protocols.neighbors import knn_score

from .test_probe import clusters


@pytest.mark.parametrize("sparse", [False, True])
def test_what_can_be_separated_is_and_random_labels_give_chance(sparse):
    (train, labels), (test, test_labels) = clusters(80), clusters(400, seed=1)
    convert = scipy.sparse.csr_matrix if sparse else np.asarray
    assert knn_score(convert(train), labels, convert(3 * test), test_labels, 0) == {"accuracy": 1.0, "macro_f1": 1.0}
    random = knn_score(convert(train), np.random.default_rng(0).permutation(labels), convert(test), test_labels, 0)
    assert random["accuracy"] < 0.5


def test_dense_and_sparse_search_agree():
    (train, labels), (test, test_labels) = clusters(300, spread=1.0), clusters(200, spread=1.0, seed=1)
    dense = knn_score(train, labels, test, test_labels, 0)
    sparse = knn_score(scipy.sparse.csr_matrix(train), labels, scipy.sparse.csr_matrix(test), test_labels, 0)
    assert dense == pytest.approx(sparse, abs=0.01)  # distances are rounded otherwise


def test_one_neighbor_is_scikit_learns_nearest_neighbor(monkeypatch):
    (train, labels), (test, test_labels) = clusters(300, spread=1.0), clusters(200, spread=1.0, seed=1)
    monkeypatch.setattr(neighbors, "_choose", lambda *arguments: (1, 1.0))
    expected = KNeighborsClassifier(1).fit(train, labels).score(test, test_labels)
    assert knn_score(train, labels, test, test_labels, 0)["accuracy"] == pytest.approx(expected)


def test_one_example_a_class_is_enough():
    train, labels = clusters(4)
    test, test_labels = clusters(40, seed=1)
    assert knn_score(train, labels, test, test_labels, 0)["accuracy"] == 1.0


def test_nan_is_refused():
    train, labels = clusters(20)
    with pytest.raises(ValueError, match="the test features: row 0 holds NaN"):
        knn_score(train, labels, train * np.nan, labels, 0)
