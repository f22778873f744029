import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics.pairwise import cosine_similarity

from experiments.evaluation.systems import load_system
from experiments.protocols import redundancy
from experiments.protocols.jackknife import half_interval
from experiments.protocols.redundancy import (
    mean_by_length,
    nouns_and_verbs_ratio,
    pair_similarity,
    sentence_similarity,
)


def similarity_of_all_pairs(features, documents):
    """The definition, pair by pair."""
    similarities = cosine_similarity(features)
    same = documents[:, None] == documents
    return {
        "within": similarities[same & ~np.eye(len(documents), dtype=bool)].mean(),
        "between": similarities[~same].mean(),
    }


def test_ratio_of_known_words(tagger):
    texts = [
        "The river feeds the small valley.",  # 3 of 3
        "The river feeds the valley, and rivers feed small valleys.",  # 6 of 3
        "River river RIVER engine!",  # 4 of 2
        "Small, of course.",
        "",
    ]
    ratios, lengths = nouns_and_verbs_ratio(texts, tagger)
    assert ratios == pytest.approx([1, 2, 2, np.nan, np.nan], nan_ok=True)
    assert lengths.tolist() == [6, 10, 4, 3, 0]


def test_buckets_have_the_papers_bounds(caplog):
    lengths = np.array([0, 1, 50, 51, 100, 101, 200, 201, 300, 301, 9000])
    ratios = np.array([np.nan, *range(10)])
    found = mean_by_length(ratios, lengths)
    assert found["0-50_interval"] == pytest.approx(12.706205 / 2)  # of 0 and 1
    means = {name: value for name, value in found.items() if "_" not in name}
    assert means == {"0-50": 0.5, "51-100": 2.5, "101-200": 4.5, "201-300": 6.5, "more than 300": 8.5, "all": 4.5}
    assert "1 of 11 documents have no noun or verb" in caplog.text
    assert mean_by_length(np.array([1.5]), np.array([70])) == {"51-100": 1.5, "all": 1.5}
    with pytest.raises(ValueError, match="None of 1 documents has a noun or a verb"):
        mean_by_length(np.array([np.nan]), np.array([70]))


@given(seed=st.integers(0, 99), sizes=st.lists(st.integers(1, 5), min_size=2, max_size=6).filter(lambda s: max(s) > 1))
def test_similarity_equals_the_mean_over_all_pairs_dense_or_sparse(seed, sizes):
    documents = np.repeat(np.arange(len(sizes)), sizes)
    features = np.random.default_rng(seed).normal(size=(len(documents), 3)).astype(np.float32)
    features[0] = 0  # a sentence of unknown words
    expected = similarity_of_all_pairs(features, documents)
    if len(sizes) > 2 and sorted(sizes)[-2] > 1:  # two documents with pairs: each can be left out
        kept = [documents != number for number in range(len(sizes))]
        without_each = [similarity_of_all_pairs(features[rows], documents[rows]) for rows in kept]
        intervals = {name: half_interval(np.array([one[name] for one in without_each])) for name in expected}
        expected |= {f"{name}_interval": half for name, half in intervals.items()}
    for found in (pair_similarity(features, documents), pair_similarity(scipy.sparse.csr_matrix(features), documents)):
        assert {name: found[name] for name in expected} == pytest.approx(expected, abs=1e-6)


def test_similarity_of_texts_is_the_definition(texts):
    sentences = [part.strip() + "." for text in texts for part in text.removesuffix(".").split(". ")]
    documents = np.repeat(np.arange(len(texts)), [4 + number % 5 for number in range(len(texts))])
    assert len(sentences) == len(documents)
    system = load_system("tfidf")
    [features] = system.features(sentences)
    found = sentence_similarity(system, texts, 0)
    expected = similarity_of_all_pairs(features, documents)
    assert {name: found[name] for name in expected} == pytest.approx(expected, abs=1e-6)
    assert found["within"] > found["between"] + 0.1


def test_draws_are_repeatable_within_bounds_and_counted(texts, caplog, monkeypatch):
    monkeypatch.setattr(redundancy, "MAX_DOCUMENTS", 10)
    monkeypatch.setattr(redundancy, "MAX_SENTENCES", 3)
    system = load_system("tfidf")
    first = sentence_similarity(system, [*texts, " "], seed=1)
    again = sentence_similarity(system, [*texts, " "], seed=1)
    other = sentence_similarity(system, [*texts, " "], seed=2)
    assert "of 49 documents 1 are blank, 10 are drawn, and 30 of their" in caplog.text
    assert first == again != other
