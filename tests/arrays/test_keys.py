import numpy as np
import pytest

from docsplit_hf.arrays.keys import as_matrix, check_finite, exact_search, nearest_candidates, with_rows


@pytest.mark.parametrize("given", [[], [1.0, 2.0], np.zeros((2, 0)), np.zeros((1, 2, 3)), [["a"]], [[True]], [[None]]])
def test_only_matrices_of_numbers_are_accepted(given):
    with pytest.raises(ValueError, match=r"keys must be numbers of shape \(N, D\)"):
        as_matrix(given, "keys")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e16, -1e16])
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_an_error_names_the_row_of_a_value_that_is_not_finite(value, dtype):
    with np.errstate(over="ignore"):
        matrix = np.zeros((70_000, 2), dtype=dtype)
        matrix[69_000, 1] = value
    check_finite(matrix[:69_000], "keys")
    with pytest.raises(ValueError, match=f"keys: row 69000 holds NaN, infinity .*{dtype}"):
        check_finite(matrix, "keys")


def test_rows_with_more_columns_are_added_to_a_copy():
    first = np.ones((1, 2))
    grown = with_rows(first, 2 * np.ones((1, 3)))
    assert grown.tolist() == [[1, 1, 0], [2, 2, 2]] and first.tolist() == [[1, 1]]
    with pytest.raises(ValueError, match="read-only"):
        grown[0] = 1


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_results_do_not_depend_on_blocks(dtype, monkeypatch):
    rng = np.random.default_rng(0)
    keys = rng.standard_normal((500, 8)).astype(dtype)
    queries = rng.standard_normal((30, 8), dtype=np.float32)
    distances, rows = exact_search(queries, keys, 50)
    monkeypatch.setattr("docsplit_hf.arrays.keys.SEARCHED_BYTES", 4 * 8 * 33)  # 33 keys, fewer than k
    again, rows_again = exact_search(queries, keys, 50)
    assert np.array_equal(rows, rows_again)
    assert np.array_equal(distances, again)


@pytest.mark.parametrize("queries", [1, 64])
def test_the_distance_of_a_key_to_itself_is_zero_far_from_the_origin(queries):
    rng = np.random.default_rng(0)
    keys = 30 + 0.1 * rng.standard_normal((1000, 256), dtype=np.float32)
    distances, rows = exact_search(keys[:queries], keys, 5)
    assert (distances[:, 0] == 0).all()
    assert rows[:, 0].tolist() == list(range(queries))
    # FAISS itself is off here, by some hundredths of the distances.
    expected = ((keys[:queries, None].astype(np.float64) - keys[None]) ** 2).sum(-1)
    np.testing.assert_allclose(distances, np.sort(expected)[:, :5], rtol=1e-4)


@pytest.mark.parametrize("few", [0, 1_000_000])  # by FAISS, by NumPy
def test_lower_rows_come_first_if_distances_are_equal(few, monkeypatch):
    monkeypatch.setattr("docsplit_hf.arrays.keys.FEW_DISTANCES", few)
    keys = np.zeros((99, 2), np.float32)
    keys[[0, 50, 98]] = 1, 0
    assert exact_search(keys[1:2], keys, 9)[1].tolist() == [list(range(1, 10))]
    assert exact_search(keys[:1], keys, 9)[1].tolist() == [[0, 50, 98, *range(1, 7)]]


def test_missing_candidates_are_rows_of_minus_one():
    keys = np.arange(4, dtype=np.float32)[:, None]
    distances, rows = nearest_candidates(keys[:1], keys, np.array([[-1, 3, -1, 1]]), k=3)
    assert rows.tolist() == [[1, 3, -1]]
    assert distances.tolist() == [[1.0, 9.0, np.inf]]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_numpy_and_faiss_find_the_same_keys(dtype, monkeypatch):
    rng = np.random.default_rng(0)
    keys = rng.standard_normal((400, 16)).astype(dtype)
    queries = rng.standard_normal((7, 16), dtype=np.float32)
    found = []
    for few in (0, 1_000_000):  # all by FAISS, all by NumPy
        monkeypatch.setattr("docsplit_hf.arrays.keys.FEW_DISTANCES", few)
        found.append(exact_search(queries, keys, 20))
    monkeypatch.setattr("docsplit_hf.arrays.keys.FEW_DISTANCES", 100)  # blocks of NumPy, where FAISS is not installed
    monkeypatch.setattr("docsplit_hf.arrays.keys.SEARCHED_BYTES", 4 * 16 * 90)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    found.append(exact_search(queries, keys, 20))
    for distances, rows in found[1:]:
        np.testing.assert_array_equal(rows, found[0][1])
        np.testing.assert_array_equal(distances, found[0][0])
