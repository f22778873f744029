"""Answers of a teacher when a classifier is fitted: what is kept, and how far they count."""

import copy
import json

import numpy as np
import pytest
from transformers import pipeline

from benchmarks.quality.teacher import choose
from docsplit_hf.fitting.experts.teacher_expert import agreement_above_chance, fit_soft_probe, probe_logits

WORDS = {"river": ["water", "valley", "bridge", "fish", "stream"], "engine": ["piston", "fuel", "gear", "oil", "valve"]}


def make_document(number):
    """A document of eight words of its label, with its number."""
    label = "river" if number % 2 else "engine"
    rng = np.random.default_rng(number)
    return " ".join([*rng.choice(WORDS[label], 8), f"document {number}"]), label


DOCUMENTS = dict(make_document(number) for number in range(80))


@pytest.fixture(scope="module")
def fitted_of_module(untrained_of_module):
    pipe = copy.deepcopy(untrained_of_module)
    texts = list(DOCUMENTS)
    pipe.add_examples(texts[:8], [DOCUMENTS[text] for text in texts[:8]])
    pipe.add_documents(texts[8:60])
    pipe.fit(show_progress=False)
    return pipe


@pytest.fixture(scope="module")
def taught_of_module(fitted_of_module):
    """A pipeline that was fitted with the answers of a teacher, and the report."""
    pipe = copy.deepcopy(fitted_of_module)
    return pipe, pipe.fit(show_progress=False, teacher=answers_about(pipe, 20))


@pytest.fixture
def pipe(fitted_of_module):
    return copy.deepcopy(fitted_of_module)


@pytest.fixture
def taught(taught_of_module):
    return copy.deepcopy(taught_of_module)


def answers_about(pipe, count, accuracy=1.0):
    """What a teacher says of documents that are suggested."""
    found = pipe.suggest(count, again=True)
    return {one["id"]: choose(one["text"], DOCUMENTS, ["engine", "river"], accuracy) for one in found}


def test_a_teacher_is_one_more_expert_and_its_answers_are_kept(taught, tmp_path):
    pipe, report = taught
    assert report.shares["teacher"] > 0.1
    before = pipe(list(DOCUMENTS)[60:], top_k=None)
    pipe.save_pretrained(tmp_path / "saved")
    loaded = pipeline("docsplit-knn", model=tmp_path / "saved")
    assert loaded(list(DOCUMENTS)[60:], top_k=None) == before
    again = loaded.fit(show_progress=False)
    assert again.shares == report.shares
    assert loaded(list(DOCUMENTS)[60:], top_k=None) == before
    loaded.fit(show_progress=False, teacher=answers_about(loaded, 25))
    assert len(loaded.datastore.fitted.settings["teacher"]["documents"]) >= 25
    assert "teacher" not in loaded.fit(show_progress=False, teacher=False).shares
    assert "teacher" not in loaded.fit(show_progress=False).shares


def test_answers_that_an_earlier_version_saved_are_used(taught):
    pipe, report = taught
    state = pipe.datastore.fitted
    teacher = state.settings["teacher"] | {"model": "m", "fingerprint": "0"}
    pipe.datastore.fitted = type(state)(state.settings | {"teacher": teacher}, state.arrays, state.vocabulary)
    assert pipe.fit(show_progress=False).shares == report.shares


def test_labels_alone_are_certain_answers(pipe):
    names = {one["id"]: DOCUMENTS[one["text"]] for one in pipe.suggest(20)}
    pipe.fit(show_progress=False, teacher=names)
    assert set(pipe.datastore.fitted.arrays["teacher.answers"].ravel().tolist()) == {0.0, 1.0}


def test_a_teacher_at_chance_changes_no_answer(pipe):
    without = pipe(list(DOCUMENTS)[60:], top_k=None)
    report = pipe.fit(show_progress=False, teacher=answers_about(pipe, 50, accuracy=0.5))
    assert "teacher" not in report.shares
    assert pipe(list(DOCUMENTS)[60:], top_k=None) == without
    saved = pipe.datastore.fitted.settings["teacher"]
    assert len(saved["documents"]) == 50  # kept: with more examples, they may be confirmed


def test_labels_and_a_teacher_without_any_example(untrained):
    untrained.add_labels({"river": "About water.", "engine": "About machines."})
    untrained.add_documents(list(DOCUMENTS)[:60])
    untrained.fit(show_progress=False)
    untrained.fit(show_progress=False, teacher=answers_about(untrained, 40))
    assert len(untrained.datastore.fitted.settings["teacher"]["documents"]) == 40


def test_answers_about_texts_with_a_label_are_not_used(pipe, taught):
    texts = [one["text"] for one in pipe.suggest(20, again=True)]
    pipe, _ = taught
    pipe.add_examples(texts, [DOCUMENTS[text] for text in texts])
    assert "teacher" not in pipe.fit(show_progress=False).shares


def test_answers_for_other_labels_are_left_out(taught, caplog):
    pipe, _ = taught
    pipe.add_examples(["The lake is deep.", "A lake."], ["lake", "lake"])
    assert "teacher" not in pipe.fit(show_progress=False).shares
    assert "the labels are others now" in caplog.text


@pytest.mark.parametrize(
    "teacher, error, problem",
    [
        ("http://localhost:1/v1#m", TypeError, "must be {id of a document: label"),
        ({"0": "river"}, ValueError, "No document has the id '0'"),
        ({"d0": "lake"}, ValueError, "The answer about 'd0' is 'lake': give one of engine, river"),
        ({"d0": {"river": -1.0, "engine": 2.0}}, ValueError, "or the probabilities"),
        ({"d0": {"river": float("nan")}}, ValueError, "or the probabilities"),
    ],
)
def test_mistakes(pipe, teacher, error, problem):
    with pytest.raises(error, match=problem):
        pipe.fit(show_progress=False, teacher=teacher)


def test_a_teacher_needs_documents_and_one_label_per_text(untrained):
    texts = list(DOCUMENTS)
    several = copy.deepcopy(untrained)
    untrained.add_examples(texts[:8], [DOCUMENTS[text] for text in texts[:8]])
    with pytest.raises(ValueError, match="documents with texts, and there are none"):
        untrained.fit(teacher={"d0": "river"})
    several.add_examples(texts[:8], [[DOCUMENTS[text]] for text in texts[:8]])
    with pytest.raises(ValueError, match="chooses one label for each text"):
        several.fit(teacher={"d0": "river"})


CHANGES = [
    lambda saved: saved.update(documents=saved["documents"][:-1]),
    lambda saved: saved.update(documents=3),
    lambda saved: saved.update(agreement="much"),
    lambda saved: saved.update(model="m"),
]


def test_a_changed_setting_is_refused(taught):
    pipe, _ = taught
    state = pipe.datastore.fitted
    for change in CHANGES:
        settings = json.loads(json.dumps(state.settings))
        change(settings["teacher"])
        pipe.datastore.fitted = type(state)(settings, state.arrays, state.vocabulary)
        with pytest.raises(ValueError, match="does not fit it"):
            pipe(list(DOCUMENTS)[60])


def test_agreement_is_in_standard_errors_of_all_permutations():
    rng = np.random.default_rng(0)
    one = rng.dirichlet(np.ones(3), 40)
    other = 0.5 * one + 0.5 * rng.dirichlet(np.ones(3), 40)
    sums = [np.einsum("tc,tc", one, other[rng.permutation(40)]) for _ in range(20_000)]
    expected = (np.einsum("tc,tc", one, other) - np.mean(sums)) / np.std(sums)
    assert agreement_above_chance(one, other) == pytest.approx(expected, rel=0.03)
    assert agreement_above_chance(one, np.full((40, 3), 1 / 3)) == 0.0
    assert agreement_above_chance(one[:1], other[:1]) == 0.0


def test_the_probe_is_scikit_learns_where_answers_are_certain():
    from sklearn.linear_model import LogisticRegression

    from docsplit_hf.fitting.experts import teacher_expert

    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((60, 4))
    labels = rng.integers(3, size=60)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(teacher_expert, "SMOOTHING", 0.0)
        probe = fit_soft_probe(vectors, np.eye(3)[labels])
    model = LogisticRegression(C=teacher_expert.INVERSE_REGULARIZATION, tol=1e-8).fit(vectors, labels)
    logits = probe_logits(probe, vectors)
    np.testing.assert_allclose(logits - logits.mean(1, keepdims=True), model.decision_function(vectors), atol=0.01)
