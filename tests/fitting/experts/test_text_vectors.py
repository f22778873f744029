import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer

from docsplit_hf.fitting.experts.text_vectors import (
    SHRINKAGE,
    SINGULAR_VECTOR_ROUNDS,
    TEXTS_PER_DIMENSION,
    Tfidf,
    WordRows,
    fit_document_vectors,
    fit_words,
    unit,
)
from docsplit_hf.reading.characters import MAX_CHARACTERS, words_of
from docsplit_hf.reading.shingles import number_words

from ..ensemble.stores import make_keys, make_texts

LABELS = np.arange(210) % 3  # enough texts for words to make dimensions


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The Fox's 2 dens, and 31 more.", ["the", "fox", "dens", "and", "31", "more"]),
        ("Straße ÉTÉ", ["straße", "été"]),
        ("北京大学", ["北京", "京大", "大学"]),
        ("北", ["北"]),
        ("I like 北京 x GPT4", ["like", "北京", "gpt4"]),
        ("สวัสดี", ["สว", "วั", "ัส", "สด", "ดี"]),
        ("ひらカナ", ["ひら", "らカ", "カナ"]),
        ("한국어 단어", ["한국어", "단어"]),
        ("... ! 1 a", []),
        ("", []),
    ],
)
def test_words_of_scripts_with_and_without_spaces(text, words):
    assert words_of(text) == words


@given(st.text(st.characters(exclude_categories=[])))
def test_splitting_into_words_accepts_any_text(text):
    """Of a spaced script they are scikit-learn's own."""
    words = words_of(text)
    assert all(words) and words == words_of(text.lower()) or text.lower() != text.lower().lower()
    spaced = "".join(letter for letter in text if letter < "\u0e00")
    assert words_of(spaced) == TfidfVectorizer().build_analyzer()(spaced)


def test_the_end_of_a_very_long_text_is_not_read():
    assert len(words_of("word " * MAX_CHARACTERS)) == MAX_CHARACTERS // 5


@pytest.mark.parametrize("count", [30, 400])
def test_tfidf_equals_scikit_learn_and_is_restored(count):
    """With 200 texts and more, words of one text alone, and of most of them, are left out."""
    texts = [*make_texts(np.arange(count) % 3), "lonely \ud800 half"]
    terms, idf, words = fit_words(number_words(texts))
    rare = {"min_df": 2, "max_df": 0.5} if count >= 200 else {}
    stock = TfidfVectorizer(analyzer=words_of, sublinear_tf=True, dtype=np.float32, **rare).fit(texts)
    assert stock.get_feature_names_out().tolist() == terms and ("lonely" in terms) == (count < 200)
    for other in (stock, Tfidf(terms, idf)):
        found = other.transform(texts)
        assert found.data.dtype == words.dtype == np.float32
        assert np.array_equal(found.indptr, words.indptr) and np.array_equal(found.indices, words.indices)
        assert np.array_equal(found.data, words.data)


def test_texts_without_words_have_no_terms():
    for texts in (["", "..."], [""] * 300, ["same words"] * 300):  # words of all texts tell nothing
        terms, idf, words = fit_words(number_words(texts))
        assert words is None and not len(terms) and not len(idf)


@pytest.mark.parametrize("texts", [0, 1, 30])
def test_products_with_words_are_those_of_scipy(texts):
    words = sp.random(texts, 400, density=0.05, format="csr", dtype=np.float32, random_state=0)
    matrix = np.random.default_rng(0).normal(size=(7, 401)).astype(np.float32)[:, :-1]
    rows = WordRows(words.data, words.indices, words.indptr, words.shape)
    found = rows @ matrix.T
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, words @ matrix.T, atol=1e-6)
    for number in range(texts):
        row = rows.row(number)
        np.testing.assert_array_equal(row.indices, words[[number]].indices)
        np.testing.assert_allclose(row @ matrix.T, found[[number]], atol=1e-6)


def test_whitening_is_the_root_of_the_inverse_covariance_after_shrinkage():
    """Its product with itself is compared: cosines do not depend on which root it is."""
    embeddings = make_keys(LABELS)
    _, _, words = fit_words(number_words(make_texts(LABELS)))
    fitted, _ = fit_document_vectors(embeddings, words, 210)
    vectors = fitted.join(embeddings, words).astype(np.float64)
    covariance = np.cov(vectors.T)
    shrunk = covariance + SHRINKAGE * np.trace(covariance) / len(covariance) * np.eye(len(covariance))
    whitening = fitted.whitening.astype(np.float64)
    np.testing.assert_allclose(whitening @ whitening.T @ shrunk, np.eye(len(shrunk)), atol=1e-4)


@pytest.mark.parametrize("shape", [(300, 400), (400, 300)])
def test_latent_words_are_those_of_scikit_learn(shape):
    words = sp.random(*shape, density=0.1, format="csr", dtype=np.float32, random_state=0)
    found = fit_document_vectors(np.ones((shape[0], 2), np.float32), words, shape[0])[0].components
    svd = TruncatedSVD(shape[0] // TEXTS_PER_DIMENSION, n_iter=SINGULAR_VECTOR_ROUNDS, random_state=0).fit(words)
    np.testing.assert_allclose(np.abs((found * svd.components_).sum(1)), 1, atol=1e-3)


def test_embedding_and_words_have_equal_weight():
    embeddings = make_keys(LABELS)
    _, _, words = fit_words(number_words(make_texts(LABELS)))
    fitted, _ = fit_document_vectors(embeddings, words, 210)
    of_words = unit(words @ fitted.components.T)
    joined = fitted.join(embeddings, words)
    centered = unit(embeddings - embeddings.mean(0))
    np.testing.assert_allclose(joined @ joined.T, (centered @ centered.T + of_words @ of_words.T) / 2, atol=1e-5)
    assert joined.dtype == fitted.whitened(joined).dtype == np.float32


def test_without_words_vectors_are_centered_embeddings():
    embeddings = make_keys(LABELS)
    nothing = sp.csr_matrix((210, 1), dtype=np.float32)
    for words in (None, nothing):
        fitted, _ = fit_document_vectors(embeddings, words, 210)
        joined = fitted.join(embeddings, words)
        np.testing.assert_allclose(joined, unit(embeddings - embeddings.mean(0)), atol=1e-5)


def test_texts_without_words_and_equal_embeddings_give_finite_vectors():
    words = fit_words(number_words(make_texts(LABELS)))[2].tolil()
    words[3] = 0
    fitted, _ = fit_document_vectors(np.ones((210, 4), np.float32), words.tocsr(), 210)
    joined = fitted.join(np.ones((210, 4), np.float32), words.tocsr())
    of_words = joined[:, 4:]  # the centered embeddings are 0
    assert not of_words[3].any() and np.allclose(np.linalg.norm(of_words, axis=1)[4:], 1, atol=1e-5)
    assert np.isfinite(fitted.whitened(joined)).all()
