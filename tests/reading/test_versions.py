"""group_versions: texts that share much of their words."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import GroupKFold

from docsplit_hf import group_versions
from docsplit_hf.reading.characters import words_of
from docsplit_hf.reading.shingles import MAX_SHINGLES, number_words
from docsplit_hf.reading.versions import (
    MAX_FRACTION_OF_GROUP,
    MAX_HOLDERS,
    MAX_SMALL_GROUP,
    MIN_COMMON,
    MIN_COMMON_OF_SHORT_TEXTS,
    MIN_SHARE,
    MIN_SHARE_OF_SHORT_TEXTS,
    VersionPairs,
    groups_of_pairs,
    version_pairs,
)


def article(words, seed):
    return " ".join(f"w{word}" for word in np.random.default_rng(seed).integers(0, 5_000, words))


def shortened(text, dropped=1 / 3, seed=0):
    rng = np.random.default_rng(seed)
    return " ".join(word for word in text.split() if rng.random() >= dropped)


def partition(groups):
    return {tuple(np.flatnonzero(groups == group).tolist()) for group in np.unique(groups)}


@pytest.mark.parametrize("words", [100, 600, 4_000])
def test_drafts_of_one_text_are_in_one_group(words):
    articles = [article(words, seed) for seed in range(10)]
    texts = [*articles, *(shortened(text, seed=i) for i, text in enumerate(articles))]
    assert group_versions(texts).tolist() == [*range(10), *range(10)]


def test_a_draft_in_chinese_is_a_version():
    text = "北京大学是中国的一所综合性大学位于北京市海淀区学校的前身是京师大学堂创办于一八九八年"
    others = ["上海的天气今天很好我们去公园散步吧", "第一次在这里见到这么多的人"]
    assert group_versions([text, others[0], f"{text[:20]}新增{text[22:]}", others[1]]).tolist() == [0, 1, 0, 2]


def test_texts_with_few_words_are_alone_and_equal_texts_together():
    texts = ["", "!", "?", "", "!", "one", "one", "class A", "class B"]
    assert group_versions(texts).tolist() == [0, 1, 2, 0, 1, 3, 3, 4, 5]
    assert group_versions([]).tolist() == [] and group_versions([]).dtype == np.int64


def test_phrases_of_short_texts_do_not_make_them_versions():
    texts = ["book a flight from boston to denver", "book a flight from boston to oakland please", "book a flight"]
    assert group_versions(texts * 2).tolist() == [0, 1, 2] * 2


def test_a_part_of_a_long_text_is_a_version_of_it():
    long = [article(4 * MAX_SHINGLES, seed) for seed in range(6)]
    texts = [*long, " ".join(long[2].split()[100:500])]
    assert group_versions(texts).tolist() == [0, 1, 2, 3, 4, 5, 2]


def test_a_common_form_makes_no_versions():
    form = article(300, 99)
    texts = [f"{form} {article(60, seed)}" for seed in range(MAX_HOLDERS + 1)]
    assert len(set(group_versions(texts))) == len(texts)
    assert len(set(group_versions([*texts, shortened(texts[3], 0.2)]))) == len(texts)  # what was filled in is alike


def triples(text):
    words = words_of(text)
    width = min(3, len(words))
    return {tuple(words[i : i + width]) for i in range(len(words) - width + 1)} if words else set()


@given(st.lists(st.lists(st.sampled_from("abcd"), max_size=40).map(lambda w: " ".join(c * 2 for c in w)), max_size=7))
def test_pairs_are_those_of_the_definition(texts):
    texts = list(dict.fromkeys(texts))
    expected = set()
    for i, j in itertools.combinations(range(len(texts)), 2):
        first = triples(texts[i])
        second = triples(texts[j])
        common = len(first & second)
        shorter = min(len(first), len(second))
        shares_much = common >= MIN_COMMON and common >= MIN_SHARE * shorter
        share_of_both = 2 * common / max(len(first) + len(second), 1)
        if shares_much or (common >= MIN_COMMON_OF_SHORT_TEXTS and share_of_both >= MIN_SHARE_OF_SHORT_TEXTS):
            expected.add((i, j))
    assert set(map(tuple, version_pairs(number_words(texts).of_texts).rows.tolist())) == expected


@given(st.integers(1, 60), st.integers(0, 120), st.integers(0, 99))
def test_no_group_is_too_large_and_no_pair_is_needed_twice(count, edges, seed):
    rng = np.random.default_rng(seed)
    rows = np.sort(rng.integers(0, count, (edges, 2)), axis=1)
    rows = rows[rows[:, 0] < rows[:, 1]]
    pairs = VersionPairs(rows, rng.uniform(MIN_SHARE, 1, len(rows)))
    groups = groups_of_pairs(pairs, np.ones(count, int))
    limit = max(int(MAX_FRACTION_OF_GROUP * count), min(MAX_SMALL_GROUP, count // 2), 1)
    assert np.bincount(groups).max() <= limit
    assert np.unique(groups, return_index=True)[1].tolist() == sorted(np.unique(groups, return_index=True)[1])
    order = rng.permutation(count)  # the order of the texts changes nothing
    place = np.argsort(order)
    moved = groups_of_pairs(VersionPairs(np.sort(place[rows], axis=1), pairs.share), np.ones(count, int))
    assert partition(moved[place]) == partition(groups)


def test_scikit_learn_takes_the_groups():
    texts = [text for seed in range(9) for text in (article(80, seed), shortened(article(80, seed), 0.2))]
    groups = group_versions(texts)
    for train, test in GroupKFold(3).split(texts, groups=groups):
        assert not set(groups[train]) & set(groups[test])
