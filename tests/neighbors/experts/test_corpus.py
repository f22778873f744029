import numpy as np

from docsplit_hf.neighbors.experts import corpus
from docsplit_hf.neighbors.experts.corpus import joined_texts, make_corpus
from docsplit_hf.neighbors.experts.fitted_experts import FittedExperts, find_voters

from .stores import fitted_store, make_store


def test_examples_come_first_then_the_documents():
    store = make_store(pairs=True)
    found = make_corpus(store.snapshot)
    assert found.examples == 12 and len(found.ids) == len(set(found.ids.tolist())) == len(found.vectors) == 72
    texts = joined_texts(store.texts + store.documents.texts, store.text_pairs + store.documents.text_pairs)
    assert (found.vectorizer.transform(texts) != found.words).nnz == 0
    np.testing.assert_allclose(np.linalg.norm(found.vectors, axis=1), 1, rtol=1e-5)


def test_the_words_of_a_pair_are_those_of_both():
    assert joined_texts(["a", None, "c", None], ["b", "d", None, None]) == ["a b", " d", "c", ""]


def test_without_texts_there_are_no_words():
    found = make_corpus(make_store(texts=False).snapshot)
    assert found.vectorizer is None and found.words is None and found.of_words.shape == (72, 0)


def test_a_sample_of_many_documents_always_the_same_bounds_what_is_fitted(monkeypatch, caplog):
    monkeypatch.setattr(corpus, "MOST_DOCUMENTS", 20)
    store = fitted_store()
    assert "Of 60 documents, a random 20 are used" in caplog.text
    arrays = store.fitted.arrays
    assert len(arrays["ids"]) == len(arrays["soft"]) == len(arrays["of_words"]) == 12 + 20
    assert store.fitted.settings["documents"] == 20
    assert np.array_equal(make_corpus(store.snapshot).ids, arrays["ids"])
    assert len(find_voters(FittedExperts.from_state(store.fitted), store.snapshot).vectors) == 32
    assert len(store.documents) == 60


def test_half_precision_is_read():
    store = make_store()
    half = type(store)(store.keys, store.labels, store.label_names, store.texts, dtype="float16")
    assert make_corpus(half.snapshot).vectors.dtype == np.float32
