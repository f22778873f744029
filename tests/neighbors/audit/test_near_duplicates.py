import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docsplit_hf.neighbors.audit.near_duplicates import (
    MOST_TEXTS,
    SENTENCE_CHANGED,
    SENTENCE_IN_COMMON,
    SIMILAR,
    candidate_pairs,
    near_duplicates,
    similarities,
)
from docsplit_hf.neighbors.audit.shingles import shingles_of

from .test_shingles import triples


def sentences(count, seed=0, length=12):
    rng = np.random.default_rng(seed)
    return [" ".join(f"w{word}" for word in rng.integers(0, 3_000, length)) + "." for _ in range(count)]


def found(texts):
    pairs, similarity = near_duplicates(texts)
    return dict(zip(map(tuple, pairs.tolist()), similarity.tolist(), strict=True))


@settings(deadline=None)
@given(st.lists(st.lists(st.sampled_from("abcdef"), max_size=30).map(lambda w: " ".join(c * 2 for c in w)), max_size=7))
def test_similarity_is_the_share_of_triples_in_common(texts):
    expected = {}
    for i, j in itertools.combinations(range(len(texts)), 2):
        first, second = triples(texts[i]), triples(texts[j])
        common, longer = len(first & second), max(len(first), len(second))
        similarity = 2 * common / max(len(first) + len(second), 1)
        is_sentence = common >= SENTENCE_IN_COMMON and longer - common <= SENTENCE_CHANGED
        if similarity >= SIMILAR or is_sentence:
            expected[i, j] = pytest.approx(similarity)
    assert found(texts) == expected


@settings(deadline=None)
@given(st.lists(st.text(max_size=60), max_size=6), st.text(min_size=1, max_size=60))
def test_any_texts_are_compared_and_a_copy_is_found(texts, text):
    pairs = found([text, *texts, text])
    assert all(i < j and 0 < similarity <= 1 for (i, j), similarity in pairs.items())
    assert (0, len(texts) + 1) in pairs or not triples(text)


@pytest.mark.parametrize("count", [3, 8, 40, 400])
def test_a_changed_sentence_is_found_in_short_texts_and_in_long_ones(count):
    texts = [sentences(count, seed) for seed in range(20)]
    changed = [*texts[3][: count // 2], *sentences(1, 99), *texts[3][count // 2 + 1 :]]
    pairs = found([" ".join(text) for text in [*texts, changed]])
    assert list(pairs) == [(3, 20)]
    assert pairs[3, 20] == pytest.approx(1 - 1 / count, abs=0.08)


def test_a_script_without_spaces():
    text = "北京大学是中国的一所综合性大学，位于北京市海淀区。学校的前身是京师大学堂。"
    assert list(found([text, "上海的天气今天很好，我们去公园散步吧。", text.replace("海淀", "朝阳")])) == [(0, 2)]


def test_short_texts_of_one_form_are_no_copies():
    assert found(["book a flight from boston to denver", "book a flight from dallas to oakland"]) == {}


def test_what_all_texts_begin_with_does_not_make_them_copies_nor_hides_them():
    head = " ".join(sentences(2, 5))
    texts = [f"{head} {' '.join(sentences(20, 100 + seed))}" for seed in range(MOST_TEXTS + 20)]
    assert list(found([*texts, texts[7].replace("w1", "v1", 1)])) == [(7, MOST_TEXTS + 20)]
    copies = found([texts[0]] * (MOST_TEXTS + 20))  # each and the next one: enough for a group
    assert {(i, i + 1) for i in range(MOST_TEXTS + 19)} <= set(copies)


def test_of_long_texts_the_similarity_is_estimated_well():
    long = [" ".join(sentences(100, seed)) for seed in (1, 2)]
    half = long[0][: len(long[0]) // 2]
    shingles = shingles_of([long[0], half, f"{half} {long[1]}"])
    pairs = np.array([[0, 1], [0, 2], [1, 2]])
    sets = [triples(text) for text in (long[0], half, f"{half} {long[1]}")]
    exact = [2 * len(sets[i] & sets[j]) / (len(sets[i]) + len(sets[j])) for i, j in pairs]
    np.testing.assert_allclose(similarities(shingles, pairs), exact, atol=0.09)
    assert {(0, 1), (1, 2)} <= set(map(tuple, candidate_pairs(shingles).tolist()))
