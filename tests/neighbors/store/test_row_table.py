import numpy as np
import pyarrow as pa
import pytest

from docsplit_hf.neighbors.store.row_table import (
    MOST_CHUNKS,
    SMALL_CHUNK,
    append_rows,
    automatic_ids,
    make_rows,
    renew_automatic_ids,
    values_of,
    without,
)


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
    rows, next_id = renew_automatic_ids(theirs, 2, 2, make_rows(3, ["0", "1", "b"]))
    assert rows["id"].to_pylist() == ["2", "a", "01", "9", "3"]
    assert rows["text"].to_pylist() == list("vwxyz")
    assert next_id == 4
    with pytest.raises(ValueError, match="The id 'a' is there already"):
        append_rows(make_rows(1, ["b"]), rows, make_rows(1, ["a"]))


def test_a_counter_goes_beyond_many_ids_that_were_given():
    given = make_rows(5_000, map(str, range(5_000)))
    assert automatic_ids(2, 0, given) == (["5000", "5001"], 5002)
    assert automatic_ids(1, 4_999, given, make_rows(1, ["7000"])) == (["5000"], 5001)


def test_counters_with_and_without_a_prefix_do_not_meet():
    rows, next_id = renew_automatic_ids(make_rows(4, ["d0", "1", "d9", "d01"]), 2, 5, make_rows(1, ["d5"]), prefix="d")
    assert (rows["id"].to_pylist(), next_id) == (["d6", "1", "d9", "d01"], 7)
    tables = make_rows(1, ["d0"]), make_rows(1, ["d2"])
    assert automatic_ids(2, 0, *tables, prefix="d") == (["d1", "d3"], 4)
    assert automatic_ids(2, 0, *tables) == (["0", "1"], 2)


def test_small_chunks_are_joined_and_large_ones_stay_where_they_lie():
    rows = make_rows(2 * SMALL_CHUNK, [f"a{i}" for i in range(2 * SMALL_CHUNK)])
    rows = pa.concat_tables([rows.slice(0, 1), rows.slice(1, SMALL_CHUNK - 1), rows.slice(SMALL_CHUNK)])
    grown = rows
    for number in range(MOST_CHUNKS + 1):
        grown = append_rows(grown, make_rows(1, [f"b{number}"]))
    assert [len(chunk) for chunk in grown["id"].chunks] == [1, SMALL_CHUNK - 1, SMALL_CHUNK, MOST_CHUNKS + 1]
    places = [[chunk.buffers()[2].address for chunk in table["id"].chunks[:3]] for table in (rows, grown)]
    assert places[0] == places[1]
    kept = np.ones(len(grown), dtype=bool)
    kept[SMALL_CHUNK + 1] = False
    left = without(grown, kept)
    assert left["id"].chunk(0).buffers()[2].address == places[0][0]
    assert left["id"].to_pylist() == [row_id for row_id in grown["id"].to_pylist() if row_id != f"a{SMALL_CHUNK + 1}"]
    asked = np.array([len(left) - 1, 0, SMALL_CHUNK, 0])
    assert values_of(left["id"], asked) == [f"b{MOST_CHUNKS}", "a0", f"a{SMALL_CHUNK}", "a0"]
