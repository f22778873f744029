"""Reading a collection without fetching all rows: answers of fitted experts, first examples, changes meanwhile."""

from functools import partial

import numpy as np
from transformers import BertModel, pipeline

from docsplit_hf.classifier.answering import ATTEMPTS, read_consistently
from docsplit_hf.connectors.milvus.remote_datastore import RemoteDatastore
from docsplit_hf.fitting.rejection import RejectionLimits

from ...classifier.conftest import labels_of
from .conftest import NAMES

UNKNOWN = (0, 5, 60)  # documents that are added after the fit: none, some, many


def test_fitted_answers_are_those_of_a_local_store_and_fetch_no_other_rows(
    folder, make_tiny_config, tokenizer, texts, monkeypatch
):
    make_pipeline = partial(
        pipeline,
        "docsplit-knn",
        model=BertModel(make_tiny_config()),
        tokenizer=tokenizer,
        device="cpu",
        long_documents="first",
    )
    local = make_pipeline()
    labels = labels_of(texts)
    local.add_examples(texts[:20], labels[:20], ids=[f"example {i}" for i in range(20)])
    documents = [f"{text} {number}" for text in texts for number in range(2)]
    local.add_documents(documents, ids=[f"document {i}" for i in range(len(documents))])
    remote = make_pipeline(datastore=folder.new_address())
    remote.datastore.merge(local.datastore)
    for pipe in (local, remote):
        pipe.fit(show_progress=False)
    other = folder.connect(remote.datastore)
    monkeypatch.setattr(RemoteDatastore, "_fetch_all", fail)
    queries = [*texts[30:], *documents[:3], "the", "?"]
    assert answers(remote, queries) == answers(local, queries)
    key = np.ones((1, local.datastore.dimension), np.float32)
    for datastore in (local.datastore, other):
        datastore.add(key, ["gravel"], ["gravel of a river"], ids=["new"])
        datastore.remove_documents(["document 1"])
    for before, unknown in zip((0, *UNKNOWN), UNKNOWN, strict=False):
        numbers = np.arange(before, unknown)
        if len(numbers):
            keys = local.datastore.keys[numbers % 20] + np.float32(0.01)
            added = [f"later text {i}" for i in numbers]
            for datastore in (local.datastore, other):
                datastore.add_documents(keys, added, ids=added)
        assert answers(remote, queries) == answers(local, queries), f"{unknown} unknown documents"
    assert remote(texts[0], top_k=None)[-1].keys() == {"label", "score"}
    assert {answer["label"] for answer in remote(texts[0], top_k=None)} == {"river", "engine", "gravel"}


def fail(datastore):
    raise AssertionError("All rows were fetched.")


def answers(pipe, texts):
    """Answers of all forms."""
    pipe.model.config.knn_temperature = 0.1
    shown = pipe(texts, explain=True, return_neighbors=4, return_documents=2, return_novelty=True)
    return [
        shown,
        [pipe(text) for text in texts[:3]],
        pipe(texts, top_k=None),
        pipe(texts, reject=RejectionLimits(0.2, novelty=0.2)),
        pipe(texts, method="knn", k=3, return_neighbors=2),
    ]


def test_the_first_examples_are_those_of_all_rows(milvus):
    """Texts are longer than a field, and an example has no text."""
    datastore = milvus.make()
    texts = ["ü" * 70_000, None, *(f"text {i}" for i in range(28))]
    ids = [str(i) for i in range(30)]
    for start in range(0, 30, 10):
        part = slice(start, start + 10)
        datastore.add(np.eye(8)[np.arange(10) % 8], ["fruit", "mineral"] * 5, texts[part], ids=ids[part])
    whole = datastore.snapshot
    for count in (1, 12, 30, 100):
        first = datastore.view().first(count)
        expected = whole.first(count)
        assert first.texts == expected.texts and len(first.texts) == min(count, 30)
        assert first.text_pairs == expected.text_pairs
        np.testing.assert_array_equal(first.labels, expected.labels)


def test_a_view_is_the_same_until_something_changes(milvus):
    datastore = milvus.make()
    datastore.add(np.eye(8)[:2], ["fruit", "mineral"], ["A pear.", "A stone."])
    view = datastore.view()
    assert datastore.view() is view and view.is_current() and view.count() == 2 and view.label_names == tuple(NAMES)
    datastore.add(np.eye(8)[2:3], ["gravel"], ["Gravel."])
    assert not view.is_current()
    changed = datastore.view()
    assert changed.count() == 3 and changed.label_names == (*NAMES, "gravel") and changed.dimension == 8
    assert changed.search(np.eye(8)[2:3], 1).texts == [["Gravel."]]
    assert changed.get(["A pear.", "none"], [None, None]).rows["text"].to_pylist() == ["A pear."]
    assert changed.all().rows["text"].to_pylist() == ["A pear.", "A stone.", "Gravel."]


def test_what_is_read_during_a_change_is_read_again(folder, caplog):
    datastore = folder.make()
    datastore.add(np.eye(8)[:1], ["fruit"], ["text 0"])
    reads = []

    def read(view, changes):
        reads.append(view.count())
        if len(reads) <= changes:
            datastore.add(np.eye(8)[:1], ["fruit"], [f"text {view.count()}"])
        return reads[-1]

    assert read_consistently(datastore, datastore.view(), partial(read, changes=1)) == 2
    assert reads == [1, 2] and not caplog.text
    reads.clear()
    read_consistently(datastore, datastore.view(), partial(read, changes=ATTEMPTS))
    assert reads == [2, 3, 4] and "may mix two states" in caplog.text
