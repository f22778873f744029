import numpy as np
import pytest

from docsplit_hf.neighbors.store.keys.key_matrix import GrowableArray, as_matrix, check_finite


@pytest.mark.parametrize("given", [[], [1.0, 2.0], np.zeros((2, 0)), np.zeros((1, 2, 3)), [["a"]], [[True]], [[None]]])
def test_only_matrices_of_numbers_pass(given):
    with pytest.raises(ValueError, match=r"keys must be numbers of shape \(N, D\)"):
        as_matrix(given, "keys")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e16, -1e16])
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_the_row_of_a_value_that_is_not_finite_is_named(value, dtype):
    with np.errstate(over="ignore"):
        matrix = np.zeros((70_000, 2), dtype=dtype)
        matrix[69_000, 1] = value
    check_finite(matrix[:69_000], "keys")
    with pytest.raises(ValueError, match=f"keys: row 69000 holds NaN, infinity .*{dtype}"):
        check_finite(matrix, "keys")


def test_growing_changes_nothing_that_was_handed_out():
    array = GrowableArray(np.arange(3))
    views = [array.appended(0, np.zeros(0, dtype=int))]
    for number in range(3, 50):
        views.append(array.appended(number, np.array([number])))
    assert array.appended(50, np.array([-1]))[-1] == -1
    views.append(array.appended(50, np.array([50])))  # the one before was never used: it is written over
    assert all(view.tolist() == list(range(len(view))) for view in views)
    assert len({view.base.ctypes.data for view in views[1:]}) < 8
    with pytest.raises(ValueError, match="read-only"):
        views[-1][0] = 1


def test_columns_are_added_and_those_that_were_never_used_are_dropped():
    array = GrowableArray(np.ones((1, 2)))
    array.appended(1, np.ones((1, 4)))  # never used
    assert array.appended(1, 2 * np.ones((1, 3))).tolist() == [[1, 1, 0], [2, 2, 2]]


def test_nothing_is_appended_to_what_is_read_only():
    array = np.eye(2)
    array.flags.writeable = False
    assert GrowableArray(array).appended(2, np.zeros((0, 2))).tolist() == [[1, 0], [0, 1]]
