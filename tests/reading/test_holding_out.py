"""Held-out rows: equal texts and versions together, classes kept, proportions."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docsplit_hf.reading.holding_out import fingerprint, groups_to_hold_out, hold_out, hold_out_of_each_class

rows = st.lists(st.tuples(st.integers(0, 8), st.sets(st.integers(0, 4), max_size=2)), min_size=1, max_size=40)


@given(rows, st.integers(0, 40), st.integers(0, 5))
def test_groups_stay_together_and_no_class_loses_its_last_example(rows, count, seed):
    texts = np.array([text for text, _ in rows])
    labels = [classes for _, classes in rows]
    kept, held_out = hold_out(texts, count, seed, labels)
    assert sorted([*kept, *held_out]) == list(range(len(rows)))
    assert len(held_out) <= count and len(kept) > 0
    assert not set(texts[kept]) & set(texts[held_out])
    assert {label for row in kept for label in labels[row]} == {label for row in labels for label in row}
    again = hold_out(texts, count, seed, labels)
    assert kept.tolist() == again[0].tolist() and held_out.tolist() == again[1].tolist()


@given(st.integers(1, 30), st.integers(1, 30), st.integers(0, 5))
def test_different_texts_are_held_out_exactly_in_proportion(first, second, seed):
    labels = [[0]] * (10 * first) + [[1]] * (10 * second)
    _, held_out = hold_out(np.arange(len(labels)), first + second, seed, labels)
    assert Counter(labels[row][0] for row in held_out) == {0: first, 1: second}


def test_small_classes_are_held_out_in_proportion_on_average():
    labels = [[0]] * 90 + [[1]] * 5 + [[2]] * 5
    drawn = Counter(labels[row][0] for seed in range(400) for row in hold_out(np.arange(100), 10, seed, labels)[1])
    assert drawn[1] / 4000 == pytest.approx(0.05, abs=0.01) and drawn[2] / 4000 == pytest.approx(0.05, abs=0.01)


def test_more_classes_than_examples_to_hold_out():
    labels = [[number // 2] for number in range(60)]
    _, held_out = hold_out(np.arange(60), 6, 0, labels)
    assert len(held_out) == len({labels[row][0] for row in held_out}) == 6


def test_fingerprints_distinguish_columns_with_equal_joined_texts():
    assert fingerprint(["ab", "c"]) == fingerprint(("ab", "c"))
    assert len({fingerprint(row) for row in (["ab", "c"], ["a", "bc"], ["abc"], ["ab", "c\ud800"], ["ab", None])}) == 5


@given(st.lists(st.integers(0, 5), max_size=60), st.floats(0.01, 0.99), st.integers(0, 9))
def test_a_class_of_two_rows_is_on_both_sides(labels, share, seed):
    labels = np.array(labels, dtype=np.int64)
    kept, held_out = hold_out_of_each_class(range(len(labels)), labels, share, seed)
    assert sorted([*kept, *held_out]) == list(range(len(labels)))
    for label in np.unique(labels):
        rows = (labels == label).sum()
        held_out_rows = (labels[held_out] == label).sum()
        assert held_out_rows == (0 if rows == 1 else min(max(round(share * rows), 1), rows - 1))


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 3)), max_size=40), st.floats(0.01, 0.99), st.integers(0, 9))
def test_equal_texts_are_on_one_side_and_every_class_is_kept(rows, share, seed):
    texts = [str(text) for text, _ in rows]
    labels = np.array([label for _, label in rows], dtype=np.int64)
    kept, held_out = hold_out_of_each_class(texts, labels, share, seed)
    assert sorted([*kept, *held_out]) == list(range(len(rows)))
    assert not {texts[row] for row in kept} & {texts[row] for row in held_out}
    assert set(labels[kept]) == set(labels)


def test_repeated_texts_are_as_likely_held_out_and_the_seed_decides():
    once = hold_out_of_each_class("abcdefghij", np.arange(10) % 2, 0.4)[1]
    twice = hold_out_of_each_class("abcdefghijabcdefghij", np.arange(20) % 2, 0.4)[1]
    assert len(twice) == 2 * len(once) == 8
    rows = [hold_out_of_each_class(range(100), np.arange(100) % 4, 0.3, seed)[1].tolist() for seed in (1, 1, 2)]
    assert rows[0] == rows[1] != rows[2]


WORDS = [f"{a}{b}" for a in "bcdfghklmnp" for b in ("ado", "eri", "una", "ilo", "oge", "ase")]


def draft(number, version):
    """A text of 60 words; another version of it has another word at another place."""
    words = np.random.default_rng(number).choice(WORDS, 60).tolist()
    words[10 * version] = f"version{version}"
    return " ".join(words)


def test_versions_and_copies_are_in_one_group_unless_a_class_has_no_others():
    texts = [draft(number, version) for number in range(20) for version in range(3)] + ["A copy."] * 2
    number_of_text = [number for number in range(20) for _ in range(3)] + [20] * 2
    labels = [[version] for _ in range(20) for version in range(3)] + [[3]] * 2
    groups = groups_to_hold_out(texts, labels)
    assert len({*zip(groups.tolist(), number_of_text, strict=True)}) == len({*groups.tolist()}) == 21
    labels[:3] = [[4], [4], [4]]
    divided = groups_to_hold_out(texts, labels)
    assert len({*divided[:3].tolist()}) == 3
    assert len({*divided.tolist()}) == 23
    assert not {*divided[:3].tolist()} & {*divided[3:].tolist()}


@given(st.lists(st.tuples(st.text(max_size=3), st.sets(st.integers(0, 2), max_size=2)), max_size=20))
def test_short_texts_are_grouped_by_equality_alone(rows):
    texts = [text for text, _ in rows]
    groups = groups_to_hold_out(texts, [classes for _, classes in rows])
    assert len({*zip(groups.tolist(), texts, strict=True)}) == len({*groups.tolist()}) == len({*texts})
