import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from docsplit_hf.experiments.tasks.held_out import hold_out_groups, hold_out_of_each_class


@given(st.lists(st.integers(0, 5), max_size=60), st.floats(0.01, 0.99), st.integers(0, 9))
def test_every_class_of_two_is_on_both_sides_and_no_row_on_two(labels, share, seed):
    labels = np.array(labels, dtype=np.int64)
    kept, held_out = hold_out_of_each_class(range(len(labels)), labels, share, seed)
    assert sorted([*kept, *held_out]) == list(range(len(labels)))
    for label in np.unique(labels):
        rows, out = (labels == label).sum(), (labels[held_out] == label).sum()
        assert out == (0 if rows == 1 else min(max(round(share * rows), 1), rows - 1))


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 3)), max_size=40), st.floats(0.01, 0.99), st.integers(0, 9))
def test_equal_texts_are_on_one_side_and_every_class_is_kept(rows, share, seed):
    texts, labels = [str(text) for text, _ in rows], np.array([label for _, label in rows], dtype=np.int64)
    kept, held_out = hold_out_of_each_class(texts, labels, share, seed)
    assert sorted([*kept, *held_out]) == list(range(len(rows)))
    assert not {texts[row] for row in kept} & {texts[row] for row in held_out}
    assert set(labels[kept]) == set(labels)


def test_texts_that_are_there_twice_are_held_out_as_those_that_are_there_once_and_the_seed_decides():
    once = hold_out_of_each_class("abcdefghij", np.arange(10) % 2, 0.4)[1]
    twice = hold_out_of_each_class("abcdefghijabcdefghij", np.arange(20) % 2, 0.4)[1]
    assert len(twice) == 2 * len(once) == 8
    rows = [hold_out_of_each_class(range(100), np.arange(100) % 4, 0.3, seed)[1].tolist() for seed in (1, 1, 2)]
    assert rows[0] == rows[1] != rows[2]


@given(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=20), st.floats(0.01, 0.99), st.integers(0, 9))
def test_no_group_is_on_both_sides(groups, share, seed):
    kept, held_out = hold_out_groups(groups, share, seed)
    assert sorted([*kept, *held_out]) == list(range(len(groups)))
    sides = {groups[row] for row in kept}, {groups[row] for row in held_out}
    assert not sides[0] & sides[1] and sides[0]
    assert bool(sides[1]) == (len(set(groups)) > 1)
