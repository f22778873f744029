import numpy as np
import pytest
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression

from docsplit_hf.fitting.ensemble.held_out_scores import folds_of, one_hot
from docsplit_hf.fitting.experts.corpus import make_corpus
from docsplit_hf.fitting.experts.linear_probe import PROBE_INVERSE_REGULARIZATION
from docsplit_hf.fitting.experts.text_vectors import unit
from docsplit_hf.fitting.experts.vector_experts import (
    DEFAULT_EXAMPLE_WEIGHT,
    LARGE_EXAMPLE_WEIGHT,
    MAX_SURE_DOCUMENTS,
    SURE_DOCUMENT_WEIGHT,
    TOPIC_CONCENTRATION,
    TOPIC_ITERATIONS,
    HeadOrProbe,
    centers_of,
    choose_example_weight,
    fit_topics,
    surest_documents,
    topic_scores,
)

from ..ensemble.stores import make_keys, make_store, misleading_store, training_data


def test_the_probe_is_the_mean_of_two_regressions():
    """One of joined vectors of the examples, one of embeddings, with the surest documents at a lower weight."""
    store = make_store(examples=12, documents=600)
    corpus = make_corpus(store.snapshot)
    rows = corpus.rows
    targets = one_hot(store.snapshot.labels, np.arange(3))
    data = training_data(corpus, rows, targets)
    posterior = np.random.default_rng(0).dirichlet(np.ones(3), len(corpus.ids))
    posterior[rows] = targets
    first = HeadOrProbe().fit(data)["probe"]
    found = HeadOrProbe().learn_from_posterior(data, {"probe": first}, posterior)["probe"]
    documents = surest_documents(posterior, rows)
    embeddings = corpus.document_vectors.embeddings_of(corpus.vectors)
    model = LogisticRegression(C=PROBE_INVERSE_REGULARIZATION, max_iter=300).fit(
        embeddings[np.concatenate([rows, documents])],
        np.concatenate([targets.argmax(1), posterior[documents].argmax(1)]),
        sample_weight=np.repeat([1, SURE_DOCUMENT_WEIGHT], [len(rows), len(documents)]),
    )
    joined = corpus.vectors @ first[:, :-1].T + first[:, -1]
    expected = (joined + model.decision_function(embeddings)) / 2
    logits = corpus.vectors @ found[:, :-1].T + found[:, -1]
    assert corpus.vectors.shape[1] > embeddings.shape[1]
    np.testing.assert_allclose(logits, expected, atol=1e-3)


@pytest.mark.parametrize("examples", [12, 9])
def test_without_documents_one_regression_is_left(examples):
    """Also in a fold, where the other examples are without labels."""
    store = make_store(documents=0)
    corpus = make_corpus(store.snapshot)
    rows = corpus.rows[:examples]
    targets = one_hot(store.snapshot.labels, np.arange(3))[:examples]
    data = training_data(corpus, rows, targets)
    learned = HeadOrProbe().fit(data)
    assert HeadOrProbe().learn_from_posterior(data, learned, np.eye(3)[np.arange(12) % 3]) is learned


def test_the_surest_half_of_each_label_is_found():
    posterior = np.array([[1, 0], [0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.4, 0.6], [0.45, 0.55], [0.3, 0.7]])
    assert surest_documents(posterior, np.array([0])).tolist() == [1, 2, 4, 6]
    assert surest_documents(posterior, np.array([0, 1, 2, 3])).tolist() == [4, 6]
    assert not len(surest_documents(posterior, np.arange(7)))


def test_few_of_many_documents_are_learned_from():
    posterior = np.random.default_rng(0).dirichlet(np.ones(4), 4 * MAX_SURE_DOCUMENTS)
    found = surest_documents(posterior, np.zeros(0, np.int64))
    assert MAX_SURE_DOCUMENTS <= len(found) <= MAX_SURE_DOCUMENTS + 4
    assert np.ptp(np.bincount(posterior[found].argmax(1))) < 100


@pytest.mark.parametrize("proportions", [None, np.array([0.2, 0.3, 0.5])])
def test_topics_are_found_by_expectation_maximization_with_fixed_examples(proportions):
    labels = np.arange(60) % 3
    vectors = unit(make_keys(labels, noise=2.0))
    rows = np.arange(6)
    soft = np.full((60, 3), 1 / 3, np.float32)
    soft[rows] = np.eye(3)[labels[rows]]
    weights = np.where(np.arange(60) < 6, 3.0, 1.0).astype(np.float32)
    others = np.arange(3, 9)
    of_others = np.full((60, 3), 1 / 3, np.float32)
    of_others[others] = np.eye(3)[labels[others]]
    found, _ = fit_topics(vectors, [rows, others], [soft, of_others], [weights, np.ones(60, np.float32)], proportions)
    centers = centers_of(vectors, found, weights)
    prior = 0 if proportions is None else np.log(proportions)
    expected = soft.astype(np.float64)
    for _ in range(TOPIC_ITERATIONS):
        middle = np.stack([(weights * column) @ vectors for column in expected.T])
        middle /= np.linalg.norm(middle, axis=1, keepdims=True)
        expected = softmax(TOPIC_CONCENTRATION * vectors @ middle.T + prior, axis=1)
        expected[rows] = soft[rows]
        if proportions is None:
            prior = np.log((expected.mean(0) + 1 / 3) / 2)
    np.testing.assert_allclose(found, expected, atol=1e-4)
    np.testing.assert_allclose(np.linalg.norm(centers, axis=1), 1, rtol=1e-5)
    assert (topic_scores(vectors, centers).argmax(1) == labels).mean() > 0.9


def test_examples_get_a_larger_weight_if_documents_mislead_topics():
    found = []
    for snapshot in (make_store(60, 300).snapshot, misleading_store(noise=2.0).snapshot):
        corpus = make_corpus(snapshot)
        targets = one_hot(snapshot.labels, np.arange(3))
        folds = folds_of(snapshot, corpus.rows, np.arange(len(corpus.ids)))
        found.append(choose_example_weight(corpus, corpus.rows, targets, folds, None))
    assert found == [DEFAULT_EXAMPLE_WEIGHT, LARGE_EXAMPLE_WEIGHT]
