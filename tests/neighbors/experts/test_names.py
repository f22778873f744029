import numpy as np
import pytest

from docsplit_hf.neighbors.experts.corpus import make_corpus
from docsplit_hf.neighbors.experts.experts import EXPERTS, first_lesson
from docsplit_hf.neighbors.experts.fit_experts import fit_experts
from docsplit_hf.neighbors.experts.held_out_scores import one_hot
from docsplit_hf.neighbors.experts.names import MOST, names_as_vectors, readable_names

from .stores import NAMES, ask, make_keys, make_queries, make_store

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


def test_without_many_examples_they_help_and_wrong_ones_do_not_harm():
    labels, right = make_queries(300)[0], {}
    for name, given in (("none", None), ("right", RIGHT), ("wrong", WRONG)):
        store = make_store(3)
        embed = None if given is None else lambda asked, given=given: given[[NAMES.index(name) for name in asked]]
        store.fitted = fit_experts(store.snapshot, show_progress=False, embed_names=embed).to_state()
        right[name] = (ask(store, count=300).probabilities.argmax(1) == labels).mean()
    assert right["right"] >= right["none"] - 0.01 and right["wrong"] > right["none"] - 0.05


@pytest.mark.parametrize("several, expected", [(False, True), (True, False)])
def test_they_are_for_one_label_per_text(several, expected):
    store = make_store(several=several)
    fitted = fit_experts(store.snapshot, show_progress=False, embed_names=lambda asked: RIGHT)
    assert ("names" in fitted.experts) is expected


def test_marks_between_words_are_spaces():
    assert readable_names(["comp.sys.mac-hardware", "a_b/c", "..."]) == ["comp sys mac hardware", "a b c", "..."]
