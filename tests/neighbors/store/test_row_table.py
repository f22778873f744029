import pytest

from docsplit_hf.neighbors.store.row_table import append_rows, make_rows, renew_automatic_ids


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
