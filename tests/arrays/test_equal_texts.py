import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from docsplit_hf import KNNDatastore
from docsplit_hf.arrays.row_table import make_rows
from docsplit_hf.arrays.snapshot import equal_neighbors, number_texts
from docsplit_hf.reading.characters import replace_lone_surrogates

PAIRS = st.tuples(st.sampled_from(["", "a", "b", "a\ud800", "b\x00"]) | st.text(), st.sampled_from([None, "", "a"]))


def valid(text):
    return text and replace_lone_surrogates(text)


@given(st.lists(PAIRS, max_size=8), st.lists(PAIRS, max_size=8))
def test_content_numbers_are_equal_for_equal_texts_and_pairs(stored, given):
    table = make_rows(
        len(stored), map(str, range(len(stored))), *zip(*[map(valid, pair) for pair in stored], strict=True)
    )
    in_table, own = number_texts(table, [text for text, _ in given], [pair for _, pair in given])
    assert (own >= 0).all() and len(in_table) == len(stored)
    for pair, number in zip(given, own.tolist(), strict=True):
        for other, found in zip(stored, in_table.tolist(), strict=True):
            assert (number == found) == (tuple(map(valid, pair)) == tuple(map(valid, other)))


def test_texts_that_are_not_kept_are_equal_to_none():
    keys = np.eye(4, dtype=np.float32)
    datastore = KNNDatastore(keys, np.zeros(4, int), ["a"], [None, "b", "c", "c"])
    queries = np.stack([keys[3], 2 * keys[1], 2 * keys[2]])
    found = datastore.search(queries, 4)
    marked = equal_neighbors(found, queries, [None, "b", "c"], None)
    assert [set(rows[equal]) for rows, equal in zip(found.rows, marked, strict=True)] == [{3}, {1}, {2, 3}]
