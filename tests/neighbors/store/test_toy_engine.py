"""A third engine, a dictionary of NumPy rows: what ``Store`` names is all that a pipeline asks of one."""

import hashlib
import itertools
from typing import NamedTuple

import numpy as np
import pytest
from transformers import BertModel, pipeline

from docsplit_hf import KNNDatastore
from docsplit_hf.neighbors.store.labels import encode_known_labels, encode_labels
from docsplit_hf.neighbors.store.neighbors import Neighbors
from docsplit_hf.neighbors.store.row_table import make_rows
from docsplit_hf.neighbors.store.sampling import sample_rows, take_rows
from docsplit_hf.neighbors.store.search.index import IndexOptions
from docsplit_hf.neighbors.store.snapshot import Snapshot
from docsplit_hf.neighbors.store.store import Store

from ..conftest import labels_of


class Row(NamedTuple):
    key: np.ndarray
    label: str | list[str]
    text: str | None
    pair: str | None


class ToyStore:
    """Rows by id, each with one vector; the documents are a store of their own, whose rows have no labels."""

    has_passages = is_in_folder = False
    probe = fitted = None

    def __init__(self, dimension, multi_label=False, prefix=""):
        self.dimension, self.multi_label, self.label_names = dimension, multi_label, ()
        self._rows, self._documents = {}, None
        self._ids = (f"{prefix}{number}" for number in itertools.count())

    def __len__(self):
        return len(self._rows)

    @property
    def documents(self):
        return self._documents or None

    @property
    def snapshot(self):
        keys = np.array([row.key for row in self._rows.values()], np.float32).reshape(-1, self.dimension)
        labels = self.label_array([row.label for row in self._rows.values()])
        texts, pairs = ([row[column] for row in self._rows.values()] for column in (2, 3))
        table, documents = make_rows(len(keys), self._rows, texts, pairs), self.documents and self.documents.snapshot
        more = {"documents": documents, "fitted": self.fitted}
        return Snapshot(keys, labels, table, self.label_names, 0, IndexOptions("Flat", None, None), **more)

    @property
    def content_sha256(self):
        rows = [(row_id, row.key.tobytes(), *row[1:]) for row_id, row in self._rows.items()]
        return hashlib.sha256(repr([rows, self.documents and self.documents.content_sha256]).encode()).hexdigest()

    def search(self, queries, k, passages=None):
        state = self.snapshot
        distances = np.square(queries[:, None] - state.keys).sum(-1)
        rows = np.argsort(distances, axis=1, kind="stable")[:, :k]
        near = np.take_along_axis(distances, rows, axis=1)
        return Neighbors(near, state.labels[rows], rows, state.label_names, state.rows, state.keys)

    def add(self, keys, labels, texts, text_pairs, ids, replacing=(), passages=None):
        self.label_names = encode_labels(labels, self.label_names, self.multi_label)[1]
        for row_id in replacing:
            (self._rows if row_id in self._rows else self._documents._rows).pop(row_id)
        ids = [next(self._ids) for _ in keys] if ids is None else list(ids)
        self._rows |= dict(zip(ids, map(Row, keys, labels, texts, text_pairs), strict=True))
        return ids

    def add_documents(self, keys, texts, text_pairs, ids, passages):
        self._documents = self._documents or ToyStore(self.dimension, multi_label=True, prefix="d")
        return self._documents.add(keys, [[]] * len(keys), texts, text_pairs, ids)

    def remove(self, ids):
        for row_id in ids:
            del self._rows[row_id]

    def remove_documents(self, ids):
        self._documents.remove(ids)

    def relabel(self, labels):
        self._rows |= {row_id: self._rows[row_id]._replace(label=label) for row_id, label in labels.items()}

    def with_texts(self, texts, pairs):
        return self.snapshot

    def ids_there(self, ids):
        return {*ids} & {*self._rows}

    def sample(self, passages, least):
        state = self.snapshot
        return take_rows(state, sample_rows(state, passages, least))

    def takes(self, several):
        return True

    def label_array(self, labels):
        return encode_known_labels(labels, self.label_names, self.multi_label)

    def check_encoder(self, probe):
        """One encoder made all keys."""

    def change_fitted(self, change):
        self.fitted = self.fitted and change(self.fitted)

    def save_pretrained(self, folder):
        """It stays in memory."""


def test_it_has_what_the_protocol_names_and_nothing_else():
    def public(names):
        return {name for name in names if name[0] != "_"}

    assert public(dir(ToyStore(8))) == public({*vars(Store), *Store.__annotations__})


@pytest.mark.parametrize("several", [False, True], ids=["one label", "several labels"])
def test_a_pipeline_answers_as_with_a_datastore(several, tiny_config, tokenizer, texts):
    model, size = BertModel(tiny_config), tiny_config.hidden_size
    stores = ToyStore(size, several), KNNDatastore.empty(size, multi_label=several)
    labels = labels_of(texts)
    if several:
        labels = [[name, "long"][: 1 + len(text) % 2] for name, text in zip(labels, texts, strict=True)]
    told = []
    for store in stores:
        pipe = pipeline("docsplit-knn", model=model, tokenizer=tokenizer, device="cpu", datastore=store)
        heard = [pipe.add_documents([*texts[18:36], ""]), pipe.add_examples(texts[:16], labels[:16])]
        heard += [pipe.add_examples([*texts[:2], *texts[18:20]], [*labels[:2], *labels[18:20]])]  # known, documents
        heard += [answers(pipe, texts[36:])]
        report = pipe.fit(show_progress=False)
        heard += [report.shares, answers(pipe, texts[36:], explain=True)]
        heard += [[document["id"] for document in pipe.suggest(3)], len(pipe.audit(show_progress=False).outliers)]
        pipe.remove_examples(["1", "17"])
        pipe.remove_documents(["d5"])
        pipe.relabel({"3": ["river"] if several else "river", "4": ["engine"] if several else "engine"})
        heard += [answers(pipe, texts[36:]), answers(pipe, texts[36:], k=3)]
        pipe.fit(show_progress=False)
        heard += [answers(pipe, texts[36:])]
        assert (len(pipe.datastore), len(pipe.datastore.documents)) == (16, 15)
        told.append(heard)
    assert len(stores[0]) == 16  # it was not replaced by another
    for toy, own in zip(*told, strict=True):
        assert toy == own


def answers(pipe, texts, **options):
    """Labels with their scores, and which texts they are from; scores as far as the order of a sum does not matter."""
    found = pipe(texts, top_k=None, return_neighbors=4, return_documents=2, **options)
    return [
        [(each["label"], pytest.approx(each["score"], rel=1e-4), [n["id"] for n in each["neighbors"]]) for each in one]
        + [[document["id"] for document in one[0]["documents"]]]
        for one in found
    ]
