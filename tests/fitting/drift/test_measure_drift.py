"""pipe.measure_drift(texts): compare new texts with those of the store."""

import copy
import json

import numpy as np
import pandas as pd
import pytest
from datasets import Dataset
from scipy.stats import t

from docsplit_hf import KNNDatastore
from docsplit_hf.encoding.classifier_embedder import ClassifierEmbedder
from docsplit_hf.fitting.drift import measure_drift as measuring
from docsplit_hf.fitting.drift.measure_drift import (
    DriftPeriod,
    closeness_to_others,
    known_words,
    measure_examples,
    measure_period,
)
from docsplit_hf.fitting.drift.report import INTERVAL_CONFIDENCE, Change, mean_change
from docsplit_hf.fitting.ensemble.guarantees import Guarantees
from docsplit_hf.fitting.ensemble.scoring import prepare_experts

from ...classifier.conftest import labels_of
from ..ensemble.stores import fitted_store

NEW = [f"Zebra number {n} sleeps under quantum lamps, and nobody measured photons." for n in range(12)]


@pytest.fixture(scope="module")
def fitted_of_module(make_fitted):
    return make_fitted(16, 32)


@pytest.fixture
def fitted(fitted_of_module):
    return copy.deepcopy(fitted_of_module)


def written(report, folder):
    report.to_json(folder / "report.json")
    return json.loads((folder / "report.json").read_text())


def test_drift_agrees_with_the_answers_of_the_pipeline(fitted, texts, monkeypatch):
    came = texts[32:]
    answers = fitted(came)
    level = float(np.median([answer["score"] for answer in answers]))
    monkeypatch.setattr(Guarantees, "level_thresholds", lambda self, error, most_lost=None: np.array([level]))
    report = fitted.measure_drift(came)
    labels = [answer["label"] for answer in answers]
    assert (report.texts, report.empty, report.earlier) == (16, 0, 16)
    assert set(report.labels) == {"river", "engine"}
    for name, change in report.labels.items():
        assert change.now == labels.count(name) / 16
    rejected = [answer["label"] is None for answer in fitted(came, reject=0.05)]
    assert report.rejected.now == np.mean(rejected) and 0 < report.rejected.now < 1
    held_out = fitted.datastore.fitted.arrays["held_out_probabilities"]
    assert report.rejected.then >= np.mean(held_out.max(1) < level) and report.level == level


def test_a_text_without_content_counts_as_rejected_however_sure_its_answer_is(fitted, texts, monkeypatch):
    monkeypatch.setattr(Guarantees, "level_thresholds", lambda self, error, most_lost=None: np.array([0.0]))
    assert fitted(["?!"], reject=0.05)[0]["reason"] == "no content"
    assert fitted.measure_drift([*texts[32:35], "?!"]).rejected.now == 1 / 4


def test_drift_is_reported_only_for_different_texts(fitted, texts):
    other = fitted.measure_drift(NEW)
    assert other.verdict.startswith("Significant change") and "with more unknown words" in other.verdict
    assert other.drift["unknown_words"].low > 0.5
    assert list(other.new_words)[:3] == ["and", "lamps", "measured"] and other.new_words["zebra"] == 12
    assert fitted.measure_drift(texts[32:], earlier=texts[:31:-1]).verdict.startswith("No significant change")


def as_dataset(texts):
    return Dataset.from_dict({"text": texts})


@pytest.mark.parametrize("window", [1024, 5])
def test_texts_may_have_any_form(window, fitted, texts, monkeypatch):
    monkeypatch.setattr(measuring, "TEXTS_PER_WINDOW", window)
    came = [*NEW[:6], "", *texts[36:]]
    earlier = texts[32:36]
    expected = fitted.measure_drift(came, earlier)
    for form in (iter, pd.Series, np.array, as_dataset):
        found = fitted.measure_drift(form(came), form(earlier), show_progress=True)
        assert found == expected and (found.texts, found.empty) == (18, 1)


def test_texts_are_embedded_once(fitted, texts, monkeypatch):
    seen = []

    def counted(embedder, given, pairs):
        seen.extend(given)
        return read(embedder, given, pairs)

    read = ClassifierEmbedder.embed
    monkeypatch.setattr(ClassifierEmbedder, "embed", counted)
    fitted.measure_drift(texts[32:], texts[20:24])
    assert sorted(seen) == sorted([*texts[32:], *texts[20:24]])


def test_multi_label_texts_are_not_rejected(untrained, texts):
    several = [[name for name in ("river", "engine") if name in text] for text in texts[:24]]
    pairs = [{"text": text[:30], "text_pair": text[30:]} for text in texts]
    untrained.add_examples(pairs[:24], several)
    untrained.fit(show_progress=False)
    report = untrained.measure_drift(pairs[24:])
    assert report.level is None and report.rejected is None and "No error rate can be guaranteed" in str(report)
    answers = untrained(pairs[24:], return_neighbors=1)
    for name, change in report.labels.items():
        assert change.now == np.mean([name in answer["labels"] for answer in answers])


def test_a_classifier_with_a_head_reads_the_documents_again(pipe, texts):
    names = labels_of(texts)
    pipe.remove_examples(pipe.datastore.ids[24:])
    pipe.add_documents(texts[24:30])
    pipe.fit(held_out_texts=texts[30:40], held_out_labels=names[30:40], show_progress=False)
    report = pipe.measure_drift(texts[40:])
    answers = [answer["label"] for answer in pipe(texts[40:])]
    assert (report.against, report.earlier) == ("documents without labels", 6)
    assert report.labels["river"].now == answers.count("river") / 8
    pipe.datastore.remove_documents(pipe.datastore.documents.ids)
    report = pipe.measure_drift(texts[40:])
    assert (report.against, report.earlier) == ("held-out examples", 10)
    assert report.drift["closeness"].then is None  # the held-out texts are not in the store


def test_an_error_rate_that_cannot_be_guaranteed_rejects_all_texts(fitted, texts, tmp_path):
    report = fitted.measure_drift(texts[32:], reject=0.001)
    assert report.rejected.now == report.rejected.then == 1
    assert "cannot guarantee 0.1 % error" in str(report) and written(report, tmp_path)["level"] is None


def test_too_few_texts_are_reported(fitted, untrained, texts):
    report = fitted.measure_drift(NEW[:1])
    assert all(change.low is None for change in report.drift.values())
    assert "intervals need at least two texts" in report.verdict and "1 text against 16 documents" in str(report)
    untrained.add_examples(texts[:2], ["river", "engine"])
    untrained.fit(show_progress=False)  # no example can be held out where each label has only one
    report = untrained.measure_drift(texts[32:])
    assert report.rejected is None and report.earlier == 0 and "No error rate can be guaranteed" in str(report)


ERRORS = {
    "no texts": ([], {}, ValueError, "There are no texts: give at least one"),
    "empty texts": (["", " "], {}, ValueError, "All 2 texts are empty"),
    "no earlier texts": (["a"], {"earlier": []}, ValueError, "There are no earlier texts"),
    "empty earlier texts": (["a"], {"earlier": [""]}, ValueError, "All 1 earlier texts are empty"),
    "one string": ("a", {}, TypeError, "Expected a list of texts, got 'a': pass"),
    "one pair": ({"text": "a", "text_pair": "b"}, {}, TypeError, "Expected a list of texts"),
    "a number": (["a", 3], {}, TypeError, "3"),
    "no error at all": (["a"], {"reject": 0}, ValueError, "reject must be.*between 0 and 1, got 0"),
    "an unknown option": (["a"], {"k": 3}, TypeError, "'k'"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_wrong_arguments_are_refused(case, fitted):
    texts, options, error, message = ERRORS[case]
    with pytest.raises(error, match=message):
        fitted.measure_drift(texts, **options)


def test_drift_needs_examples_and_fit(fitted):
    fitted.datastore.fitted = None
    with pytest.raises(ValueError, match=r"Call fit\(\) before measure_drift"):
        fitted.measure_drift(["a"])
    fitted.remove_examples(fitted.datastore.ids)
    with pytest.raises(ValueError, match="No labeled examples yet"):
        fitted.measure_drift(["a"])


def measured(store, keys, texts):
    return measure_period(prepare_experts(store.snapshot), known_words(store.snapshot), keys, texts, None)


def test_a_stored_text_is_no_neighbor_of_itself():
    store = fitted_store(12, 60)
    keys = store.documents.keys[:3].copy()
    texts = store.documents.texts[:3]
    before = measured(store, keys, texts)
    store.remove_documents(store.documents.ids[:3])
    for name, found, expected in zip(DriftPeriod._fields, before, measured(store, keys, texts), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-4, err_msg=name)


def test_closeness_of_an_example_is_to_other_examples():
    store = fitted_store(12, 60)
    found = closeness_to_others(prepare_experts(store.snapshot), store.keys)
    mean = store.fitted.arrays["mean"]
    vectors = (store.keys - mean) / np.linalg.norm(store.keys - mean, axis=1, keepdims=True)
    cosines = vectors @ vectors.T
    np.fill_diagonal(cosines, -1)
    np.testing.assert_allclose(found, np.sort(cosines, 1)[:, -5:].mean(1), atol=1e-6)


def test_held_out_examples_have_their_out_of_fold_probabilities():
    store = fitted_store(12, 60)
    ready = prepare_experts(store.snapshot)
    store.add(store.keys[:1] + 1, ["late"], texts=["late"])  # after fit
    later = prepare_experts(store.snapshot)
    for experts, labels in ((ready, 3), (later, 4)):
        found = measure_examples(experts, known_words(experts.snapshot))
        np.testing.assert_array_equal(found.probabilities[:, :3], ready.fitted.held_out.probabilities)
        assert found.probabilities.shape == (12, labels) and len(found.closeness) == len(found.unknown_words) == 12
        assert not len(found.novelty)


@pytest.fixture
def store():
    store = KNNDatastore([[1.0, 0], [0, 1]], [0, 1], ["a", "b"], ["red green red", "blue green"], ["gold", None])
    store.add_documents([[1.0, 1], [0, 2]], ["blue rare", None])
    return store


@pytest.mark.parametrize(
    "text, share, words",
    [
        ("Red gold", 0, set()),  # a word of a text_pair, and another case of a letter
        ("new red new rare", 1 / 2, {"new"}),
        ("blue rare", 1 / 2, {"rare"}),  # only this text itself has the word
        ("blue green", 0, set()),  # other texts have both words too
        ("red green red gold", 3 / 4, {"red", "gold"}),
        ("?", 0, set()),
    ],
)
def test_unknown_words_are_those_of_no_other_text(text, share, words, store):
    assert known_words(store.snapshot).unknown(text) == (share, words)


def test_the_interval_is_welchs():
    rng = np.random.default_rng(0)
    now = rng.normal(1, 1, 30)
    then = rng.normal(0, 3, 80)
    variance_now = now.var(ddof=1) / 30
    variance_then = then.var(ddof=1) / 80
    variance = variance_now + variance_then
    freedom = variance**2 / (variance_now**2 / 29 + variance_then**2 / 79)
    half = t.ppf((1 + INTERVAL_CONFIDENCE) / 2, freedom) * np.sqrt(variance)
    difference = now.mean() - then.mean()
    found = mean_change(now, then)
    assert (found.now, found.then) == pytest.approx((now.mean(), then.mean()))
    assert (found.low, found.high) == pytest.approx((difference - half, difference + half))


@pytest.mark.parametrize(
    "now, then, expected",
    [
        ([0.5], [0.25, 0.75], Change(0.5, 0.5)),
        ([0.5, 0.5], [0.25, 0.25], Change(0.5, 0.25)),  # without a spread, the next text cannot be predicted
        ([0.5, 1.0], [], Change(0.75, None)),
        ([], [], Change(None, None)),
    ],
)
def test_without_two_texts_or_a_spread_there_is_no_interval(now, then, expected):
    found = mean_change(np.array(now), np.array(then))
    assert found == expected and not found.is_certain
