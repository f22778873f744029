"""The smallest implementation of ``Store``, a dictionary of rows, in a pipeline."""

import inspect
from dataclasses import asdict, replace
from functools import partial

import numpy as np
import pytest
from transformers import BertModel, pipeline

from docsplit_hf import KNNDatastore
from docsplit_hf.arrays.changes import add_document_rows, add_rows, empty_snapshot
from docsplit_hf.arrays.store import Store
from docsplit_hf.connectors.milvus.remote_datastore import RemoteDatastore

from ..classifier.conftest import labels_of


class DictionaryStore:
    """Rows by id: key, label, text and pair; each view is a new snapshot."""

    multi_label = False
    label_names = ()
    dtype = "float32"
    has_passages = False
    is_saved_with_classifier = False
    fitted = None

    def __init__(self, probe, multi_label):
        self.probe = probe
        self.multi_label = multi_label
        self.examples = {}
        self.unlabeled = {}
        self.changes = 0

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
            snapshot = add_document_rows(snapshot, keys, texts, pairs, list(self.unlabeled))
        return replace(snapshot, fitted=self.fitted)

    def view(self):
        return self.snapshot

    @property
    def documents(self):
        return self.snapshot.documents

    def for_labels(self, multi_label):
        return self

    def search(self, queries, k, passages=None):
        return self.snapshot.search(queries, k, passages)

    def sample(self, passages, least):
        return self.snapshot.take(self.snapshot.sampled_rows(passages, least))

    def add(self, keys, labels, texts=None, text_pairs=None, ids=None, replacing=(), passages=None, origins=None):
        names = [name for given in labels for name in ([given] if isinstance(given, str) else given)]
        self.label_names = tuple(dict.fromkeys([*self.label_names, *names]))
        for row_id in replacing:
            (self.examples if row_id in self.examples else self.unlabeled).pop(row_id)
        return self._put(self.examples, ids, zip(keys, labels, texts, text_pairs, strict=True))

    def add_documents(self, keys, texts=None, text_pairs=None, ids=None, passages=None, origins=None):
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
def test_a_pipeline_on_a_dictionary_gives_the_same_answers(several, tiny_config, tokenizer, texts, tmp_path):
    make_pipeline = partial(
        pipeline,
        "docsplit-knn",
        model=BertModel(tiny_config),
        tokenizer=tokenizer,
        device="cpu",
        long_documents="first",
    )
    reference = make_pipeline()
    labels = labels_of(texts)
    if several:
        labels = [[name, "long"][: 1 + len(text) % 2] for name, text in zip(labels, texts, strict=True)]
    pipe = make_pipeline(datastore=DictionaryStore(reference.embedder.probe(), several))
    compare(*(journey(each, texts, labels) for each in (reference, pipe)))
    assert type(pipe.datastore) is DictionaryStore
    pipe.save_pretrained(tmp_path)
    assert "separate datastore" in (tmp_path / "README.md").read_text()


def journey(pipe, texts, labels):
    """Results of a pipeline during all operations that read or change its store."""
    pipe.add_documents([*texts[20:40], texts[20], ""])
    added = pipe.add_examples(texts[:20], labels[:20])
    pipe.add_labels({"river": "A river and its valley", "engine": "An engine"})
    assert pipe.add_examples(texts[:3], labels[:3]) == added[:3]  # which are there
    pipe.add_examples(texts[20:22], labels[20:22])  # which were documents
    results = [len(pipe.datastore), len(pipe.datastore.snapshot.documents.keys), pipe.model.config.knn_temperature]
    results += [shown(pipe(texts[40:], top_k=None, return_neighbors=4, return_documents=2))]
    assert pipe.datastore.fitted is None
    report = pipe.fit(show_progress=False)
    results += [list(report.shares.items()), shown(pipe(texts[40:], explain=True, return_neighbors=2))]
    audit = pipe.audit(show_progress=False)
    results += [audit.checked, [shown(asdict(outlier)) for outlier in audit.outliers]]
    results += [[one["text"] for one in pipe.suggest(3)], pipe.measure_drift(texts[40:44]).labels]
    pipe.remove_examples(added[:2])
    pipe.relabel({added[3]: "engine" if isinstance(labels[0], str) else ["engine"]})
    results += [shown(pipe(texts[40:])), shown(pipe(texts[40:], method="knn", k=3, return_neighbors=3))]
    return [*results, pipe.calibrate().k]


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


def test_all_stores_implement_the_protocol():
    names = [name for name in vars(Store) if callable(getattr(Store, name)) and not name.startswith("_")]
    assert len(names) == 10
    for engine in (KNNDatastore, RemoteDatastore, DictionaryStore):
        assert all(hasattr(engine, name) or name in ("fitted", "probe") for name in Store.__annotations__)
        for name in names:
            own = list(inspect.signature(getattr(engine, name)).parameters)
            expected = list(inspect.signature(getattr(Store, name)).parameters)
            assert own == expected, (engine, name)
