import numpy as np

from docsplit_hf import KNNDatastore
from docsplit_hf.neighbors.experts.fit_experts import fit_experts
from docsplit_hf.neighbors.experts.fitted_experts import ready_experts
from docsplit_hf.neighbors.watching import period
from docsplit_hf.neighbors.watching.known_words import known_words
from docsplit_hf.neighbors.watching.period import Period, closeness_to_others, period_of, period_of_examples, sample

from ..experts.stores import fitted_store, make_queries, make_store


def measured(store, keys, texts):
    return period_of(ready_experts(store.snapshot), known_words(store.snapshot), keys, texts, None)


def test_a_text_that_the_store_has_is_measured_as_if_it_had_not():
    store = fitted_store(12, 60)
    keys, texts = store.documents.keys[:3].copy(), store.documents.texts[:3]
    before = measured(store, keys, texts)
    store.remove_documents(store.documents.ids[:3])
    for name, found, expected in zip(Period._fields, before, measured(store, keys, texts), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-4, err_msg=name)


def test_the_closeness_of_an_example_is_to_the_other_ones():
    store = fitted_store(12, 60)
    found = closeness_to_others(ready_experts(store.snapshot), store.keys)
    mean = store.fitted.arrays["mean"]
    vectors = (store.keys - mean) / np.linalg.norm(store.keys - mean, axis=1, keepdims=True)
    cosines = vectors @ vectors.T
    np.fill_diagonal(cosines, -1)
    np.testing.assert_allclose(found, np.sort(cosines, 1)[:, -5:].mean(1), atol=1e-6)


def test_half_precision_knows_a_text_again_as_well():
    found = []
    for dtype in ("float32", "float16"):
        whole = make_store(12, 60)
        options = {"texts": whole.texts, "dtype": dtype}
        store = KNNDatastore(whole.keys, whole.labels, whole.label_names, **options)
        store.add_documents(whole.documents.keys, whole.documents.texts)
        store.fitted = fit_experts(store.snapshot, show_progress=False).to_state()
        found.append(measured(store, whole.documents.keys[:6], whole.documents.texts[:6]))
    np.testing.assert_allclose(found[0].closeness, found[1].closeness, atol=0.01)
    np.testing.assert_allclose(found[0].probabilities, found[1].probabilities, atol=0.05)


def test_of_held_out_texts_that_are_none_nothing_is_novel():
    store = fitted_store(3, 60)
    keys, texts = store.documents.keys[:3], store.documents.texts[:3]
    assert not len(measured(store, keys, texts).novelty)


def test_without_another_example_nothing_is_near():
    store = fitted_store(12, 60)
    keys = store.keys[:1].copy()
    store.remove(store.ids[1:])
    np.testing.assert_array_equal(closeness_to_others(ready_experts(store.snapshot), keys), [0])


def test_what_is_said_of_held_out_examples_is_what_the_folds_said():
    store = fitted_store(12, 60)
    ready = ready_experts(store.snapshot)
    store.add(store.keys[:1] + 1, ["late"], texts=["late"])  # after fit
    later = ready_experts(store.snapshot)
    for now, labels in ((ready, 3), (later, 4)):
        found = period_of_examples(now, known_words(now.snapshot))
        np.testing.assert_array_equal(found.probabilities[:, :3], ready.fitted.held_out.probabilities)
        assert found.probabilities.shape == (12, labels) and len(found.closeness) == len(found.unknown_words) == 12
        assert not len(found.novelty)


def test_many_texts_of_the_store_are_a_sample(monkeypatch):
    monkeypatch.setattr(period, "MOST_OF_STORE", 4)
    rows = sample(np.arange(10, 20))
    assert len(set(rows)) == 4 and (np.diff(rows) > 0).all() and set(rows) <= set(range(10, 20))
    np.testing.assert_array_equal(sample(np.arange(3)), np.arange(3))


def test_without_texts_unknown_words_are_not_known():
    store = fitted_store(12, 60, texts=False)
    _, keys, texts = make_queries()
    found = measured(store, keys, texts)
    assert not len(found.unknown_words) and len(found.novelty) == len(found.closeness) == 9
