import numpy as np
import pytest
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression

from docsplit_hf import KNNDatastore
from docsplit_hf.fitting.ensemble.fit_experts import fit_experts
from docsplit_hf.fitting.ensemble.held_out_scores import folds_of, one_hot
from docsplit_hf.fitting.ensemble.preparing import prepare_fit
from docsplit_hf.fitting.ensemble.problem import Problem
from docsplit_hf.fitting.experts.corpus import make_corpus
from docsplit_hf.fitting.experts.expert import Guess, log_likelihoods_by
from docsplit_hf.fitting.experts.linear_probe import PROBE_INVERSE_REGULARIZATION
from docsplit_hf.fitting.experts.registry import EXPERTS, refine_labels
from docsplit_hf.fitting.experts.text_vectors import unit
from docsplit_hf.fitting.experts.vector_experts import (
    DEFAULT_EXAMPLE_WEIGHT,
    LARGE_EXAMPLE_WEIGHT,
    MAX_SURE_DOCUMENTS,
    NAMES_PRIOR_WITHOUT_EXAMPLES,
    SURE_DOCUMENT_WEIGHT,
    TOPIC_CONCENTRATION,
    TOPIC_ITERATIONS,
    HeadOrProbe,
    centers_of,
    choose_example_weight,
    fit_topics,
    names_as_vectors,
    only_topic,
    readable_names,
    surest_documents,
    topic_scores,
)

from ..ensemble.stores import make_keys, make_queries, make_store, make_texts, misleading_store, score, training_data

LABELS = np.arange(45) % 3


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


RIGHT = make_keys([0, 1, 2], noise=0.0)  # each name lies where its texts are
WRONG = RIGHT[[1, 2, 0]]


def prior(names, examples=12):
    snapshot = make_store(examples).snapshot
    corpus = make_corpus(snapshot)
    targets = one_hot(snapshot.labels, np.arange(3))
    return EXPERTS["label_names"].prior(data_with_names(corpus, targets, names))


def data_with_names(corpus, targets, names, is_text=None):
    vectors = names_as_vectors(names, corpus.document_vectors.mean)
    cosines = corpus.document_vectors.embeddings_of(corpus.vectors) @ vectors.T
    guess = Guess(vectors, log_likelihoods_by(cosines, corpus.rows, targets))
    return training_data(corpus, corpus.rows, targets, is_text, names=guess)


def test_the_prior_of_names_falls_with_more_examples_and_without_their_confirmation():
    assert NAMES_PRIOR_WITHOUT_EXAMPLES * 3 / 4 > prior(RIGHT, 3) > prior(RIGHT) > prior(RIGHT, 60) > 0.01
    assert prior(WRONG) < 1e-3 * prior(RIGHT)


def test_label_descriptions_do_not_confirm_label_names():
    corpus = make_corpus(make_store(3).snapshot)
    for is_text in (np.zeros(3, bool), np.ones(3, bool)):
        data = data_with_names(corpus, np.eye(3), RIGHT, is_text)
        assert (data.reliability(data.names) == 0.5) is not is_text.any()


def test_label_names_help_with_few_examples_and_wrong_names_do_no_harm():
    labels = make_queries(300)[0]
    loss = {}
    for name, given in (("none", None), ("right", RIGHT), ("wrong", WRONG)):
        store = make_store(3)
        problem = Problem(store.snapshot, name_embeddings=given)
        store.fitted = fit_experts(problem, show_progress=False).to_state()
        loss[name] = -np.log(score(store, count=300).probabilities[np.arange(300), labels]).mean()
    assert loss["right"] < loss["none"]
    # Wrong names agree with no expert, which must hardly lower the confidence: the loss was once 1 higher.
    assert loss["wrong"] < loss["none"] + 0.05


def test_names_refine_propagated_labels_and_examples_keep_theirs():
    """Where propagated labels are uniform, the refined ones follow the label names alone."""
    corpus = make_corpus(make_store(6).snapshot)
    data = data_with_names(corpus, np.eye(3)[np.arange(6) % 3], RIGHT)
    propagated = np.full((66, 3), 1 / 3)
    propagated[corpus.rows] = data.targets
    soft = refine_labels(data, propagated)
    assert (soft[corpus.rows] == data.targets).all()
    vectors = data.names.vectors
    cosines = (unit(corpus.vectors[:, : vectors.shape[1]]) @ vectors.T)[corpus.documents]
    logits = np.log(soft[corpus.documents])
    slopes = (logits[:, 1:] - logits[:, :1]) / (cosines[:, 1:] - cosines[:, :1])
    np.testing.assert_allclose(slopes, slopes[0, 0], rtol=1e-3)
    assert slopes[0, 0] > 0


@pytest.mark.parametrize("multi_label, expected", [(False, True), (True, False)])
def test_the_names_expert_needs_one_label_per_text(multi_label, expected):
    store = make_store(multi_label=multi_label)
    fitted = fit_experts(Problem(store.snapshot, name_embeddings=RIGHT), show_progress=False)
    assert ("label_names" in fitted.ensemble.experts) is expected


@pytest.mark.parametrize(
    "names, expected",
    [
        (("another clause", "insurance"), 1),
        (("No-Solicit Of Customers", "another clause"), 0),
        (("Something else", "refund"), 1),
        (("none of these", "refund"), 1),
        (("non-spam", "Spam"), 1),
        (("is_not_spam", "is_spam"), 1),
        (("not ham", "spam"), None),
        (("no", "yes"), None),
        (("other", "none"), None),
        (("1", "2"), None),
        (("other", "refund", "spam"), None),
        (("...", " "), None),
    ],
)
def test_of_two_labels_one_may_name_no_topic(names, expected):
    assert only_topic(names) == expected


def test_a_name_that_is_no_topic_has_the_opposite_vector_and_the_mean_text_lies_between():
    """A text is nearer to the topic's name than the mean of all texts is: that decides, whatever the other name is."""
    corpus = make_corpus(make_store(6).snapshot)
    mean = corpus.document_vectors.mean
    vectors = names_as_vectors(RIGHT[:2], mean, topic=0)
    np.testing.assert_array_equal(vectors, names_as_vectors(WRONG[[2, 0]], mean, topic=0))
    keys = make_queries(50)[1]
    scores = corpus.document_vectors.embeddings_of(corpus.document_vectors.join(keys, None)) @ vectors.T
    topic = unit(RIGHT[:1])[0]
    np.testing.assert_array_equal(scores[:, 0] > scores[:, 1], keys @ topic > mean @ topic)


def reliability_of_names(other, names):
    """Of the names "a" and another one, of four examples each."""
    labels = np.arange(8) % 2
    store = KNNDatastore(make_keys(labels), labels, ["a", other], make_texts(labels))
    data = prepare_fit(Problem(store.snapshot, name_embeddings=names)).data
    return data.reliability(data.names)


def test_the_name_of_the_only_topic_is_believed_unless_examples_deny_it():
    """The vector of a name that is no topic plays no part, whether it is a random one or that of the topic."""
    random = make_keys([2, 2], seed=3)[:1]
    for other in (random, RIGHT[:1]):
        assert reliability_of_names("another one", np.vstack([RIGHT[:1], other])) > 0.99
    assert reliability_of_names("not a", np.repeat(WRONG[:1], 2, axis=0)) < 0.2


def test_separators_in_label_names_become_spaces():
    assert readable_names(["comp.sys.mac-hardware", "a_b/c", "..."]) == ["comp sys mac hardware", "a b c", "..."]
