from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docsplit_hf.text.holding_out import fingerprint, hold_out

rows = st.lists(st.tuples(st.integers(0, 8), st.sets(st.integers(0, 4), max_size=2)), min_size=1, max_size=40)


@given(rows, st.integers(0, 40), st.integers(0, 5))
def test_groups_stay_together_and_no_class_loses_its_last_example(rows, count, seed):
    texts, labels = np.array([text for text, _ in rows]), [classes for _, classes in rows]
    kept, held_out = hold_out(texts, count, seed, labels)
    assert sorted([*kept, *held_out]) == list(range(len(rows)))
    assert len(held_out) <= count and len(kept) > 0
    assert not set(texts[kept]) & set(texts[held_out])
    assert {label for row in kept for label in labels[row]} == {label for row in labels for label in row}
    again = hold_out(texts, count, seed, labels)
    assert kept.tolist() == again[0].tolist() and held_out.tolist() == again[1].tolist()


@given(st.integers(1, 30), st.integers(1, 30), st.integers(0, 5))
def test_where_nothing_stands_in_the_way_the_count_is_exact_and_the_classes_in_proportion(first, second, seed):
    labels = [[0]] * (10 * first) + [[1]] * (10 * second)
    _, held_out = hold_out(np.arange(len(labels)), first + second, seed, labels)
    assert Counter(labels[row][0] for row in held_out) == {0: first, 1: second}


def test_small_classes_are_held_out_by_chance_at_their_share():
    labels = [[0]] * 90 + [[1]] * 5 + [[2]] * 5
    drawn = Counter(labels[row][0] for seed in range(400) for row in hold_out(np.arange(100), 10, seed, labels)[1])
    assert drawn[1] / 4000 == pytest.approx(0.05, abs=0.01) and drawn[2] / 4000 == pytest.approx(0.05, abs=0.01)


def test_more_classes_than_examples_to_hold_out():
    labels = [[number // 2] for number in range(60)]
    _, held_out = hold_out(np.arange(60), 6, 0, labels)
    assert len(held_out) == len({labels[row][0] for row in held_out}) == 6


def test_rows_are_equal_if_their_columns_are_and_not_if_only_the_joined_texts_are():
    assert fingerprint(["ab", "c"]) == fingerprint(("ab", "c"))
    assert len({fingerprint(row) for row in (["ab", "c"], ["a", "bc"], ["abc"], ["ab", "c\ud800"], ["ab", None])}) == 5
