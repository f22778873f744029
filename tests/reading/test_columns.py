"""Guessed columns of texts and labels."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docsplit_hf.reading.columns import guess_columns


def as_rows(body, kind):
    return [{"body": text, "kind": label, "split": "train"} for text, label in zip(body, kind, strict=True)]


def test_columns_are_guessed_from_names_and_values():
    long = [f"A longer text about the river number {number}." for number in range(6)]
    assert guess_columns(as_rows(long, ["sport", "music", ""] * 2), 200) == ("body", "kind")  # as in README.md
    rows = [
        {"id": str(number), "year": str(2000 + number % 3), "what": text, "split": "ab"[number % 2]}
        for number, text in enumerate(long)
    ]
    assert guess_columns(rows, 200) == ("what", "split")  # no numbers where there are names
    assert guess_columns(as_rows(long, long), 200) == ("body", None)  # labels come again
    assert guess_columns(as_rows(long, ["a", "b", "c"] * 2), 2) == ("body", None)  # more labels than the page takes
    assert guess_columns([{"text": "a", "label": "b"}], 200) == ("text", "label")  # so they are called


@given(st.lists(st.dictionaries(st.text(max_size=3), st.none() | st.text() | st.integers(), min_size=1), min_size=1))
def test_guessed_columns_exist_and_differ(rows):
    text, label = guess_columns(rows, 200)
    columns = {name for row in rows for name in row}
    assert text in columns and label in columns - {text} | {None}


def test_a_table_without_rows_is_refused():
    with pytest.raises(ValueError, match="has no rows"):
        guess_columns([], 200)
