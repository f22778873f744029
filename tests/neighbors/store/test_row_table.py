import numpy as np
import pytest

from docsplit_hf.neighbors.store.labels import encode_labels, has_several_labels, rename_labels
from docsplit_hf.neighbors.store.row_table import append_rows, automatic_ids, make_rows, renew_automatic_ids

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
    assert all(has_several_labels([first]) for first in ([], (), {1}, frozenset(), np.array([1])))
    assert not any(has_several_labels(labels) for labels in ([], ["a"], [1], np.array([1]), ("ab",)))


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


def test_labels_keep_their_names_when_renumbered():
    renamed, names = rename_labels(np.array([2, 0]), ("a", "b", "c"), ("c", "d"))
    assert [names[i] for i in renamed] == ["c", "a"]
    assert names == ("c", "d", "a", "b")
    dense, _ = rename_labels(np.array([[True, False, True]]), ("a", "b", "c"), ("c", "d"))
    assert [names[i] for i in np.flatnonzero(dense[0])] == ["c", "a"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((2, ["a"]), "There are 2 keys, but 1 of id"),
        ((1, ["a"], ["x", "y"]), "There are 1 keys, but 2 of text"),
        ((1, [None]), "The id of row 0 is None"),
        ((1, [7]), "The id of row 0 is 7, not a string"),
        ((2, ["a", "b"], ["x", b"y"]), "The text of row 1 is b'y', not a string"),
        ((3, ["a", "b", "a"]), "The id 'a' is given twice"),
        ((2, ["a", "b"], ["x", "y \ud800"]), "The text of row 1 has half a character .* at 2"),
    ],
)
def test_rows_that_are_none(arguments, message):
    with pytest.raises(ValueError, match=message):
        make_rows(*arguments)


def test_automatic_ids_skip_what_is_taken():
    rows = make_rows(3, ["1", "2", "x"])
    assert automatic_ids(3, 0, rows) == (["0", "3", "4"], 5)
    assert automatic_ids(0, 7, rows) == ([], 7)


def test_an_id_that_is_there_is_refused():
    with pytest.raises(ValueError, match="The id 'b' is there already"):
        append_rows(make_rows(2, ["a", "b"]), make_rows(2, ["c", "b"]))


def test_many_small_additions_do_not_make_many_chunks():
    rows = make_rows(0, [])
    for number in range(600):
        rows = append_rows(rows, make_rows(1, [str(number)]))
    assert rows["id"].to_pylist() == [str(number) for number in range(600)]
    assert rows["id"].num_chunks <= 257


def test_of_two_counters_the_second_is_renewed_and_given_ids_stay():
    theirs = make_rows(5, ["0", "a", "01", "9", "1"], texts=list("vwxyz"))
    rows, next_id = renew_automatic_ids(theirs, 2, make_rows(3, ["0", "1", "b"]), 2)
    assert rows["id"].to_pylist() == ["2", "a", "01", "9", "3"]
    assert rows["text"].to_pylist() == list("vwxyz")
    assert next_id == 4
    with pytest.raises(ValueError, match="The id 'a' is there already"):
        renew_automatic_ids(theirs, 2, make_rows(1, ["a"]), 0)
