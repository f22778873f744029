"""A teacher when a classifier is fitted: who is asked, what is kept, and how far the answers count."""

import copy
import json

import numpy as np
import pytest
from transformers import pipeline

from benchmarks.quality.teacher_server import serve_teacher
from docsplit_hf.fitting.ensemble.teacher_expert import agreement_above_chance, fit_soft_probe, probe_logits

WORDS = {"river": ["water", "valley", "bridge", "fish", "stream"], "engine": ["piston", "fuel", "gear", "oil", "valve"]}


def make_document(number):
    """A document of eight words of its label, with its number."""
    label = "river" if number % 2 else "engine"
    rng = np.random.default_rng(number)
    return " ".join([*rng.choice(WORDS[label], 8), f"document {number}"]), label


DOCUMENTS = dict(make_document(number) for number in range(80))


@pytest.fixture
def pipe(untrained):
    texts = list(DOCUMENTS)
    untrained.add_examples(texts[:8], [DOCUMENTS[text] for text in texts[:8]])
    untrained.add_documents(texts[8:60])
    return untrained


@pytest.fixture
def server():
    with serve_teacher(DOCUMENTS, accuracy=1.0) as server:
        yield server


@pytest.fixture(scope="module")
def taught_of_module(untrained_of_module):
    """A pipeline that was fitted with answers about 20 texts, and these texts."""
    taught = copy.deepcopy(untrained_of_module)
    texts = list(DOCUMENTS)
    taught.add_examples(texts[:8], [DOCUMENTS[text] for text in texts[:8]])
    taught.add_documents(texts[8:60])
    with serve_teacher(DOCUMENTS, accuracy=1.0) as server:
        taught.fit(show_progress=False, teacher=server.address, teacher_texts=20)
    return taught, list(server.texts)


@pytest.fixture
def taught(taught_of_module):
    return copy.deepcopy(taught_of_module)


def test_a_teacher_is_asked_once_and_is_one_more_expert(pipe, server, caplog, tmp_path):
    report = pipe.fit(show_progress=False, teacher=server.address, teacher_texts=20)
    assert len(server.texts) == len(set(server.texts)) == 20
    assert not set(server.texts) & set(list(DOCUMENTS)[:8])
    assert report.shares["teacher"] > 0.1
    assert "Sending 20 texts" in caplog.text and "to 127.0.0.1" in caplog.text
    before = pipe(list(DOCUMENTS)[60:], top_k=None)
    pipe.save_pretrained(tmp_path / "saved")
    loaded = pipeline("docsplit-knn", model=tmp_path / "saved")
    assert loaded(list(DOCUMENTS)[60:], top_k=None) == before
    again = loaded.fit(show_progress=False)
    assert len(server.texts) == 20 and again.shares == report.shares
    assert loaded(list(DOCUMENTS)[60:], top_k=None) == before
    loaded.fit(show_progress=False, teacher=server.address, teacher_texts=25)
    assert len(server.texts) == len(set(server.texts)) == 25
    assert "teacher" not in loaded.fit(show_progress=False, teacher=False).shares
    assert "teacher" not in loaded.fit(show_progress=False).shares and len(server.texts) == 25
    saved = b"".join(file.read_bytes() for file in (tmp_path / "saved").rglob("*") if file.is_file())
    assert b"127.0.0.1" not in saved  # the address of a server inside a company is not published


def test_a_teacher_at_chance_changes_no_answer(pipe):
    pipe.fit(show_progress=False)
    without = pipe(list(DOCUMENTS)[60:], top_k=None)
    with serve_teacher(DOCUMENTS, accuracy=0.5) as server:
        report = pipe.fit(show_progress=False, teacher=server.address, teacher_texts=50)
    assert "teacher" not in report.shares
    assert pipe(list(DOCUMENTS)[60:], top_k=None) == without
    saved = pipe.datastore.fitted.settings["teacher"]
    assert len(saved["documents"]) == 50  # kept: with more examples, they may be confirmed


def test_labels_and_a_teacher_without_any_example(untrained, server, caplog):
    untrained.add_labels({"river": "About water.", "engine": "About machines."})
    untrained.add_documents(list(DOCUMENTS)[:60])
    untrained.fit(show_progress=False, teacher=server.address, teacher_texts=40)
    assert len(server.texts) == 40


def test_answers_about_texts_with_a_label_are_not_used(taught):
    pipe, asked = taught
    pipe.add_examples(asked, [DOCUMENTS[text] for text in asked])
    assert "teacher" not in pipe.fit(show_progress=False).shares


def test_answers_for_other_labels_are_left_out(taught, caplog):
    pipe, _ = taught
    pipe.add_examples(["The lake is deep.", "A lake."], ["lake", "lake"])
    assert "teacher" not in pipe.fit(show_progress=False).shares
    assert "the labels are others now" in caplog.text


def test_a_refused_text_is_not_asked_about_again(pipe, server):
    server.refused = set(list(DOCUMENTS)[8:60])
    pipe.fit(show_progress=False, teacher=server.address, teacher_texts=20)
    assert "teacher" not in pipe.datastore.fitted.settings["weights"]
    pipe.fit(show_progress=False, teacher=server.address, teacher_texts=20)
    assert len(server.texts) == 20


@pytest.mark.parametrize(
    "options, error, problem",
    [
        ({"teacher": "http://localhost:1/v1"}, ValueError, "has no model"),
        ({"teacher": "localhost:1"}, ValueError, "must be an address with a model"),
        ({"teacher": True}, TypeError, "must be an address, False or None"),
        ({"teacher": "http://localhost:1/v1#m", "teacher_texts": 0}, ValueError, "teacher_texts must be"),
    ],
)
def test_mistakes(pipe, options, error, problem):
    with pytest.raises(error, match=problem):
        pipe.fit(show_progress=False, **options)


def test_a_teacher_needs_documents_and_one_label_per_text(untrained):
    texts = list(DOCUMENTS)
    several = copy.deepcopy(untrained)
    untrained.add_examples(texts[:8], [DOCUMENTS[text] for text in texts[:8]])
    with pytest.raises(ValueError, match="documents without labels, and there are none"):
        untrained.fit(teacher="http://localhost:1/v1#m")
    several.add_examples(texts[:8], [[DOCUMENTS[text]] for text in texts[:8]])
    with pytest.raises(ValueError, match="chooses one label for each text"):
        several.fit(teacher="http://localhost:1/v1#m")


CHANGES = [
    lambda saved: saved.update(documents=saved["documents"][:-1]),
    lambda saved: saved.update(documents=3),
    lambda saved: saved.update(agreement="much"),
    lambda saved: saved.pop("model"),
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

    from docsplit_hf.fitting.ensemble import teacher_expert

    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((60, 4))
    labels = rng.integers(3, size=60)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(teacher_expert, "SMOOTHING", 0.0)
        probe = fit_soft_probe(vectors, np.eye(3)[labels])
    model = LogisticRegression(C=teacher_expert.INVERSE_REGULARIZATION, tol=1e-8).fit(vectors, labels)
    logits = probe_logits(probe, vectors)
    np.testing.assert_allclose(logits - logits.mean(1, keepdims=True), model.decision_function(vectors), atol=0.01)
