import numpy as np

from docsplit_hf.arrays.row_table import values_of
from docsplit_hf.arrays.text_table import TextColumn, TextTable


def test_a_table_of_lists_gives_the_values_of_rows():
    table = TextTable({"id": TextColumn("abc"), "text": TextColumn(["One", None, "Drei"])})
    assert values_of(table["text"], np.array([2, 1, 2])) == ["Drei", None, "Drei"] and len(table) == 3
    assert table["text"].to_pylist() == ["One", None, "Drei"]
