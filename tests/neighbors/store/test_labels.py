import numpy as np
import pytest

from docsplit_hf.neighbors.store.labels import encode_labels, is_multi_label

NAMES = ("fruit", "mineral")


@pytest.mark.parametrize("labels", [["fruit", 1, "metal"], np.array([0, 1, 1]), [np.int32(0), np.int64(1), 1]])
def test_numbers_and_names(labels):
    encoded, names = encode_labels(labels, NAMES, multi_label=False)
    assert encoded.dtype == np.int64
    assert encoded.tolist()[:2] == [0, 1]
    assert names[:2] == NAMES


@pytest.mark.parametrize("several", [list, tuple, set, np.array])
def test_several_labels_a_row(several):
    encoded, names = encode_labels([several([1]), several([]), several([0, 1])], NAMES, multi_label=True)
    assert encoded.tolist() == [[False, True], [False, False], [True, True]]
    encoded, names = encode_labels([["metal", 0], ["metal"]], NAMES, multi_label=True)
    assert encoded.tolist() == [[True, False, True], [False, False, True]]
    assert names == (*NAMES, "metal")


def test_whether_rows_have_several_labels_is_told_from_the_first():
    assert all(is_multi_label([first]) for first in ([], (), {1}, frozenset(), np.array([1])))
    assert not any(is_multi_label(labels) for labels in ([], ["a"], [1], np.array([1]), ("ab",)))


@pytest.mark.parametrize(
    ("labels", "multi_label", "message"),
    [
        ([0, 2], False, r"row 1 is 2, but there are 2 labels: \['fruit', 'mineral'\]"),
        ([-1], False, "row 0 is -1"),
        (["metal", 2], False, "row 1 is 2, but there are 2"),  # a new name gets no number that can be used at once
        ([True], False, "row 0 is True: pass a name or a number"),
        ([1.0], False, "row 0 is 1.0: pass a name or a number"),
        ([None], False, "row 0 is None"),
        ([[0]], False, r"row 0 is \[0\]: pass a name or a number"),
        ([[0], 1], True, "row 1 are 1: pass a list"),
        (["fruit"], True, "row 0 are 'fruit': pass a list"),
        ([[0, 1, 0]], True, "row 0 name one twice.*not a vector of 0 and 1"),
        (np.array([[True, False]]), True, "row 0 is True: pass a list of names or numbers"),
    ],
)
def test_labels_that_are_none(labels, multi_label, message):
    with pytest.raises(ValueError, match=message):
        encode_labels(labels, NAMES, multi_label)
