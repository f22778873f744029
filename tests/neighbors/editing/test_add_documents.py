import copy
import pickle

import numpy as np
import pytest


def label(text):
    return "river" if len(text) % 2 else "engine"


@pytest.fixture
def filled(untrained, texts):
    untrained.add_examples(texts[:12], [label(text) for text in texts[:12]])
    untrained.add_documents(texts[12:30])
    return untrained


def test_they_are_no_neighbors_unless_they_are_asked_for(filled, texts):
    before = filled(texts[30:34], return_neighbors=3, top_k=None)
    answers = filled(texts[30:34], return_neighbors=3, return_documents=2, top_k=None)
    for row, answer in enumerate(answers):
        documents = answer[0].pop("documents")
        assert [set(document) for document in documents] == [{"text", "id", "distance"}] * 2
        assert documents[0]["distance"] <= documents[1]["distance"]
        assert answer == before[row]
    own = filled({"text": texts[20]}, return_documents=1)["documents"][0]
    assert (own["text"], own["id"]) == (texts[20], "d8") and own["distance"] < 1e-9
    assert len(filled([texts[0]], return_documents=99)[0]["documents"]) == 18


def test_what_is_there_already_or_empty_is_not_added(filled, texts, caplog):
    given = [texts[0], texts[12], "", " \n", "a new one", "a new one", texts[40]]
    assert filled.add_documents(given) == [None, None, None, None, "d18", None, "d19"]
    assert "5 of 7 documents are not added: 2 empty, 3 there already" in caplog.text
    assert filled.add_documents(given) == [None] * 7 and len(filled.datastore.documents) == 20
    assert filled.add_documents([]) == []


def test_a_pair_is_another_text_than_its_first_half(filled, texts):
    pair = {"text": texts[12], "text_pair": "more"}
    assert filled.add_documents([pair, pair]) == ["d18", None]
    assert filled({"text": texts[12], "text_pair": "more"}, return_documents=1)["documents"][0]["text_pair"] == "more"


def test_one_that_gets_a_label_is_an_example_with_the_embedding_that_it_had(filled, texts):
    keys = filled.datastore.documents.keys.copy()
    filled.add_examples([texts[40], texts[13], texts[12]], ["river", "river", "engine"])
    store = filled.datastore
    assert len(store) == 15 and len(store.documents) == 16 and not {"d0", "d1"} & set(store.documents.ids)
    assert np.array_equal(store.keys[13], keys[1]) and np.array_equal(store.keys[14], keys[0])


def test_when_all_have_labels_more_examples_can_come(filled, texts):
    filled.add_examples(texts[12:30], [label(text) for text in texts[12:30]])
    assert filled.datastore.documents is None
    filled.add_examples(texts[30:32], ["river", "engine"])
    filled.fit(show_progress=False)
    assert len(filled.datastore) == 32
    with pytest.raises(ValueError, match="return_documents=1: there are no documents without labels"):
        filled(texts[0], return_documents=1)
    assert filled.add_documents(["back again"]) == ["d18"]


@pytest.mark.parametrize("labels", [["a", "b"] * 4, [["a", "b"], ["b"], [], ["a"]] * 2], ids=["one", "several"])
def test_documents_may_come_before_the_first_labels(labels, untrained, texts):
    assert untrained.add_documents(texts[:20], ids=[f"mine {i}" for i in range(20)])[3] == "mine 3"
    with pytest.raises(ValueError, match="No labeled examples yet"):
        untrained.fit()
    untrained.add_examples(texts[16:24], labels)
    store = untrained.datastore
    assert store.multi_label == isinstance(labels[0], list) and len(store.documents) == 16
    assert store.documents.ids == [f"mine {i}" for i in range(16)] and store.documents.texts == texts[:16]
    untrained.fit(show_progress=False)
    assert len(untrained(texts[24:26])) == 2


def test_removing(filled):
    filled.remove_documents(["d3", "d0"])
    assert len(filled.datastore.documents) == 16
    with pytest.raises(ValueError, match="no row with the id 'd3'"):
        filled.remove_documents(["d3"])


def test_copies_have_documents_and_what_was_fitted_of_their_own(filled, texts):
    filled.fit(show_progress=False)
    for other in (pickle.loads(pickle.dumps(filled.datastore)), copy.deepcopy(filled.datastore)):
        filled_before = filled(texts[30:32], top_k=None)
        other.remove_documents(other.documents.ids)
        assert filled(texts[30:32], top_k=None) == filled_before
        original, filled.datastore = filled.datastore, other
        assert filled(texts[30:32], top_k=None) != filled_before
        filled.datastore = original


def test_a_failed_addition_leaves_nothing_behind(untrained, texts):
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
    assert untrained.datastore is None


def test_one_that_gets_a_label_keeps_its_own_id(untrained, texts):
    untrained.add_documents(texts[:3], ids=["a", "b", "c"])
    key = untrained.datastore.documents.keys[0].copy()
    assert untrained.add_examples(texts[:1], ["river"], ids=["a"]) == ["a"]
    assert untrained.datastore.ids == ["a"] and untrained.datastore.documents.ids == ["b", "c"]
    assert (untrained.datastore.keys[0] == key).all()
