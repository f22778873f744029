"""Neighbors, outliers, near-duplicates, suspect labels and confused labels."""

import itertools
from dataclasses import astuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docsplit_hf.arrays.row_table import make_rows
from docsplit_hf.fitting.audit.findings import (
    MAX_CHANGED_SHINGLES,
    MAX_TEXTS_PER_HASH,
    MIN_COMMON_SHINGLES,
    MIN_RIGHT_PROBABILITY,
    MIN_SIMILARITY,
    Nearest,
    candidate_pairs,
    confused_labels,
    duplicate_groups,
    near_duplicates,
    nearest_examples,
    outliers,
    similarities,
    suspect_labels,
    wrong_and_right,
)
from docsplit_hf.fitting.experts.text_vectors import unit
from docsplit_hf.reading.characters import words_of
from docsplit_hf.reading.shingles import MAX_SHINGLES, WORDS_PER_SHINGLE, number_words, shingles_of


def make_vectors(count, copies=0, seed=0):
    vectors = unit(np.random.default_rng(seed).standard_normal((count, 8)).astype(np.float32))
    return np.concatenate([vectors, vectors[:copies]])


@pytest.mark.parametrize("copies", [0, 5])
def test_neighbors_have_the_largest_cosines_and_leave_out_the_example_itself(copies):
    vectors = make_vectors(30, copies)
    found = nearest_examples(vectors, 4)
    cosines = vectors @ vectors.T
    np.fill_diagonal(cosines, -2)
    np.testing.assert_allclose(found.cosines, -np.sort(-cosines, axis=1)[:, :4], atol=1e-6)
    np.testing.assert_allclose(np.take_along_axis(cosines, found.rows, 1), found.cosines, atol=1e-6)
    np.testing.assert_allclose(found.closeness(), found.cosines.mean(1), atol=1e-6)


def test_neighbors_missed_by_an_index_are_not_counted(monkeypatch):
    rows = np.array([[1, -1, -1], [0, 2, 1], [2, 1, -1]])  # the index missed the first example itself
    monkeypatch.setattr("docsplit_hf.fitting.audit.findings.nearest_rows", lambda vectors, k: rows.copy())
    vectors = make_vectors(3)
    found = nearest_examples(vectors, 2)
    assert found.rows.tolist() == [[1, -1], [0, 2], [1, -1]]
    assert found.closeness()[0] == pytest.approx(float(vectors[0] @ vectors[1]))
    values = np.array([7, 8, 7])
    assert [found.agreeing(values, row, 7) for row in (1, 2)] == [2, 0]


def test_outliers_lie_below_the_lower_tukey_fence():
    closeness = np.array([0.5, 0.6, 0.7, 0.8, 0.55, 0.65, 0.75, 0.44, 0.02, 0.01, 0.6, 0.62, 0.58, 0.22])
    first, third = np.quantile(closeness, [0.25, 0.75])
    assert 0.02 < first - 1.5 * (third - first) < 0.22 < first - (third - first)
    assert outliers(closeness).tolist() == [9, 8]
    assert outliers(np.full(5, 0.3)).tolist() == []


def triples(text):
    words = words_of(text)
    length = min(WORDS_PER_SHINGLE, len(words))
    return {tuple(words[i : i + length]) for i in range(len(words) - length + 1)} if words else set()


def sentences(count, seed=0, length=12):
    rng = np.random.default_rng(seed)
    return [" ".join(f"w{word}" for word in rng.integers(0, 3_000, length)) + "." for _ in range(count)]


def found(texts):
    pairs = near_duplicates(texts)
    return dict(zip(map(tuple, pairs.rows.tolist()), pairs.similarity.tolist(), strict=True))


@given(st.lists(st.lists(st.sampled_from("abcdef"), max_size=30).map(lambda w: " ".join(c * 2 for c in w)), max_size=7))
def test_similarity_is_the_fraction_of_common_triples(texts):
    expected = {}
    for i, j in itertools.combinations(range(len(texts)), 2):
        first = triples(texts[i])
        second = triples(texts[j])
        common = len(first & second)
        longer = max(len(first), len(second))
        similarity = 2 * common / max(len(first) + len(second), 1)
        differs_by_a_sentence = common >= MIN_COMMON_SHINGLES and longer - common <= MAX_CHANGED_SHINGLES
        if similarity >= MIN_SIMILARITY or differs_by_a_sentence:
            expected[i, j] = pytest.approx(similarity)
    assert found(texts) == expected


@given(st.lists(st.text(max_size=60), max_size=6), st.text(min_size=1, max_size=60))
def test_a_copy_is_found_among_any_texts(texts, text):
    pairs = found([text, *texts, text])
    assert all(i < j and 0 < similarity <= 1 for (i, j), similarity in pairs.items())
    assert (0, len(texts) + 1) in pairs or not triples(text)


@pytest.mark.parametrize("count", [3, 8, 40, 400])
def test_copies_with_one_changed_sentence_are_found(count):
    texts = [sentences(count, seed) for seed in range(20)]
    changed = [*texts[3][: count // 2], *sentences(1, 99), *texts[3][count // 2 + 1 :]]
    pairs = found([" ".join(text) for text in [*texts, changed]])
    assert list(pairs) == [(3, 20)]
    assert pairs[3, 20] == pytest.approx(1 - 1 / count, abs=0.08)


def test_duplicates_in_scripts_without_spaces_and_among_short_texts():
    text = "北京大学是中国的一所综合性大学，位于北京市海淀区。学校的前身是京师大学堂。"
    assert list(found([text, "上海的天气今天很好，我们去公园散步吧。", text.replace("海淀", "朝阳")])) == [(0, 2)]
    assert found(["book a flight from boston to denver", "book a flight from dallas to oakland"]) == {}


def test_a_common_beginning_does_not_affect_duplicates():
    head = " ".join(sentences(2, 5))
    texts = [f"{head} {' '.join(sentences(20, 100 + seed))}" for seed in range(MAX_TEXTS_PER_HASH + 20)]
    assert list(found([*texts, texts[7].replace("w1", "v1", 1)])) == [(7, MAX_TEXTS_PER_HASH + 20)]
    copies = found([texts[0]] * (MAX_TEXTS_PER_HASH + 20))  # each and the next one: enough for a group
    assert {(i, i + 1) for i in range(MAX_TEXTS_PER_HASH + 19)} <= set(copies)


def test_similarity_of_long_texts_is_estimated():
    long = [" ".join(sentences(100, seed)) for seed in (1, 2)]
    half = long[0][: len(long[0]) // 2]
    texts = [long[0], half, f"{half} {long[1]}"]
    pairs = np.array([[0, 1], [0, 2], [1, 2]])
    shingles = shingles_of(number_words(texts).of_texts)
    sets = [triples(text) for text in texts]
    assert shingles.counts.tolist() == [len(own) for own in sets]
    assert shingles.sets.sum(1).tolist() == [MAX_SHINGLES] * 3
    exact = [2 * len(sets[i] & sets[j]) / (len(sets[i]) + len(sets[j])) for i, j in pairs]
    np.testing.assert_allclose(similarities(shingles, pairs), exact, atol=0.09)
    assert {(0, 1), (1, 2)} <= set(map(tuple, candidate_pairs(shingles.sets).tolist()))


def groups_of(texts, pairs=None):
    rows = make_rows(len(texts), map(str, range(len(texts))), texts, pairs)
    return [(group.rows, group.exact) for group in duplicate_groups(rows)]


def test_copies_of_copies_are_one_group_and_exact_ones_come_first():
    texts = [sentences(12, seed) for seed in range(4)]
    first = texts[0].copy()
    second = texts[0].copy()
    first[2], second[9] = sentences(2, 50)
    written = [" ".join(text) for text in [*texts, first, second]]
    assert groups_of([*written, written[2], "!?", "...", "!?"]) == [([2, 6], True), ([7, 9], True), ([0, 4, 5], False)]
    assert groups_of([written[0], written[0].upper()]) == [([0, 1], False)]  # equal words are not an equal text
    assert groups_of([written[0]] * 3, pairs=[written[1], written[2], written[1]]) == [([0, 2], True)]
    assert groups_of(["one text"]) == groups_of(["one text", None]) == groups_of(["", "a"]) == []


def made_up(count=200, wrong=10, classes=3, clear=3.0, sharpness=1.0, seed=0):
    """Labels with some wrong ones, and probabilities; too unsure ones for a ``sharpness`` below 1."""
    rng = np.random.default_rng(seed)
    right = rng.integers(0, classes, count)
    logits = rng.standard_normal((count, classes)) + clear * np.eye(classes)[right]
    odds = np.exp(clear * logits)
    right = (rng.random((count, 1)) > np.cumsum(odds / odds.sum(1, keepdims=True), axis=1)).sum(1)
    probabilities = odds**sharpness / (odds**sharpness).sum(1, keepdims=True)
    labels = right.copy()
    rows = rng.choice(count, wrong, replace=False)
    labels[rows] = (labels[rows] + rng.integers(1, classes, wrong)) % classes
    return labels, probabilities, rows, right


def near_of(right):
    return Nearest(np.array([np.flatnonzero(right == label)[:2] for label in right]), np.ones((len(right), 2)))


@pytest.mark.parametrize("sharpness", [0.4, 1])
@pytest.mark.parametrize(("count", "classes"), [(125, 25), (300, 4)])
@pytest.mark.parametrize("share", [0, 0.05, 0.2])
def test_expected_number_of_wrong_labels_is_about_right(count, classes, sharpness, share):
    found = []
    for seed in range(3):
        labels, probabilities, _, _ = made_up(count, round(share * count), classes, 3, sharpness, seed)
        found.append(wrong_and_right(labels, probabilities)[0].sum())
    assert np.mean(found) == pytest.approx(share * count, rel=0.35, abs=3)


def test_sure_suggestions_are_right():
    hits = 0
    total = 0
    for seed in range(5):
        labels, probabilities, _, right = made_up(seed=seed, wrong=20)
        suspects = suspect_labels(labels, np.arange(200), probabilities, near_of(right))[0]
        total += sum(suspect.sure for suspect in suspects)
        hits += sum(suspect.sure and suspect.suggested == right[suspect.row] for suspect in suspects)
    assert hits >= 0.9 * total > 40


def test_suspect_labels_have_a_suggestion_and_evidence():
    labels, probabilities, rows, right = made_up()
    suspects, expected = suspect_labels(labels, np.arange(200), probabilities, near_of(right))
    assert [suspect.probability for suspect in suspects] == sorted(suspect.probability for suspect in suspects)
    assert {suspect.row for suspect in suspects[:5]} < set(rows.tolist())
    wrong, _ = wrong_and_right(labels, probabilities)
    assert expected == pytest.approx(wrong.sum())
    for suspect in suspects:
        row = suspect.row
        assert suspect.suggested == probabilities[row].argmax() != labels[row]
        assert suspect.probability == pytest.approx(1 - wrong[row]) and suspect.probability <= 0.9
        assert suspect.near_given == 2 * (right[row] == labels[row])
        assert suspect.near_suggested == 2 * (right[row] == suspect.suggested)


def test_multi_label_entries_are_checked_one_by_one():
    right = np.array([[1, 0], [1, 1], [0, 1], [1, 0]] * 25, bool)
    sure = np.random.default_rng(0).uniform(0.7, 0.999, right.shape).astype(np.float32)
    sure[[0, 5, 6]] = 0.999
    probabilities = np.where(right, sure, 1 - sure)
    labels = right.copy()
    labels[0, 0] = False
    labels[5, 0] = False
    labels[6] = [True, False]
    near = Nearest(np.array([np.flatnonzero((right == own).all(1) & (np.arange(100) > 8))[:2] for own in right]), None)
    suspects, expected = suspect_labels(labels, np.arange(100), probabilities, near)
    assert {suspect.row: suspect.suggested for suspect in suspects} == {0: [0], 5: [0, 1], 6: [1]}
    assert suspects[0].near_given == 0 and suspects[0].near_suggested == 2
    assert expected == pytest.approx(4, abs=0.5)
    assert all(suspect.sure and suspect.probability < 1 - MIN_RIGHT_PROBABILITY for suspect in suspects)


def test_confused_labels_are_counted():
    labels = np.repeat([0, 1, 2, 0, 1, 1, 2], [6, 8, 30, 4, 2, 1, 2])
    answers = np.repeat([0, 1, 2, 1, 0, 2, 1], [6, 8, 30, 4, 2, 1, 2])
    # 0 and 1 are confused in 6 of 20 examples; 1 and 2 in 3 of 41, which is too few
    assert [astuple(found) for found in confused_labels(labels, answers, "abcd")] == [("a", "b", 4, 2, 0.3)]
    assert confused_labels(np.array([0, 1]), np.array([1, 0]), "ab") == []
    assert confused_labels(np.zeros(0, int), np.zeros(0, int), "abc") == []
