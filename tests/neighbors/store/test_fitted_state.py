import numpy as np
import pytest

from docsplit_hf.neighbors.store.fitted_state import FittedState

from .datastores import contents_of, make_datastore, make_fitted


@pytest.mark.parametrize(
    ("settings", "arrays", "vocabulary", "message"),
    [
        ({"a": float("nan")}, {}, (), "settings .* must be JSON"),
        ({"a": np.zeros(2)}, {}, (), "settings .* must be JSON"),
        ({1: "a"}, {}, (), "JSON gives the settings {1: 'a'} back as {'1': 'a'}"),
        ({"a": (1, 2)}, {}, (), "JSON gives the settings"),
        ([1], {}, (), "JSON gives the settings"),
        ({}, {"x": np.array([1, np.inf])}, (), "array 'x' .* holds NaN or infinity"),
        ({}, {"x": np.zeros(2, dtype=np.float16)}, (), "array 'x' .* is float16, not one of float32, float64, int64"),
        ({}, {"x": np.zeros(2, dtype=">f4")}, (), "array 'x' .* is >f4, not one of"),
        ({}, {"x": np.array([None])}, (), "array 'x' .* is object, not one of"),
        ({}, {"x": [1.0]}, (), "array 'x' .* is list, not one of"),
        ({}, {"__metadata__": np.zeros(2)}, (), "is named '__metadata__': give it another name"),
        ({}, {"\ud800": np.zeros(2)}, (), "is named .*: give it another name"),
        ({}, {}, ["a", "b \ud800"], "The term 'b .* has half a character"),
        ({}, {}, ["a", 3], "The term 3 of the vocabulary is no string"),
    ],
)
def test_what_cannot_be_kept_is_refused_at_once(settings, arrays, vocabulary, message):
    with pytest.raises(ValueError, match=message):
        FittedState(settings, arrays, vocabulary)


def test_what_it_was_made_of_may_change_afterwards():
    settings, array = {"a": [1]}, np.zeros((2, 3))
    fitted = FittedState(settings, {"x": array, "transposed": array.T}, ["term"])
    before = contents_of(fitted)
    settings["a"].append(2)
    array[:] = 1
    assert (
        contents_of(fitted)
        == before
        == contents_of(FittedState({"a": [1]}, {"x": 0 * array, "transposed": 0 * array.T}, ("term",)))
    )
    assert all(array.flags.c_contiguous and not array.flags.writeable for array in fitted.arrays.values())


def test_a_datastore_keeps_it_and_nothing_else_in_its_place():
    datastore = make_datastore()
    assert datastore.fitted is None
    datastore.fitted = fitted = make_fitted()
    with pytest.raises(ValueError, match="fitted is a FittedState or None, got {}"):
        datastore.fitted = {}
    assert datastore.fitted is fitted
    datastore.fitted = None
    assert datastore.fitted is None
