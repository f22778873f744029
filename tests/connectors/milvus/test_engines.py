"""One suite, three engines: each answers the requests of a pipeline in the same way."""

from functools import partial
from typing import NamedTuple

import numpy as np
import pytest
from transformers import BertModel, pipeline

from docsplit_hf.arrays.row_table import ids_among

from ...arrays.test_store import compare, journey
from ...classifier.conftest import labels_of
from .conftest import NAMES


class Row(NamedTuple):
    key: np.ndarray
    label: str | list[str]
    text: str | None


def some_rows(count, seed=0, dimension=8, multi_label=False):
    """Keys, labels, texts and ids; every third row has no text, and two rows are equal."""
    rng = np.random.default_rng(seed)
    keys = rng.standard_normal((count, dimension)).astype(np.float32)
    keys[1] = keys[0]
    labels = [NAMES[i] for i in rng.integers(0, 3, count)]
    if multi_label:
        labels = [[NAMES[i] for i in rng.permutation(3)[: i % 4]] for i in range(count)]
    texts = [f"Text {seed} {i} 'quoted' \"twice\" ü" if i % 3 else None for i in range(count)]
    ids = [f"row {seed} {i} ' \" \\" for i in range(count)]
    return keys, labels, texts, ids


class Expected:
    """The rows that are expected, in their order, and the nearest of them by the definition."""

    def __init__(self):
        self.rows = {}

    def add(self, keys, labels, texts, ids):
        for row_id, key, label, text in zip(ids, keys, labels, texts, strict=True):
            self.rows[row_id] = Row(key, label, text)

    def check(self, datastore, k=7, seed=5):
        assert len(datastore) == len(self.rows)
        queries = np.random.default_rng(seed).standard_normal((4, datastore.dimension)).astype(np.float32)
        ids = list(self.rows)
        queries[0] = self.rows[ids[0]].key  # the distance of two rows is 0
        keys = np.stack([row.key for row in self.rows.values()])
        distances = np.square(queries[:, None].astype(np.float64) - keys).sum(-1)
        order = np.argsort(distances, axis=1, kind="stable")[:, :k]
        found = datastore.search(queries, k)
        np.testing.assert_allclose(found.distances, np.take_along_axis(distances, order, 1), rtol=1e-5, atol=1e-6)
        assert found.ids == [[ids[i] for i in row] for row in order]
        assert found.texts == [[self.rows[row_id].text for row_id in row] for row in found.ids]
        for query, rank in np.ndindex(order.shape):
            shown = found.example(query, rank)
            label = self.rows[shown["id"]].label
            if isinstance(label, str):
                assert shown["label"] == label
            else:
                assert set(shown["labels"]) == set(label)
        snapshot = datastore.snapshot
        assert snapshot.rows["id"].to_pylist() == ids
        np.testing.assert_array_equal(snapshot.keys, keys)


@pytest.mark.parametrize("multi_label", [False, True])
def test_rows_are_added_removed_relabeled_and_found_again(engine, multi_label):
    datastore = engine.make(multi_label=multi_label)
    expected = Expected()
    with pytest.raises(ValueError, match="The datastore is empty"):
        datastore.search(np.zeros((1, 8)), 3)
    for seed in (0, 1):
        keys, labels, texts, ids = some_rows(40, seed, multi_label=multi_label)
        assert datastore.add(keys, labels, texts, ids=ids) == ids
        expected.add(keys, labels, texts, ids)
    expected.check(datastore)
    gone = [*ids[5:15], *list(expected.rows)[:3]]
    datastore.remove(gone)
    for row_id in gone:
        del expected.rows[row_id]
    new = {row_id: ["mineral"] if multi_label else "mineral" for row_id in ids[20:30]}
    datastore.relabel(new)
    for row_id, label in new.items():
        expected.rows[row_id] = expected.rows[row_id]._replace(label=label)
    expected.check(datastore)
    reopened = engine.reopened(datastore)
    expected.check(reopened, k=200)
    assert ids_among([ids[0], ids[5], "another"], reopened.view().get(ids=[ids[0], ids[5], "another"]).rows) == {ids[0]}


def test_new_labels_come_last_and_stay_in_order(engine):
    datastore = engine.make(names=["b"])
    datastore.add(np.eye(8)[:3], ["c", "b", "a"])
    assert datastore.label_names == ("b", "c", "a")
    datastore = engine.reopened(datastore)
    assert datastore.label_names == ("b", "c", "a")
    assert datastore.search(np.eye(8)[:1], 1).labels.tolist() == [[1]]


def test_documents_become_examples_with_a_label(engine):
    datastore = engine.make()
    keys, labels, texts, ids = some_rows(20)
    assert not datastore.documents
    datastore.add_documents(keys[:12], texts[:12], ids=ids[:12])
    assert len(datastore) == 0 and len(datastore.documents) == 12
    datastore.add(keys[12:], labels[12:], texts[12:], ids=ids[12:])
    assert not {*ids[:12]} & {*datastore.search(keys[:1], 20).ids[0]}
    assert datastore.documents.search(keys[2:3], 1).ids == [[ids[2]]]
    assert datastore.documents.search(keys[2:3], 1).texts == [[texts[2]]]
    with pytest.raises(ValueError, match="is there already"):
        datastore.add(keys[2:3], labels[2:3], texts[2:3], ids=ids[2:3])
    datastore.add(keys[2:3], labels[2:3], texts[2:3], ids=["labeled"], replacing=[ids[2]])
    datastore.remove_documents([ids[4]])
    reopened = engine.reopened(datastore)
    assert (len(reopened), len(reopened.documents)) == (9, 10)
    assert reopened.search(keys[2:3], 1).ids == [["labeled"]]
    found = reopened.view().get(["A text of no row", texts[5], texts[14]], [None] * 3)
    assert ids[14] in found.rows["id"].to_pylist() and ids[5] in found.documents.rows["id"].to_pylist()


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda d: d.add(np.ones((1, 8)), ["fruit"], ids=["taken"]), "'taken' is there already"),
        (lambda d: d.add(np.ones((1, 8)), ["fruit"], ids=["a"], replacing=["b"]), "no row with the id 'b'"),
        (lambda d: d.add(np.ones((1, 9)), ["fruit"]), r"must be numbers of shape \(N, 8\)"),
        (lambda d: d.add(np.full((1, 8), np.nan), ["fruit"]), "NaN"),
        (lambda d: d.add(np.ones((1, 8)), [7]), "there are 3 labels"),
        (lambda d: d.add(np.ones((2, 8)), ["fruit", "fruit"], ids=["a", "a"]), "given twice"),
        (lambda d: d.add(np.ones((1, 8)), ["fruit"], texts=["\ud800"]), "half a character"),
        (lambda d: d.remove(["b"]), "no row with the id 'b'"),
        (lambda d: d.remove(["taken", "b"]), "no row with the id 'b': pass ids"),
        (lambda d: d.remove("taken"), r"got one string: pass \['taken'\]"),
        (lambda d: d.remove_documents(["taken"]), "no row with the id 'taken'"),
        (lambda d: d.relabel({"taken": "gravel"}), "no label 'gravel'"),
        (lambda d: d.relabel({"taken": "mineral", "b": "fruit"}), "no row with the id 'b'"),
        (lambda d: d.search(np.ones((1, 9)), 3), r"shape \(N, 8\)"),
        (lambda d: d.search(np.ones((1, 8)), 0), "k must be an integer"),
        (lambda d: d.search(np.ones((1, 8)), 1.0), "k must be an integer"),
        (lambda d: d.search(np.ones((1, 8)), True), "k must be an integer"),
        (lambda d: d.search(np.ones((1, 8)), None), "k must be an integer"),
        (lambda d: d.search(np.full((1, 8), np.inf), 1), "NaN, infinity"),
    ],
)
def test_wrong_arguments_are_refused_and_change_nothing(one_row, call, message):
    with pytest.raises(ValueError, match=message):
        call(one_row)
    assert len(one_row) == 1 and one_row.snapshot.rows["id"].to_pylist() == ["taken"]


@pytest.fixture(scope="module")
def one_row(engine):
    datastore = engine.make(probe=-np.ones((3, 8), np.float32))
    datastore.add(np.zeros((1, 8)), ["fruit"], ["A pear."], ids=["taken"])
    return datastore


def test_a_pipeline_gives_the_same_answers(folder, tiny_config, tokenizer, texts):
    """Adding, copies, names of labels, documents, calibration, fitting, audit, suggestions, removing, saving."""
    make_pipeline = partial(
        pipeline,
        "docsplit-knn",
        model=BertModel(tiny_config),
        tokenizer=tokenizer,
        device="cpu",
        long_documents="whole",
    )
    local = journey(make_pipeline(), texts, labels_of(texts))
    remote = journey(make_pipeline(datastore=folder.new_address()), texts, labels_of(texts))
    compare(local, remote)
