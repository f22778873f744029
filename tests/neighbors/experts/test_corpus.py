import numpy as np

from docsplit_hf import KNNDatastore
from docsplit_hf.neighbors.experts import corpus
from docsplit_hf.neighbors.experts.corpus import make_corpus
from docsplit_hf.neighbors.experts.fit_experts import fit_experts
from docsplit_hf.neighbors.experts.fitted_experts import ready_experts
from docsplit_hf.neighbors.store.row_table import joined_texts

from .stores import ask, fitted_store, make_store


def test_it_has_all_texts_and_knows_where_the_examples_are():
    store = make_store(pairs=True)
    found = make_corpus(store.snapshot)
    assert len(found.ids) == len(set(found.ids.tolist())) == len(found.vectors) == 72
    texts = joined_texts(store.texts, store.text_pairs)
    assert len(found.rows) == 12 and (found.vectorizer.transform(texts) != found.words[found.rows]).nnz == 0
    np.testing.assert_allclose(np.linalg.norm(found.vectors, axis=1), 1, rtol=1e-5)


def test_which_texts_have_labels_changes_nothing_but_where_the_examples_are():
    store = make_store()
    before = make_corpus(store.snapshot)
    row, documents = 7, store.documents
    store.add(documents.keys[[row]], ["fruit"], [documents.texts[row]], replacing=[documents.ids[row]])
    fresh, reused = make_corpus(store.snapshot), make_corpus(store.snapshot, before)
    assert reused.vectors is before.vectors and len(reused.rows) == 13
    for name in ("rows", "documents", "contents", "ids", "vectors", "whitened"):
        assert np.array_equal(getattr(fresh, name), getattr(reused, name)), name
    assert (fresh.graph != reused.graph).nnz == 0
    store.remove_documents([documents.ids[0]])
    assert make_corpus(store.snapshot, before).vectors is not before.vectors


def test_the_order_of_examples_and_labels_makes_no_difference():
    store = make_store(30)
    order = np.random.default_rng(0).permutation(30)
    labels = [store.label_names[label] for label in store.labels]
    given = [labels[i] for i in order], list(reversed(store.label_names)), [store.texts[i] for i in order]
    other = KNNDatastore(store.keys[order], *given)
    other.add_documents(store.documents.keys[::-1], store.documents.texts[::-1])
    found = []
    for one in (store, other):
        one.fitted = fit_experts(one.snapshot, show_progress=False).to_state()
        found.append({answer: column for answer, column in zip(one.label_names, ask(one).probabilities.T, strict=True)})
    for name in store.label_names:
        np.testing.assert_allclose(found[0][name], found[1][name], atol=1e-5)


def test_the_words_of_a_pair_are_those_of_both():
    assert joined_texts(["a", None, "c", None], ["b", "d", None, None]) == ["a b", " d", "c", ""]


def test_without_texts_there_are_no_words():
    found = make_corpus(make_store(texts=False).snapshot)
    assert found.vectorizer is None and found.words is None and found.vectors.shape == (72, 16)


def test_a_sample_of_many_documents_always_the_same_bounds_what_is_fitted(monkeypatch, caplog):
    monkeypatch.setattr(corpus, "MOST_DOCUMENTS", 20)
    store = fitted_store()
    assert "Of 60 documents, a random 20 are used" in caplog.text
    arrays = store.fitted.arrays
    assert len(arrays["ids"]) == len(arrays["soft"]) == 12 + 20
    assert store.fitted.settings["documents"] == 20
    assert np.array_equal(make_corpus(store.snapshot).ids, arrays["ids"])
    assert (ready_experts(store.snapshot).places >= 0).sum() == 20
    assert len(store.documents) == 60


def test_half_precision_is_read():
    store = make_store()
    half = type(store)(store.keys, store.labels, store.label_names, store.texts, dtype="float16")
    assert make_corpus(half.snapshot).vectors.dtype == np.float32
