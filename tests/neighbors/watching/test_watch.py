import json

import numpy as np
import pandas as pd
import pytest
from datasets import Dataset

from docsplit_hf.models.inference.batched_inference import predict
from docsplit_hf.neighbors.experts.fitted_experts import FittedExperts
from docsplit_hf.neighbors.watching import watch as watching

from ..conftest import labels_of

NEW = [f"Zebra number {n} sleeps under quantum lamps, and nobody measured photons." for n in range(12)]


@pytest.fixture
def filled(untrained, texts):
    untrained.add_examples(texts[:16], labels_of(texts[:16]))
    untrained.add_documents(texts[16:32])
    return untrained


@pytest.fixture
def fitted(filled):
    filled.fit(show_progress=False)
    return filled


def written(report, folder):
    report.to_json(folder / "report.json")
    return json.loads((folder / "report.json").read_text())


def test_what_is_in_it_is_what_the_pipeline_answers(fitted, texts, monkeypatch):
    came = texts[32:]
    answers = fitted(came)
    level = float(np.median([answer["score"] for answer in answers]))
    monkeypatch.setattr(FittedExperts, "answer_level", lambda self, error: level)
    report = fitted.report(came)
    labels = [answer["label"] for answer in answers]
    assert (report.texts, report.empty, report.earlier) == (16, 0, 16)
    assert {name: change.now for name, change in report.labels.items()} == {
        name: labels.count(name) / 16 for name in ("river", "engine")
    }
    rejected = [answer["label"] is None for answer in fitted(came, reject=0.05)]
    assert report.rejected.now == np.mean(rejected) and 0 < report.rejected.now < 1
    held_out = fitted.datastore.fitted.arrays["held_out_probabilities"]
    assert report.rejected.then >= np.mean(held_out.max(1) < level) and report.level == level
    best = report.most_novel[0]
    (answer,) = fitted([best["text"]], return_neighbors=1)
    assert (best["label"], best["score"]) == (answer["label"], pytest.approx(answer["score"], abs=1e-4))
    assert best["nearest"]["id"] == answer["neighbors"][0]["id"] and came[best["row"]] == best["text"]
    novelties = [entry["novelty"] for entry in report.most_novel]
    assert len(novelties) == 5 and novelties == sorted(novelties, reverse=True)


def test_other_texts_are_noticed_and_the_same_are_not(fitted, texts):
    other = fitted.report(NEW)
    assert other.verdict.startswith("Something changed") and "with more unknown words" in other.verdict
    assert other.drift["unknown_words"].low > 0.5
    assert list(other.new_words)[:3] == ["and", "lamps", "measured"] and other.new_words["zebra"] == 12
    assert fitted.report(texts[32:], earlier=texts[:31:-1]).verdict.startswith("Nothing changed")


@pytest.mark.parametrize("window", [1024, 5])
def test_texts_come_in_any_form(window, fitted, texts, monkeypatch):
    monkeypatch.setattr(watching, "WINDOW", window)
    came, earlier = [*NEW[:6], "", *texts[36:]], texts[32:36]
    expected = fitted.report(came, earlier)
    forms = (lambda t: (text for text in t), pd.Series, np.array, lambda t: Dataset.from_dict({"text": t}))
    for form in forms:
        found = fitted.report(form(came), form(earlier), show_progress=True)
        assert found == expected and (found.texts, found.empty) == (18, 1)
    assert {entry["row"] for entry in expected.most_novel} <= {*range(6), *range(7, 19)}


def test_texts_are_embedded_once(fitted, texts, monkeypatch):
    seen = []

    def counted(model, tokenizer, given, *args, **options):
        seen.extend(given)
        return predict(model, tokenizer, given, *args, **options)

    monkeypatch.setattr(watching, "predict", counted)
    fitted.report(texts[32:], texts[20:24])
    assert sorted(seen) == sorted([*texts[32:], *texts[20:24]])


def test_one_text_has_no_interval(fitted):
    report = fitted.report(NEW[:1])
    assert all(change.low is None for change in report.drift.values())
    assert "an interval takes two texts" in report.verdict and "1 text against 16 documents" in str(report)


def test_without_documents_held_out_examples_are_then(fitted, texts):
    fitted.remove_documents(fitted.datastore.documents.ids)
    report = fitted.report(texts[32:])
    assert (report.against, report.earlier) == ("held-out examples", 16)
    assert report.drift["novelty"].then is None and report.drift["closeness"].low is not None


def test_several_labels_have_no_rejection(untrained, texts, tmp_path):
    several = [[name for name in ("river", "engine") if name in text] for text in texts[:24]]
    pairs = [{"text": text[:30], "text_pair": text[30:]} for text in texts]
    untrained.add_examples(pairs[:24], several)
    untrained.fit(show_progress=False)
    report = untrained.report(pairs[24:])
    assert report.level is None and report.rejected is None and "No error can be promised" in str(report)
    answers = untrained(pairs[24:], return_neighbors=1)
    for name, change in report.labels.items():
        assert change.now == np.mean([name in answer["labels"] for answer in answers])
    assert all("labels" in entry and entry["text_pair"] for entry in written(report, tmp_path)["most_novel"])


def test_a_classifier_with_a_head_sees_the_documents_again(pipe, texts):
    names = labels_of(texts)
    pipe.remove_examples(pipe.datastore.ids[24:])
    pipe.add_documents(texts[24:30])
    pipe.fit(texts[30:40], names[30:40], show_progress=False)
    report = pipe.report(texts[40:])
    answers = [answer["label"] for answer in pipe(texts[40:])]
    assert (report.against, report.earlier) == ("documents without labels", 6)
    assert report.labels["river"].now == answers.count("river") / 8
    pipe.remove_documents(pipe.datastore.documents.ids)
    report = pipe.report(texts[40:])
    assert (report.against, report.earlier) == ("held-out examples", 10)
    assert report.drift["closeness"].then is None  # they were texts that the store does not have


def test_with_one_example_of_each_label_nothing_can_be_promised(untrained, texts):
    untrained.add_examples(texts[:2], ["one", "two"])
    untrained.fit(show_progress=False)
    report = untrained.report(texts[32:])
    assert report.rejected is None and report.earlier == 0 and "No error can be promised" in str(report)


def test_a_level_that_few_examples_cannot_promise_rejects_all(fitted, texts, tmp_path):
    report = fitted.report(texts[32:], reject=0.001)
    assert report.rejected.now == report.rejected.then == 1
    assert "cannot promise 0.1 % error" in str(report) and written(report, tmp_path)["level"] is None


ERRORS = {
    "no texts": ([], {}, ValueError, "There are no texts: nothing came in"),
    "empty texts": (["", " "], {}, ValueError, "All 2 texts are empty"),
    "no earlier texts": (["a"], {"earlier": []}, ValueError, "There are no earlier texts"),
    "empty earlier texts": (["a"], {"earlier": [""]}, ValueError, "All 1 earlier texts are empty"),
    "one string": ("a", {}, TypeError, "Expected a list of texts, got 'a': pass"),
    "one pair": ({"text": "a", "text_pair": "b"}, {}, TypeError, "Expected a list of texts"),
    "a number": (["a", 3], {}, TypeError, "3"),
    "no error at all": (["a"], {"reject": 0}, ValueError, "reject must be.*between 0 and 1, got 0"),
    "any error": (["a"], {"reject": 1.0}, ValueError, "got 1.0"),
    "a percentage": (["a"], {"reject": 5}, ValueError, "got 5"),
    "no number": (["a"], {"reject": float("nan")}, ValueError, "got nan"),
    "a number as text": (["a"], {"reject": "0.05"}, ValueError, "got '0.05'"),
    "an unknown option": (["a"], {"k": 3}, TypeError, "'k'"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_what_cannot_be_is_refused(case, fitted):
    texts, options, error, message = ERRORS[case]
    with pytest.raises(error, match=message):
        fitted.report(texts, **options)


def test_before_fit_and_without_examples_there_is_nothing_to_compare_with(filled):
    with pytest.raises(ValueError, match="Nothing was fitted.*call fit"):
        filled.report(["a"])
    filled.remove_examples(filled.datastore.ids)
    with pytest.raises(ValueError, match="There are no examples"):
        filled.report(["a"])
