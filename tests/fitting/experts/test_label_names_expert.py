import numpy as np
import pytest

from docsplit_hf import KNNDatastore
from docsplit_hf.fitting.ensemble.fit_experts import fit_experts
from docsplit_hf.fitting.ensemble.held_out_scores import one_hot
from docsplit_hf.fitting.ensemble.preparing import prepare_fit
from docsplit_hf.fitting.ensemble.problem import Problem
from docsplit_hf.fitting.experts.corpus import make_corpus
from docsplit_hf.fitting.experts.expert import Guess, log_likelihoods_by
from docsplit_hf.fitting.experts.label_names_expert import (
    NAMES_PRIOR_WITHOUT_EXAMPLES,
    names_as_vectors,
    only_topic,
    readable_names,
)
from docsplit_hf.fitting.experts.registry import EXPERTS, refine_labels
from docsplit_hf.fitting.experts.text_vectors import unit

from ..ensemble.stores import make_keys, make_queries, make_store, make_texts, score, training_data

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
