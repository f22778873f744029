import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docsplit_hf.experiments.protocols.few_shot import sample_per_class


@given(st.integers(1, 6), st.integers(0, 99))
def test_each_class_gives_as_many_and_fewer_shots_are_among_more(shots, seed):
    labels = np.random.default_rng(0).permutation(np.repeat([0, 2, 5], [6, 7, 40]))
    rows = sample_per_class(labels, shots, seed, list("abcdef"))
    assert len(set(rows)) == len(rows)
    assert np.bincount(labels[rows]).tolist() == [shots, 0, shots, 0, 0, shots]
    assert shots == 1 or set(sample_per_class(labels, shots - 1, seed, list("abcdef"))) < set(rows)


def test_the_classes_that_are_too_small_are_named():
    labels = np.repeat([0, 1, 2], [3, 9, 4])
    with pytest.raises(ValueError, match="'ham' has 3, 'eggs' has 4: lower the number of shots to 3"):
        sample_per_class(labels, 5, 0, ["ham", "spam", "eggs"])
    with pytest.raises(ValueError, match="'E' has 1 .and 7 more classes are too small.: lower"):
        sample_per_class(np.arange(12), 2, 0, list("ABCDEFGHIJKL"))
