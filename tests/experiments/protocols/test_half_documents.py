import logging

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import TfidfVectorizer

from docsplit_hf.experiments.protocols.half_documents import half_texts, retrieval_metrics


def test_the_sentences_of_both_halves_are_those_of_the_text_in_their_order():
    texts = ["".join(f"Sentence {i} of {n}. " for i in range(n)) for n in range(2, 12)]
    first, second = half_texts(texts, seed=3)
    assert (first, second) == half_texts(texts, seed=3) != half_texts(texts, seed=4)
    assert len(first) == len(second) == len(texts)
    for text, *halves in zip(texts, first, second, strict=True):
        places = [[text.index(sentence) for sentence in half.strip().split(". ")] for half in halves]
        assert all(half == sorted(half) for half in places)
        assert len(set(places[0] + places[1])) == text.count(".") == len(places[0] + places[1])


@given(st.lists(st.text(alphabet="ab. \n!", max_size=20), max_size=6))
def test_no_character_is_lost_of_any_text(texts):
    try:
        first, second = half_texts(texts, 0)
    except ValueError:
        return
    whole = {"".join(sorted(text)) for text in texts}
    assert all("".join(sorted(one + other)) in whole for one, other in zip(first, second, strict=True))
    assert all(half for half in first + second)


def test_single_sentences_and_repeated_texts_are_left_out_and_counted(caplog):
    with caplog.at_level(logging.INFO, "docsplit_hf"):
        first, _ = half_texts(["One. Two.", "Alone.", "One. Two.", "", "Three. Four."], 0)
    assert len(first) == 2
    assert "2 of 5 documents. Left out: 2 of one sentence, 1 repeated." in caplog.text
    with pytest.raises(ValueError, match="1 of 2 documents have halves"):
        half_texts(["One. Two.", "Alone."], 0)


def test_dense_and_sparse_features_find_the_same(texts):
    first, second = half_texts(texts, 0)
    vectorizer = TfidfVectorizer().fit(texts)
    sparse = [vectorizer.transform(half) for half in (first, second)]
    score = retrieval_metrics(*sparse)
    assert score == pytest.approx(retrieval_metrics(*(half.toarray() for half in sparse)), abs=1e-6)
    assert score["recall@1"] > 0.9  # each sentence names the number of its document


def test_the_same_halves_are_found_and_equal_ones_are_not():
    features = np.random.default_rng(0).normal(size=(1500, 8))
    assert retrieval_metrics(features, 2 * features)["mrr"] == 1.0
    assert retrieval_metrics(np.ones((30, 2)), np.ones((30, 2)))["recall@10"] == 0.0
    zeros = scipy.sparse.csr_matrix((30, 2))
    assert retrieval_metrics(zeros, zeros)["recall@10"] == 0.0


def test_a_system_that_gives_nan_is_refused():
    with pytest.raises(ValueError, match="the second halves: row 0 holds NaN"):
        retrieval_metrics(np.eye(2), np.eye(2) * np.nan)
