"""The smallest engine: a dictionary of rows that has what ``Store`` asks for, and serves a pipeline."""

import inspect
from dataclasses import asdict, replace

import numpy as np
import pytest
from transformers import BertModel, pipeline

from docsplit_hf import KNNDatastore
from docsplit_hf.neighbors.store.changes import add_documents, add_rows, empty_snapshot
from docsplit_hf.neighbors.store.milvus.remote_datastore import RemoteDatastore
from docsplit_hf.neighbors.store.store import Store

from ..conftest import labels_of


class DictionaryStore:
    """Rows by id, each a NumPy key with what belongs to it; a snapshot is made of them whenever it is asked for."""

    multi_label, label_names, dtype, has_passages, travels, fitted = False, (), "float32", False, False, None

    def __init__(self, probe, multi_label):
        self.probe, self.multi_label, self.examples, self.unlabeled, self.changes = probe, multi_label, {}, {}, 0

    def __len__(self):
        return len(self.examples)

    @property
    def content_sha256(self):
        return f"{self.changes:064x}"

    @property
    def snapshot(self):
        empty = empty_snapshot(self.probe.shape[1], self.label_names, self.multi_label, probe=self.probe)
        snapshot = add_rows(empty, *columns(self.examples, empty), ids=list(self.examples))
        if self.unlabeled:
            keys, _, texts, pairs = columns(self.unlabeled, empty)
            snapshot = add_documents(snapshot, keys, texts, pairs, list(self.unlabeled))
        return replace(snapshot, fitted=self.fitted)

    @property
    def documents(self):
        return self.snapshot.documents

    def for_labels(self, several):
        return self

    def search(self, queries, k, passages=None):
        return self.snapshot.search(queries, k, passages)

    def find(self, texts=(), pairs=(), ids=()):
        return self.snapshot

    def sample(self, passages, least):
        return self.snapshot.take(self.snapshot.sampled_rows(passages, least))

    def add(self, keys, labels, texts=None, text_pairs=None, ids=None, replacing=(), passages=None):
        names = [name for given in labels for name in ([given] if isinstance(given, str) else given)]
        self.label_names = tuple(dict.fromkeys([*self.label_names, *names]))
        for row_id in replacing:
            (self.examples if row_id in self.examples else self.unlabeled).pop(row_id)
        return self._put(self.examples, ids, zip(keys, labels, texts, text_pairs, strict=True))

    def add_documents(self, keys, texts=None, text_pairs=None, ids=None, passages=None):
        return self._put(self.unlabeled, ids, zip(keys, [None] * len(keys), texts, text_pairs, strict=True))

    def remove(self, ids):
        for row_id in ids:
            del self.examples[row_id]
        self.changes += 1

    def remove_documents(self, ids):
        for row_id in ids:
            del self.unlabeled[row_id]
        self.changes += 1

    def relabel(self, labels):
        for row_id, label in labels.items():
            key, _, *texts = self.examples[row_id]
            self.examples[row_id] = (key, label, *texts)
        self.changes += 1

    def save_pretrained(self, folder):
        pass

    def _put(self, rows, ids, new):
        new = list(new)
        self.changes += len(new)
        ids = [f"row {self.changes - i}" for i in range(len(new))] if ids is None else ids
        rows |= dict(zip(ids, new, strict=True))
        return list(ids)


def columns(rows, empty):
    keys, labels, texts, pairs = zip(*rows.values(), strict=True) if rows else ((), (), (), ())
    return np.array(keys, np.float32).reshape(-1, empty.keys.shape[1]), labels, texts, pairs


@pytest.mark.parametrize("several", [False, True], ids=["one label", "several labels"])
def test_a_dictionary_serves_a_pipeline_as_a_datastore_does(several, tiny_config, tokenizer, texts, tmp_path):
    options = {"model": BertModel(tiny_config), "tokenizer": tokenizer, "device": "cpu", "long_documents": "first"}
    reference, labels = pipeline("docsplit-knn", **options), labels_of(texts)
    if several:
        labels = [[name, "long"][: 1 + len(text) % 2] for name, text in zip(labels, texts, strict=True)]
    pipe = pipeline("docsplit-knn", datastore=DictionaryStore(reference.embedder.probe(), several), **options)
    compare(*(journey(each, texts, labels) for each in (reference, pipe)))
    assert type(pipe.datastore) is DictionaryStore
    pipe.save_pretrained(tmp_path)
    assert "store of their own" in (tmp_path / "README.md").read_text()


def journey(pipe, texts, labels):
    """What a pipeline says while all is done that asks its store for something, or changes it."""
    pipe.add_documents([*texts[20:40], texts[20], ""])
    added = pipe.add_examples(texts[:20], labels[:20])
    pipe.add_labels({"river": "A river and its valley", "engine": "An engine"})
    assert pipe.add_examples(texts[:3], labels[:3]) == added[:3]  # which are there
    pipe.add_examples(texts[20:22], labels[20:22])  # which were documents
    heard = [len(pipe.datastore), len(pipe.datastore.snapshot.documents.keys), pipe.model.config.knn_temperature]
    heard += [shown(pipe(texts[40:], top_k=None, return_neighbors=4, return_documents=2))]
    assert pipe.datastore.fitted is None
    report = pipe.fit(show_progress=False)
    heard += [list(report.shares.items()), shown(pipe(texts[40:], explain=True, return_neighbors=2))]
    audit = pipe.audit(show_progress=False)
    heard += [audit.checked, [shown(asdict(outlier)) for outlier in audit.outliers]]
    heard += [[one["text"] for one in pipe.suggest(3)], shown(pipe.report(texts[40:44]).most_novel)]
    pipe.remove_examples(added[:2])
    pipe.relabel({added[3]: "engine" if isinstance(labels[0], str) else ["engine"]})
    heard += [shown(pipe(texts[40:])), shown(pipe(texts[40:], k=3, return_neighbors=3))]
    return [*heard, pipe.calibrate().k]


def shown(answers):
    """Answers without ids, which differ."""
    if isinstance(answers, list):
        return [shown(answer) for answer in answers]
    if isinstance(answers, dict):
        return {name: shown(value) for name, value in answers.items() if name != "id"}
    return answers


def compare(one, other):
    assert type(one) is type(other) or {type(one), type(other)} <= {int, float}
    if isinstance(one, (list, tuple)):
        assert len(one) == len(other)
        for pair in zip(one, other, strict=True):
            compare(*pair)
    elif isinstance(one, dict):
        assert one.keys() == other.keys()
        for name in one:
            compare(one[name], other[name])
    else:
        assert one == (pytest.approx(other, rel=1e-4, abs=1e-5) if isinstance(one, float) else other)


def test_all_engines_have_what_a_store_has():
    names = [name for name in vars(Store) if callable(getattr(Store, name)) and not name.startswith("_")]
    assert len(names) == 10
    for engine in (KNNDatastore, RemoteDatastore, DictionaryStore):
        assert all(hasattr(engine, name) or name in ("fitted", "probe") for name in Store.__annotations__)
        for name in names:
            own, asked = (list(inspect.signature(getattr(each, name)).parameters) for each in (engine, Store))
            assert own == asked, (engine, name)
