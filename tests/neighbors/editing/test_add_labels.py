import pytest

LABELS = {"water": "The river feeds the valley and the glacier.", "machine": "The engine moves the table."}


def test_there_are_answers_before_any_text_is_labeled(untrained, texts):
    assert untrained.add_labels(LABELS) == ["label:water", "label:machine"]
    found = untrained([LABELS["water"], LABELS["machine"], texts[0]], top_k=None)
    assert [answer[0]["label"] for answer in found[:2]] == ["water", "machine"]
    assert all(sum(entry["score"] for entry in answer) == pytest.approx(1) for answer in found)


def test_with_documents_they_can_be_fitted(untrained, texts):
    untrained.add_documents(texts)
    untrained.add_labels(LABELS)
    report = untrained.fit(show_progress=False)
    assert (report.examples, report.documents, report.measured) == (2, 48, [])
    (answer,) = untrained([LABELS["water"]], explain=True)
    assert answer["label"] == "water" and answer["explanation"]["against"] == "machine"


def test_a_new_description_replaces_the_one_before(untrained):
    untrained.add_labels(LABELS)
    untrained.add_labels({"water": "Rain on the lake."})
    store = untrained.datastore
    assert dict(zip(store.ids, store.texts, strict=True)) == {
        "label:water": "Rain on the lake.",
        "label:machine": LABELS["machine"],
    }
    untrained.add_labels({"fire": "Smoke and flames."})
    assert store.label_names == ("water", "machine", "fire")


def test_examples_of_these_and_other_labels_may_follow(untrained, texts):
    untrained.add_labels(LABELS)
    untrained.add_examples(texts[:5], ["water", "machine", "fire", "fire", "machine"])
    assert untrained.datastore.label_names == ("water", "machine", "fire")
    assert untrained.fit(show_progress=False).examples == 7


def test_where_a_text_may_have_several_labels(untrained, texts):
    untrained.add_examples(texts[:4], [["water", "machine"], ["water"], [], ["machine"]])
    untrained.add_labels(LABELS)
    assert untrained.datastore.labels[-2:].tolist() == [[True, False], [False, True]]


def test_a_trained_classifier_takes_only_its_own_labels(pipe):
    with pytest.raises(ValueError, match="'water' is none of river, engine"):
        pipe.add_labels(LABELS)
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
def test_what_is_no_description_is_refused(labels, message, untrained):
    with pytest.raises(ValueError, match=message):
        untrained.add_labels(labels)
    assert untrained.datastore is None


def test_what_cannot_be_embedded_leaves_the_descriptions_that_were_there(untrained):
    untrained.add_labels(LABELS)
    before = untrained.datastore.snapshot
    broken = untrained.model.encoder.embeddings.word_embeddings.weight
    kept = broken.data.clone()
    broken.data.fill_(float("nan"))
    with pytest.raises(ValueError, match="NaN"):
        untrained.add_labels({"water": "Rain on the lake.", "machine": "Steel."})
    broken.data.copy_(kept)
    assert untrained.datastore.snapshot is before
