import numpy as np
import pandas as pd
import pytest

from docsplit_hf.reading.labels import names_of_labels


@pytest.mark.parametrize("labels, said", [
    (["a", None], "leave it out"), (["a", float("nan")], "leave it out"), ([["a"], [None]], "leave it out"),
    (pd.Series([1, None], dtype="Int64"), "leave it out"), (["a", 0.5], "whole numbers"), ([{"a": 1}], "whole numbers"),
], ids=str)  # fmt: skip
def test_invalid_labels_are_refused(labels, said):
    with pytest.raises(TypeError, match=f"The label of text . is .*, not a name: .*{said}"):
        names_of_labels(labels)


@pytest.mark.parametrize("labels, names", [
    ([0, 1], ["0", "1"]), ([1.0, 2.0], ["1", "2"]), ([True, False], ["true", "false"]), (["a", 7], ["a", "7"]),
    (np.array([0, 1]), ["0", "1"]), (np.array([True, False]), ["true", "false"]), (pd.Series([3, 4]), ["3", "4"]),
    ([[1], [1, 2]], [["1"], ["1", "2"]]),
], ids=str)  # fmt: skip
def test_numbers_and_bools_become_text_which_is_logged_once(labels, names, caplog):
    assert names_of_labels(labels) == names
    assert len(caplog.records) == 1 and "are converted to text" in caplog.text


def test_names_are_kept_silently(caplog):
    assert names_of_labels([("a", "b"), []]) == [["a", "b"], []] and names_of_labels(["007"]) == ["007"]
    assert not caplog.records
