import numpy as np
import pytest
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression

from docsplit_hf.classification.ensemble.corpus import make_corpus, unit
from docsplit_hf.classification.ensemble.fitting import fit_experts
from docsplit_hf.classification.ensemble.held_out_scores import folds_of, one_hot
from docsplit_hf.classification.ensemble.registry import EXPERTS, first_lesson, with_names
from docsplit_hf.classification.ensemble.vector_experts import (
    CONCENTRATION,
    EXAMPLE_WEIGHTS,
    INVERSE_REGULARIZATION,
    MOST,
    STEPS,
    UNKNOWN,
    centers_of,
    choose_example_weight,
    fit_probe,
    fit_topics,
    names_as_vectors,
    readable_names,
    topic_scores,
)

from .stores import NAMES, ask, make_keys, make_queries, make_store, misleading_store

LABELS = np.arange(45) % 3


@pytest.mark.parametrize("classes", [2, 3])
def test_it_is_logistic_regression(classes):
    labels, vectors = LABELS % classes, make_keys(LABELS, noise=4.0)
    weights, biases = fit_probe(vectors, np.eye(classes)[labels], several=False)
    logits = vectors @ weights.T + biases
    model = LogisticRegression(C=INVERSE_REGULARIZATION, max_iter=300).fit(vectors, labels)
    odds = np.exp(logits - logits.max(1, keepdims=True))
    np.testing.assert_allclose(odds / odds.sum(1, keepdims=True), model.predict_proba(vectors), atol=1e-4)


def test_of_several_labels_it_is_one_for_each_and_a_constant_where_none_or_all_have_it():
    vectors, targets = make_keys(LABELS, noise=4.0), np.zeros((45, 3))
    targets[:, 0], targets[:, 2] = LABELS == 0, 1
    weights, biases = fit_probe(vectors, targets, several=True)
    model = LogisticRegression(C=INVERSE_REGULARIZATION, max_iter=300).fit(vectors, LABELS == 0)
    np.testing.assert_allclose(vectors @ weights[0] + biases[0], model.decision_function(vectors), atol=1e-3)
    assert not weights[1:].any()
    np.testing.assert_allclose(1 / (1 + np.exp(-biases[1:])), [UNKNOWN, 1 - UNKNOWN], rtol=1e-4)


def test_one_example_of_each_label_is_enough(recwarn):
    weights, _ = fit_probe(np.eye(5, dtype=np.float32), np.eye(5), several=False)
    assert weights.shape == (5, 5) and (weights.argmax(1) == np.arange(5)).all() and not recwarn


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


RIGHT = make_keys([0, 1, 2], noise=0.0)  # each name lies where its texts are
WRONG = RIGHT[[1, 2, 0]]


def prior(names, examples=12):
    snapshot = make_store(examples).snapshot
    corpus, targets = make_corpus(snapshot), one_hot(snapshot.labels, np.arange(3))
    vectors = names_as_vectors(names, corpus.document_vectors.mean)
    return EXPERTS["names"].prior(first_lesson(corpus, corpus.rows, targets, False, names=vectors))


def test_names_that_examples_confirm_count_and_less_as_examples_come():
    assert MOST * 3 / 4 > prior(RIGHT, 3) > prior(RIGHT) > prior(RIGHT, 60) > 0.01
    assert prior(WRONG) < 1e-3 * prior(RIGHT)


def test_descriptions_of_labels_confirm_no_names():
    corpus = make_corpus(make_store(3).snapshot)
    vectors = names_as_vectors(RIGHT, corpus.document_vectors.mean)
    for is_text in (np.zeros(3, bool), np.ones(3, bool)):
        lesson = first_lesson(corpus, corpus.rows, np.eye(3), False, names=vectors, is_text=is_text)
        assert (lesson.belief == 0.5) is not is_text.any()


def test_without_many_examples_they_help_and_wrong_ones_do_not_harm():
    labels, loss = make_queries(300)[0], {}
    for name, given in (("none", None), ("right", RIGHT), ("wrong", WRONG)):
        store = make_store(3)
        embed = None if given is None else lambda asked, given=given: given[[NAMES.index(name) for name in asked]]
        store.fitted = fit_experts(store.snapshot, show_progress=False, embed_names=embed).to_state()
        loss[name] = -np.log(ask(store, count=300).probabilities[np.arange(300), labels]).mean()
    assert loss["right"] < loss["none"]
    # Wrong ones agree with nobody, which must not be taken for doubt: the loss was 1.03, in place of 0.02.
    assert loss["wrong"] < loss["none"] + 0.005


def test_names_join_what_was_spread_and_examples_keep_their_labels():
    """Labels that were spread where no text is known have those of the names alone."""
    corpus = make_corpus(make_store(6).snapshot)
    vectors = names_as_vectors(RIGHT, corpus.document_vectors.mean)
    lesson = first_lesson(corpus, corpus.rows, np.eye(3)[np.arange(6) % 3], False, names=vectors)
    spread = np.full((66, 3), 1 / 3)
    spread[corpus.rows] = lesson.targets
    soft, cosines = with_names(lesson, spread), unit(corpus.vectors[:, : vectors.shape[1]]) @ vectors.T
    assert (soft[corpus.rows] == lesson.targets).all()
    soft, cosines = np.log(soft[corpus.documents]), cosines[corpus.documents]
    slopes = (soft[:, 1:] - soft[:, :1]) / (cosines[:, 1:] - cosines[:, :1])
    np.testing.assert_allclose(slopes, slopes[0, 0], rtol=1e-3)
    assert slopes[0, 0] > 0


@pytest.mark.parametrize("several, expected", [(False, True), (True, False)])
def test_they_are_for_one_label_per_text(several, expected):
    store = make_store(several=several)
    fitted = fit_experts(store.snapshot, show_progress=False, embed_names=lambda asked: RIGHT)
    assert ("names" in fitted.experts) is expected


def test_marks_between_words_are_spaces():
    assert readable_names(["comp.sys.mac-hardware", "a_b/c", "..."]) == ["comp sys mac hardware", "a b c", "..."]
