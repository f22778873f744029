"""Adding, describing, relabeling and removing examples and documents."""

import logging

import numpy as np
import pytest

from docsplit_hf.encoding.classifier_embedder import ClassifierEmbedder


def names_of(texts):
    return ["river" if "river" in text else "other" for text in texts]


def test_examples_turn_an_encoder_into_a_classifier(untrained, texts):
    names = names_of(texts)
    ids = untrained.add_examples(texts[:40], names[:40])
    assert ids == [str(i) for i in range(40)]
    assert untrained.model.config.knn_calibration["examples"] == 40
    answers = untrained(texts[:40], k=1)
    assert [answer["label"] for answer in answers] == names[:40]
    untrained.remove_examples(ids[:20])
    left = untrained({"text": texts[0]}, return_neighbors=64, k=64)["neighbors"]
    assert len(left) == 20 and not {neighbor["id"] for neighbor in left} & set(ids[:20])
    untrained.add_examples([texts[0]], ["brand new"], ids=["mine"])
    assert untrained({"text": texts[0]}, k=1)["label"] == "brand new"


def test_a_text_may_have_several_labels(untrained, texts):
    untrained.add_examples(texts[:10], [["a", "b"], ["b"]] * 5)
    (answer,) = untrained([texts[1]], k=1, top_k=None, return_neighbors=1)
    scores = {entry["label"]: entry["score"] for entry in answer}
    assert scores == {"b": pytest.approx(11 / 12), "a": pytest.approx(1 / 12)}
    assert answer[0]["neighbors"][0]["labels"] == ["b"]
    untrained.add_labels({"a": "The river.", "b": "The engine."})
    assert untrained.datastore.labels[-2:].tolist() == [[True, False], [False, True]]


def test_new_labels_after_training_are_predicted_by_neighbors(pipe, texts):
    pipe.add_examples(["a glacier in winter"], ["ice"], allow_new_labels=True)
    answer = pipe({"text": "a glacier in winter"}, k=1, top_k=None)
    assert {entry["label"]: entry["score"] for entry in answer}["ice"] == pytest.approx(0.4 * 50 / 52)
    assert sum(entry["score"] for entry in answer) == pytest.approx(1)


def calibrated(pipe):
    return pipe.model.config.k, pipe.model.config.knn_temperature, pipe(["the river", "a glacier"], top_k=None)


def test_adding_the_same_examples_again_changes_nothing(untrained, texts, caplog):
    """As running a cell of a notebook again does."""
    ids = untrained.add_examples(texts[:40], names_of(texts[:40]))
    before = calibrated(untrained)
    assert untrained.add_examples(texts[:40], names_of(texts[:40])) == ids
    assert len(untrained.datastore) == 40 and calibrated(untrained) == before
    assert "40 of 40 examples are in the datastore already" in caplog.text
    more = untrained.add_examples([texts[40], texts[3], texts[40]], names_of([texts[40], texts[3], texts[40]]))
    assert more == ["40", "3", "40"] and len(untrained.datastore) == 41
    assert "2 of 3 examples are in the datastore already" in caplog.text


def test_allowed_duplicates_leave_the_calibration(untrained, texts):
    untrained.add_examples(texts[:40], names_of(texts[:40]))
    k, temperature, once = calibrated(untrained)
    ids = untrained.add_examples(texts[:40], names_of(texts[:40]), allow_duplicates=True)
    assert ids == [str(i) for i in range(40, 80)]
    twice_k, same_temperature, twice = calibrated(untrained)
    assert k > 1 and twice_k == 2 * k and same_temperature == pytest.approx(temperature, rel=1e-3)
    for answer, other in zip(once, twice, strict=True):  # 40 examples are less sure than 80
        assert [a["score"] for a in answer] == pytest.approx([a["score"] for a in other], abs=0.0125)


def test_equal_examples_are_recognized(untrained, texts):
    """The text, its pair and its labels; not its id, which is given back as it was."""
    pair = {"text": texts[0], "text_pair": texts[1]}
    first = untrained.add_examples([texts[0], pair, texts[1]], [["a", "b"], ["a"], ["b"]], ids=["x", "y", "z"])
    assert first == ["x", "y", "z"]
    again = untrained.add_examples(
        [pair, texts[0], texts[0], texts[1], pair], [["a"], ["b", "a"], ["a"], ["b"], []], ids=list("12345")
    )
    assert again == ["y", "x", "3", "z", "5"] and untrained.datastore.ids == ["x", "y", "z", "3", "5"]


def test_a_text_with_two_labels_is_kept_but_not_used_to_calibrate(untrained, texts):
    assert untrained.add_examples([texts[0]] * 2, ["a", "b"]) == ["0", "1"]
    assert untrained.model.config.knn_calibration is None
    with pytest.raises(ValueError, match="all the same text"):
        untrained.calibrate()


LABELS = {"water": "The river feeds the valley and the glacier.", "machine": "The engine moves the table."}


def test_descriptions_give_answers_before_any_text_is_labeled(untrained, texts):
    assert untrained.add_labels(LABELS) == ["label:water", "label:machine"]
    water, machine, other = untrained([LABELS["water"], LABELS["machine"], texts[0]], top_k=None)
    assert water[0]["label"] == "water" and machine[0]["label"] == "machine"
    for answer in (water, machine, other):
        assert sum(entry["score"] for entry in answer) == pytest.approx(1)


def test_a_new_description_replaces_the_old_one_and_examples_may_follow(untrained, texts):
    untrained.add_labels(LABELS)
    untrained.add_labels({"water": "Rain on the lake."})
    store = untrained.datastore
    assert dict(zip(store.ids, store.texts, strict=True)) == {
        "label:water": "Rain on the lake.",
        "label:machine": LABELS["machine"],
    }
    untrained.add_examples(texts[:5], ["water", "machine", "fire", "fire", "machine"])
    assert store.label_names == ("water", "machine", "fire")
    assert untrained.fit(show_progress=False).examples == 7


def test_a_trained_classifier_refuses_other_labels(pipe):
    with pytest.raises(ValueError, match="'water' is none of river, engine"):
        pipe.add_labels(LABELS)
    with pytest.raises(ValueError, match="'rivers' is none of river, engine. Did you mean 'river'.*allow_new_labels"):
        pipe.add_examples(["a text"], ["rivers"])
    pipe.add_labels({"river": "Water that flows.", "engine": "A machine."})
    assert len(pipe.datastore) == 50


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ({}, "There are no labels: give {label: description"),
        ({"water": ""}, "'water' is described as '': give a name, and a few words"),
        ({"": "wet"}, "'' is described as 'wet'"),
        ({"water": None}, "'water' is described as None"),
        ({3: "three"}, "3 is described as 'three'"),
    ],
)
def test_invalid_descriptions_are_refused(labels, message, untrained):
    with pytest.raises(ValueError, match=message):
        untrained.add_labels(labels)
    assert untrained.datastore is None


def label(text):
    return "river" if len(text) % 2 else "engine"


@pytest.fixture
def with_documents(untrained, texts):
    untrained.add_examples(texts[:12], [label(text) for text in texts[:12]])
    untrained.add_documents(texts[12:30])
    return untrained


def test_documents_are_returned_on_request_only(with_documents, texts):
    before = with_documents(texts[30:34], return_neighbors=3, top_k=None)
    answers = with_documents(texts[30:34], return_neighbors=3, return_documents=2, top_k=None)
    for row, answer in enumerate(answers):
        documents = answer[0].pop("documents")
        assert [set(document) for document in documents] == [{"text", "id", "distance"}] * 2
        assert documents[0]["distance"] <= documents[1]["distance"]
        assert answer == before[row]
    own = with_documents({"text": texts[20]}, return_documents=1)["documents"][0]
    assert (own["text"], own["id"]) == (texts[20], "d8") and own["distance"] < 1e-9
    assert len(with_documents([texts[0]], return_documents=99)[0]["documents"]) == 18


def test_existing_and_empty_documents_are_not_added(with_documents, texts, caplog):
    pair = {"text": texts[12], "text_pair": "more"}  # is another text than its first half
    given = [texts[0], texts[12], "", " \n", "a new one", "a new one", pair]
    assert with_documents.add_documents(given) == [None, None, None, None, "d18", None, "d19"]
    assert "5 of 7 documents are not added: 2 are empty, 3 are in the datastore already" in caplog.text
    assert with_documents(pair, return_documents=1)["documents"][0]["text_pair"] == "more"
    assert with_documents.add_documents(given) == [None] * 7 and len(with_documents.datastore.documents) == 20
    assert with_documents.add_documents([]) == []


def test_a_labeled_document_becomes_an_example_with_its_embedding(with_documents, texts):
    keys = with_documents.datastore.documents.keys.copy()
    with_documents.add_examples([texts[40], texts[13], texts[12]], ["river", "river", "engine"])
    store = with_documents.datastore
    assert len(store) == 15 and len(store.documents) == 16 and not {"d0", "d1"} & set(store.documents.ids)
    assert np.array_equal(store.keys[13], keys[1]) and np.array_equal(store.keys[14], keys[0])


@pytest.mark.parametrize("labels", [["a", "b"] * 4, [["a", "b"], ["b"], [], ["a"]] * 2], ids=["one", "several"])
def test_documents_may_be_added_before_examples(labels, untrained, texts):
    assert untrained.add_documents(texts[:20], ids=[f"mine {i}" for i in range(20)])[3] == "mine 3"
    with pytest.raises(ValueError, match="No labeled examples yet"):
        untrained.fit()
    untrained.add_examples(texts[16:24], labels)
    store = untrained.datastore
    assert store.multi_label == isinstance(labels[0], list) and len(store.documents) == 16
    assert store.documents.ids == [f"mine {i}" for i in range(16)] and store.documents.texts == texts[:16]
    untrained.fit(show_progress=False)
    assert len(untrained(texts[24:26])) == 2


def test_a_failed_addition_of_documents_leaves_no_trace(untrained, texts):
    for given, error, message in (
        ([texts[0], None], TypeError, "Text 1 is None"),
        (["fine", "half \ud800"], ValueError, "row 1 has half a character"),
        ("one string", TypeError, "one text: \\[text\\]"),
    ):
        with pytest.raises(error, match=message):
            untrained.add_documents(given)
    with pytest.raises(ValueError, match="2 texts and 1 ids"):
        untrained.add_documents(["a", "b"], ids=["x"])
    with pytest.raises(ValueError, match="The id 'x' is given twice"):
        untrained.add_documents(["a", "b"], ids=["x", "x"])
    with pytest.raises(TypeError, match="not a name"):
        untrained.add_examples([texts[0]], [None])
    with pytest.raises(ValueError, match="No labeled examples yet"):
        untrained.relabel({"1": "a"})
    assert untrained.datastore is None and untrained.add_examples([texts[0]], ["river"]) == ["0"]


@pytest.fixture
def filled(untrained, texts):
    untrained.add_examples(texts[:20], ["river", "engine"] * 10)
    return untrained


def test_relabeling_changes_the_next_answers_and_embeds_nothing(filled, texts, monkeypatch, caplog):
    label = filled([texts[3]], k=1)[0]["label"]
    other = {"river": "engine", "engine": "river"}[label]
    filled.fit(show_progress=False)
    keys = filled.datastore.keys
    fitted = filled.datastore.fitted
    with monkeypatch.context() as patch, caplog.at_level(logging.INFO):
        patch.setattr(ClassifierEmbedder, "embed", None)
        filled.relabel({"3": other})
    assert filled.datastore.keys is keys and filled([texts[3]], method="knn", k=1)[0]["label"] == other
    assert filled.datastore.fitted is fitted and "call fit() again for the other experts" in caplog.text


def test_examples_are_relabeled_with_several_labels(untrained, texts):
    untrained.add_examples(texts[:4], [["a", "b"], ["b"], ["a"], ["b"]])
    untrained.relabel({"1": ["a"], "2": ("a", "b"), "3": []})
    assert untrained.datastore.labels.tolist() == [[True, True], [True, False], [True, True], [False, False]]
    for label in ("a", 0, [1]):
        with pytest.raises((TypeError, ValueError), match="'1' is"):
            untrained.relabel({"1": label})


REFUSED = {
    "no mapping": (["3"], TypeError, r"Expected \{id: label, ...\}"),
    "an unknown id": ({"3": "river", "300": "river"}, ValueError, "no row with the id '300'"),
    "an id that is a number": ({3: "river"}, TypeError, "The id 3 is not a string"),
    "a new label": ({"3": "rivr"}, ValueError, "label 'rivr' of '3' is none of .*Did you mean 'river'"),
    "a label that is a number": ({"3": 0}, ValueError, "The label '0' of '3' is none of"),
    "several labels": ({"3": ["river"]}, TypeError, "give the name of a label"),
    "nothing": ({"3": None}, TypeError, "is None"),
}


@pytest.mark.parametrize(("labels", "error", "message"), REFUSED.values(), ids=REFUSED)
def test_invalid_new_labels_are_refused_and_nothing_changes(labels, error, message, filled):
    before = filled.datastore.snapshot
    with pytest.raises(error, match=message):
        filled.relabel(labels)
    assert filled.datastore.snapshot is before


@pytest.mark.parametrize("label", ["", " ", "\n"])
def test_a_label_without_a_name_is_refused(label, untrained):
    with pytest.raises(ValueError, match="label of text 1 is .*, not a name"):
        untrained.add_examples(["one text", "another"], ["a", label])


def test_labels_that_differ_only_in_spelling_are_logged_once(untrained, caplog):
    untrained.add_examples(["one text", "another"], ["Sport", "news"])
    assert "differ only" not in caplog.text
    untrained.add_examples(["a third"], ["sport "])
    assert "Labels differ only by case, Unicode form or white space around them: 'sport ' and 'Sport'" in caplog.text
    caplog.clear()
    untrained.add_examples(["a fourth"], ["sport "])
    assert "differ only" not in caplog.text
