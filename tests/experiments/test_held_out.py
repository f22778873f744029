import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from docsplit_hf.experiments.held_out import hold_out, hold_out_groups


@given(st.lists(st.integers(0, 5), max_size=60), st.floats(0.01, 0.99), st.integers(0, 9))
def test_every_class_of_two_is_on_both_sides_and_no_row_on_two(labels, share, seed):
    labels = np.array(labels, dtype=np.int64)
    kept, held_out = hold_out(labels, share, seed)
    assert sorted([*kept, *held_out]) == list(range(len(labels)))
    for label in np.unique(labels):
        rows, out = (labels == label).sum(), (labels[held_out] == label).sum()
        assert out == (0 if rows == 1 else min(max(round(share * rows), 1), rows - 1))


@settings(max_examples=50)
@given(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=20), st.floats(0.01, 0.99), st.integers(0, 9))
def test_no_group_is_on_both_sides(groups, share, seed):
    kept, held_out = hold_out_groups(groups, share, seed)
    assert sorted([*kept, *held_out]) == list(range(len(groups)))
    sides = {groups[row] for row in kept}, {groups[row] for row in held_out}
    assert not sides[0] & sides[1]
    assert sides[0]
    assert bool(sides[1]) == (len(set(groups)) > 1)


def test_the_seed_decides():
    labels = np.arange(100) % 4
    assert np.array_equal(hold_out(labels, 0.3, 1)[1], hold_out(labels, 0.3, 1)[1])
    assert not np.array_equal(hold_out(labels, 0.3, 1)[1], hold_out(labels, 0.3, 2)[1])
