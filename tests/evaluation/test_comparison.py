"""Half-document retrieval of features."""

import numpy as np
import pytest
import scipy.sparse
from sklearn.feature_extraction.text import TfidfVectorizer

from docsplit_hf.evaluation.comparison import retrieval_metrics
from docsplit_hf.pretraining.half_retrieval import half_texts


def test_dense_and_sparse_features_have_equal_retrieval_metrics(texts):
    first_texts, second_texts = half_texts(texts, 0)
    vectorizer = TfidfVectorizer().fit(texts)
    first = vectorizer.transform(first_texts)
    second = vectorizer.transform(second_texts)
    score = retrieval_metrics(first, second)
    assert score == pytest.approx(retrieval_metrics(first.toarray(), second.toarray()), abs=1e-6)
    assert score["recall@1"] > 0.9  # each sentence has the number of its document


def test_identical_halves_are_found_and_ties_count_as_wrong():
    features = np.random.default_rng(0).normal(size=(1500, 8))
    assert retrieval_metrics(features, 2 * features)["mrr"] == 1.0
    assert retrieval_metrics(np.ones((30, 2)), np.ones((30, 2)))["recall@10"] == 0.0
    zeros = scipy.sparse.csr_matrix((30, 2))
    assert retrieval_metrics(zeros, zeros)["recall@10"] == 0.0
