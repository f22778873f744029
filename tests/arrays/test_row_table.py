import numpy as np
import pyarrow as pa
import pytest

from docsplit_hf.arrays.row_table import (
    MAX_SMALL_CHUNKS,
    SMALL_CHUNK,
    TextColumn,
    TextTable,
    append_rows,
    counted_ids,
    encode_labels,
    make_rows,
    values_of,
    without,
)
from docsplit_hf.reading.labels import are_lists


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((2, ["a"]), "There are 2 keys, but 1 values of id"),
        ((1, ["a"], ["x", "y"]), "There are 1 keys, but 2 values of text"),
        ((1, [None]), "The id of row 0 is None"),
        ((1, [7]), "The id of row 0 is 7, not a string"),
        ((2, ["a", "b"], ["x", b"y"]), "The text of row 1 is b'y', not a string"),
        ((3, ["a", "b", "a"]), "The id 'a' is given twice"),
        ((2, ["a", "b"], ["x", "y \ud800"]), "The text of row 1 has half a character .* at 2"),
    ],
)
def test_wrong_columns_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        make_rows(*arguments)


def test_many_small_additions_do_not_make_many_chunks():
    rows = make_rows(0, [])
    for number in range(600):
        rows = append_rows(rows, make_rows(1, [str(number)]))
    assert rows["id"].to_pylist() == [str(number) for number in range(600)]
    assert rows["id"].num_chunks <= 257


def test_missing_ids_are_numbered_and_given_ids_stay():
    assert counted_ids([None, "a", "01", "3", None], 2, make_rows(1, ["0"])) == (["4", "a", "01", "3", "5"], 6)
    with pytest.raises(ValueError, match="The id 'a' is there already"):
        append_rows(make_rows(1, ["b"]), make_rows(2, ["a", "c"]), make_rows(1, ["a"]))


def test_automatic_ids_skip_many_given_ids():
    given = make_rows(5_000, map(str, range(5_000)))
    assert counted_ids([None] * 2, 0, given) == (["5000", "5001"], 5002)
    assert counted_ids([None], 4_999, given, make_rows(1, ["7000"])) == (["7001"], 7002)
    assert counted_ids([*map(str, range(500)), None], 0)[0][-1] == "500"


def test_automatic_ids_with_and_without_a_prefix_are_independent():
    one = make_rows(1, ["d0"])
    other = make_rows(1, ["d2"])
    assert counted_ids([None] * 2, 0, one, other, prefix="d") == (["d3", "d4"], 5)
    assert counted_ids([None] * 2, 0, one, other) == (["0", "1"], 2)


def test_small_chunks_are_joined_and_large_ones_are_not_copied():
    rows = make_rows(2 * SMALL_CHUNK, [f"a{i}" for i in range(2 * SMALL_CHUNK)])
    rows = pa.concat_tables([rows.slice(0, 1), rows.slice(1, SMALL_CHUNK - 1), rows.slice(SMALL_CHUNK)])
    grown = rows
    for number in range(MAX_SMALL_CHUNKS + 1):
        grown = append_rows(grown, make_rows(1, [f"b{number}"]))
    assert [len(chunk) for chunk in grown["id"].chunks] == [1, SMALL_CHUNK - 1, SMALL_CHUNK, MAX_SMALL_CHUNKS + 1]
    places = [[chunk.buffers()[2].address for chunk in table["id"].chunks[:3]] for table in (rows, grown)]
    assert places[0] == places[1]
    kept = np.ones(len(grown), dtype=bool)
    kept[SMALL_CHUNK + 1] = False
    left = without(grown, kept)
    assert left["id"].chunk(0).buffers()[2].address == places[0][0]
    assert left["id"].to_pylist() == [row_id for row_id in grown["id"].to_pylist() if row_id != f"a{SMALL_CHUNK + 1}"]
    asked = np.array([len(left) - 1, 0, SMALL_CHUNK, 0])
    assert values_of(left["id"], asked) == [f"b{MAX_SMALL_CHUNKS}", "a0", f"a{SMALL_CHUNK}", "a0"]


NAMES = ("fruit", "mineral")


@pytest.mark.parametrize("labels", [["fruit", 1, "metal"], np.array([0, 1, 1]), [np.int32(0), np.int64(1), 1]])
def test_labels_are_numbers_or_names(labels):
    encoded, names = encode_labels(labels, NAMES, multi_label=False)
    assert encoded.dtype == np.int64
    assert encoded.tolist()[:2] == [0, 1]
    assert names[:2] == NAMES


@pytest.mark.parametrize("several", [list, tuple, set, np.array])
def test_several_labels_per_row(several):
    encoded, names = encode_labels([several([1]), several([]), several([0, 1])], NAMES, multi_label=True)
    assert encoded.tolist() == [[False, True], [False, False], [True, True]]
    encoded, names = encode_labels([["metal", 0], ["metal"]], NAMES, multi_label=True)
    assert encoded.tolist() == [[True, False, True], [False, False, True]]
    assert names == (*NAMES, "metal")


def test_the_first_label_determines_whether_rows_have_several():
    assert all(are_lists([first]) for first in ([], (), {1}, frozenset(), np.array([1])))
    assert not any(are_lists(labels) for labels in ([], ["a"], [1], np.array([1]), ("ab",)))


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
        ([[0, 1, 0]], True, "row 0 contain one twice.*not a vector of 0 and 1"),
        (np.array([[True, False]]), True, "row 0 is True: pass a list of names or numbers"),
    ],
)
def test_wrong_labels_are_refused(labels, multi_label, message):
    with pytest.raises(ValueError, match=message):
        encode_labels(labels, NAMES, multi_label)


def test_a_table_of_lists_gives_the_values_of_rows():
    table = TextTable({"id": TextColumn("abc"), "text": TextColumn(["One", None, "Drei"])})
    assert values_of(table["text"], np.array([2, 1, 2])) == ["Drei", None, "Drei"] and len(table) == 3
    assert table["text"].to_pylist() == ["One", None, "Drei"]
