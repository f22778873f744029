import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docsplit_hf.arrays.row_table import values_of
from docsplit_hf.arrays.text_table import TextColumn, TextTable

TEXTS = st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=20))


@given(TEXTS, st.data())
def test_a_column_gives_its_texts_back(texts, data):
    arrays = TextColumn.of(texts).to_arrays("text")
    column = TextColumn.from_arrays(arrays, "text")
    assert column.to_pylist() == texts and len(column) == len(texts)
    rows = np.array(data.draw(st.lists(st.sampled_from(range(len(texts))))) if texts else [], np.int64)
    table = TextTable({"text": column})
    assert values_of(table["text"], rows) == [texts[row] for row in rows] and len(table) == len(texts)


def test_arrays_that_do_not_fit_together_are_refused():
    arrays = TextColumn.of(["a", "bc"]).to_arrays("text")
    with pytest.raises(ValueError, match="it has no array 'text.is_null'"):
        TextColumn.from_arrays({name: array for name, array in arrays.items() if "null" not in name}, "text")
    for name, array in (
        ("text.ends", np.array([2, 1])),
        ("text.ends", np.array([1, 9])),
        ("text.is_null", np.zeros(3, bool)),
        ("text.content", np.zeros(2, np.uint8)),
    ):
        with pytest.raises(ValueError, match="the arrays of text do not fit together"):
            TextColumn.from_arrays(arrays | {name: array}, "text")
