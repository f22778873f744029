"""pipe.suggest(n): documents to label next."""

import copy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docsplit_hf.classifier import active_learning as suggestions
from docsplit_hf.classifier.active_learning import choose_documents, margin_uncertainty


def make_groups(sizes, seed=0):
    """Documents around centers that are far from each other, and the group of each."""
    groups = np.repeat(np.arange(len(sizes)), sizes)
    noise = 0.1 * np.random.default_rng(seed).standard_normal((len(groups), len(sizes)))
    return (np.eye(len(sizes))[groups] + noise).astype(np.float32), groups


def test_each_group_gives_one_document_in_the_order_of_uncertainty():
    vectors, groups = make_groups([30, 30, 30])
    uncertainty = np.array([0.4, 0.9, 0.6])[groups]
    choices = choose_documents(vectors, uncertainty, vectors[:0], 3)
    assert groups[[choice.row for choice in choices]].tolist() == [1, 2, 0]
    for choice in choices:
        np.testing.assert_array_equal(choice.cluster, np.flatnonzero(groups == groups[choice.row]))


def test_groups_with_examples_give_no_document():
    vectors, groups = make_groups([30, 30])
    examples = vectors[groups == 0][:4]
    choices = choose_documents(vectors, np.ones(60), examples, 2)
    assert {int(groups[choice.row]) for choice in choices} == {1} and {choice.examples for choice in choices} == {0}


def test_one_example_counts_for_three_quarters_of_a_group():
    """Groups of 32 and of 10: with an example, the larger has a priority of 8."""
    vectors, groups = make_groups([32, 10])
    choices = choose_documents(vectors, np.ones(42), vectors[:1], 2)
    assert groups[[choice.row for choice in choices]].tolist() == [1, 0]
    assert [choice.examples for choice in choices] == [0, 1]


def test_uncertainty_is_1_minus_the_margin():
    probabilities = np.array([[0.7, 0.2, 0.1], [0.5, 0.5, 0.0]])
    np.testing.assert_allclose(margin_uncertainty(probabilities, multi_label=False), [0.5, 1])
    of_several = np.array([[0.99, 0.45, 0.01], [0.9, 0.8, 0.0]])
    np.testing.assert_allclose(margin_uncertainty(of_several, multi_label=True), [0.9, 0.4])


@given(documents=st.integers(1, 12), examples=st.integers(0, 8), seed=st.integers(0, 99), data=st.data())
def test_choices_are_reproducible_and_without_repetition(documents, examples, seed, data):
    rng = np.random.default_rng(seed)
    vectors, others = (rng.standard_normal((count, 3)).astype(np.float32) for count in (documents, examples))
    count = data.draw(st.integers(1, documents))
    uncertainty = np.round(rng.random(documents), 1)
    rows = [choice.row for choice in choose_documents(vectors, uncertainty, others, count)]
    assert len(set(rows)) == count
    assert rows == [choice.row for choice in choose_documents(vectors, uncertainty, others, count)]


@pytest.fixture(scope="module")
def fitted_of_module(make_fitted):
    return make_fitted(12, 40)


@pytest.fixture
def fitted(fitted_of_module):
    return copy.deepcopy(fitted_of_module)


def test_a_suggestion_has_the_present_answer_and_a_reason(fitted):
    (one,) = fitted.suggest(1)
    documents = fitted.datastore.documents
    assert documents.texts[documents.ids.index(one["id"])] == one["text"] and one["text_pair"] is None
    (answer,) = fitted(one["text"])
    assert one["label"] == answer["label"] and 0.5 <= one["score"] <= 1
    assert "similar documents without" in one["reason"] and "river" in one["reason"] and "engine" in one["reason"]


def test_batches_repeat_documents_on_request_only(fitted):
    batches = [[one["id"] for one in fitted.suggest(7)] for _ in range(4)]
    assert len(set(sum(batches, []))) == 28 == len(fitted.datastore.documents)
    with pytest.raises(ValueError, match="n is 1, and there are 0 documents .* beside 28 that were suggested before"):
        fitted.suggest(1)
    assert [one["id"] for one in fitted.suggest(7, again=True)] == batches[0]


def test_labeled_documents_are_not_suggested_and_fit_keeps_the_suggested_ones(fitted, monkeypatch):
    monkeypatch.setattr(suggestions, "MAX_CANDIDATES", 9)
    first = fitted.suggest(5)
    fitted.add_examples([one["text"] for one in first[:3]], ["river"] * 3)
    fitted.fit(show_progress=False)
    others = fitted.suggest(len(fitted.datastore.documents) - 2)
    assert not {one["id"] for one in first} & {one["id"] for one in others}
    again = {one["id"] for one in fitted.suggest(25, again=True)}
    assert {one["id"] for one in first[3:]} <= again and not {one["id"] for one in first[:3]} & again


def test_texts_may_have_several_labels(untrained, texts):
    several = [[name for name in ("river", "engine") if name in text] for text in texts[:20]]
    untrained.add_examples(texts[:20], several)
    untrained.add_documents(texts[20:40])
    untrained.fit(show_progress=False)
    same = [one["labels"] == untrained(one["text"])[0]["labels"] for one in untrained.suggest(20)]
    assert sum(same) >= 15  # a document votes in its own prediction, which may move those at a threshold


ERRORS = {
    "none": (lambda p: p.suggest(0), "n must be a whole number from 1, got 0"),
    "half a document": (lambda p: p.suggest(2.5), "n must be a whole number from 1, got 2.5"),
    "more than there are": (lambda p: p.suggest(29), "n is 29, and there are 28 documents without labels"),
    "nothing fitted": (lambda p: (setattr(p.datastore, "fitted", None), p.suggest(1)), "Suggestions need fitted"),
    "no documents": (
        lambda p: (p.datastore.remove_documents(p.datastore.documents.ids), p.suggest(1)),
        "There are no documents without",
    ),
    "no labels": (lambda p: (p.remove_examples(p.datastore.ids), p.suggest(1)), "No labeled examples yet"),
}  # fmt: skip


@pytest.mark.parametrize("case", ERRORS)
def test_invalid_requests_are_refused(case, fitted):
    act, message = ERRORS[case]
    with pytest.raises(ValueError, match=message):
        act(fitted)


def test_of_versions_only_one_is_suggested():
    vectors, groups = make_groups([6, 6])
    letters = [[f"w{word}" for word in np.random.default_rng(row % 3).integers(0, 900, 40)] for row in range(12)]
    texts = [f"{' '.join(words)} number{row}" for row, words in enumerate(letters)]  # three texts in four versions
    rows = [choice.row for choice in choose_documents(vectors, np.ones(12), vectors[:0], 3, texts)]
    assert len({row % 3 for row in rows}) == 3
    assert sorted(choice.row for choice in choose_documents(vectors, np.ones(12), vectors[:0], 12, texts)) == [
        *range(12)
    ]
    different = [f"text{row}" for row in range(12)]
    choices = [choose_documents(vectors, np.ones(12), vectors[:0], 4, given) for given in (None, different)]
    assert [choice.row for choice in choices[0]] == [choice.row for choice in choices[1]]
