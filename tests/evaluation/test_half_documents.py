import numpy as np
import pytest
import scipy.sparse
from sklearn.feature_extraction.text import TfidfVectorizer

from docsplit_hf.evaluation.half_documents import retrieval_metrics
from docsplit_hf.pretraining.half_retrieval import half_texts


def test_dense_and_sparse_features_find_the_same(texts):
    first, second = half_texts(texts, 0)
    vectorizer = TfidfVectorizer().fit(texts)
    sparse = [vectorizer.transform(half) for half in (first, second)]
    score = retrieval_metrics(*sparse)
    assert score == pytest.approx(retrieval_metrics(*(half.toarray() for half in sparse)), abs=1e-6)
    assert score["recall@1"] > 0.9  # each sentence names the number of its document


def test_the_same_halves_are_found_and_equal_ones_are_not():
    features = np.random.default_rng(0).normal(size=(1500, 8))
    assert retrieval_metrics(features, 2 * features)["mrr"] == 1.0
    assert retrieval_metrics(np.ones((30, 2)), np.ones((30, 2)))["recall@10"] == 0.0
    zeros = scipy.sparse.csr_matrix((30, 2))
    assert retrieval_metrics(zeros, zeros)["recall@10"] == 0.0


def test_a_system_that_gives_nan_is_refused():
    with pytest.raises(ValueError, match="the second halves: row 0 holds NaN"):
        retrieval_metrics(np.eye(2), np.eye(2) * np.nan)
