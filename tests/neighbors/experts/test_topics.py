import numpy as np
import pytest
from scipy.special import softmax

from docsplit_hf.neighbors.experts.corpus import make_corpus
from docsplit_hf.neighbors.experts.document_vectors import unit
from docsplit_hf.neighbors.experts.held_out_scores import folds_of, one_hot
from docsplit_hf.neighbors.experts.topics import (
    CONCENTRATION,
    EXAMPLE_WEIGHTS,
    STEPS,
    centers_of,
    choose_example_weight,
    fit_topics,
    topic_scores,
)

from .stores import make_keys, make_store, misleading_store


@pytest.mark.parametrize("proportions", [None, np.array([0.2, 0.3, 0.5])])
def test_it_is_expectation_maximization_in_which_the_examples_keep_their_labels(proportions):
    labels = np.arange(60) % 3
    vectors, rows = unit(make_keys(labels, noise=2.0)), np.arange(6)
    soft = np.full((60, 3), 1 / 3, np.float32)
    soft[rows] = np.eye(3)[labels[rows]]
    weights = np.where(np.arange(60) < 6, 3.0, 1.0).astype(np.float32)
    found = fit_topics(vectors, rows, soft, weights, proportions)
    centers, prior = centers_of(vectors, found, weights), 0 if proportions is None else np.log(proportions)
    expected = soft.astype(np.float64)
    for _ in range(STEPS):
        middle = np.stack([(weights * column) @ vectors for column in expected.T])
        middle /= np.linalg.norm(middle, axis=1, keepdims=True)
        expected = softmax(CONCENTRATION * vectors @ middle.T + prior, axis=1)
        expected[rows] = soft[rows]
        if proportions is None:
            prior = np.log((expected.mean(0) + 1 / 3) / 2)
    np.testing.assert_allclose(found, expected, atol=1e-4)
    np.testing.assert_allclose(np.linalg.norm(centers, axis=1), 1, rtol=1e-5)
    assert (topic_scores(vectors, centers).argmax(1) == labels).mean() > 0.9


def test_examples_count_more_where_documents_draw_topics_away():
    found = []
    for snapshot in (make_store(60, 300).snapshot, misleading_store(noise=5.0).snapshot):
        corpus = make_corpus(snapshot)
        targets, folds = one_hot(snapshot.labels, np.arange(3)), folds_of(snapshot, corpus.rows)
        found.append(choose_example_weight(corpus, corpus.rows, targets, folds, None))
    assert tuple(found) == EXAMPLE_WEIGHTS
