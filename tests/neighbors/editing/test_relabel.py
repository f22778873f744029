import logging

import pytest

from docsplit_hf.models.inference.reader import Reader


@pytest.fixture
def filled(untrained, texts):
    untrained.add_examples(texts[:20], ["river", "engine"] * 10)
    return untrained


def test_the_next_call_sees_the_new_labels_and_nothing_is_embedded(filled, texts, monkeypatch):
    label = filled([texts[3]], k=1)[0]["label"]
    other = {"river": "engine", "engine": "river"}[label]
    keys = filled.datastore.keys
    with monkeypatch.context() as patch:
        patch.setattr(Reader, "read", None)
        filled.relabel({"3": other})
    assert filled.datastore.keys is keys and filled([texts[3]], k=1)[0]["label"] == other


def test_fitted_experts_stay_and_the_log_says_who_knows(filled, texts, caplog):
    filled.fit(show_progress=False)
    fitted = filled.datastore.fitted
    with caplog.at_level(logging.INFO):
        filled.relabel({"3": "river", "4": "engine"})
    assert filled.datastore.fitted is fitted and "learn of them by fit()" in caplog.text
    assert filled([texts[3]])[0]["score"] > 0


def test_several_labels(untrained, texts):
    untrained.add_examples(texts[:4], [["a", "b"], ["b"], ["a"], ["b"]])
    untrained.relabel({"1": ["a"], "2": ("a", "b"), "3": []})
    assert untrained.datastore.labels.tolist() == [[True, True], [True, False], [True, True], [False, False]]


REFUSED = {
    "no mapping": (["3"], TypeError, r"Expected \{id: label, ...\}"),
    "an unknown id": ({"3": "river", "300": "river"}, ValueError, "no row with the id '300'"),
    "an id that is a number": ({3: "river"}, TypeError, "The id 3 is no string"),
    "a new label": ({"3": "rivr"}, ValueError, "label 'rivr' of '3' is none of .*Did you mean 'river'"),
    "a label that is a number": ({"3": 0}, TypeError, "The label of '3' is 0: give the name of a label"),
    "several labels": ({"3": ["river"]}, TypeError, "give the name of a label"),
    "nothing": ({"3": None}, TypeError, "is None"),
}


@pytest.mark.parametrize(("labels", "error", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_wrong_is_named_and_nothing_is_changed(labels, error, message, filled):
    before = filled.datastore.snapshot
    with pytest.raises(error, match=message):
        filled.relabel(labels)
    assert filled.datastore.snapshot is before


@pytest.mark.parametrize("label", ["a", 0, [1]])
def test_one_label_where_there_may_be_several_is_refused(label, untrained, texts):
    untrained.add_examples(texts[:2], [["a"], ["b"]])
    with pytest.raises((TypeError, ValueError), match="'1' is"):
        untrained.relabel({"1": label})


def test_without_examples(untrained):
    with pytest.raises(ValueError, match="No labeled examples yet"):
        untrained.relabel({"1": "a"})
