import numpy as np
import pytest

from docsplit_hf.arrays.index import IndexOptions, approximate_search, build_index, fewest_rows, set_nprobe
from docsplit_hf.arrays.keys import nearest_candidates

FACTORIES = [
    "Flat", "IVF16,Flat", "IVF16,SQ8", "IVF16,PQ4x4", "IVF16_HNSW8,PQ4x4fs", "HNSW16", "HNSW16,SQ8", "SQ8", "SQ4",
    "SQfp16", "SQbf16", "PQ4x4", "PCA8,IVF16,Flat",
]  # fmt: skip


@pytest.mark.parametrize("factory", FACTORIES)
def test_every_family_is_built_and_searched(factory):
    keys = np.random.default_rng(0).standard_normal((1500, 16), dtype=np.float32)
    index = build_index(keys, factory)
    set_nprobe(index, 4 if "IVF" in factory else None)
    assert index.ntotal == 1500
    rows = approximate_search(index, keys[:50], 20)
    assert rows.shape == (50, 20)
    _, candidates = nearest_candidates(keys[:50], keys, rows, 1)
    assert (candidates[:, 0] == np.arange(50)).mean() > 0.5


@pytest.mark.parametrize(
    "factory",
    [
        "", "flat", "nonsense", "IVF", "IVF16", "IVF0,Flat", "IVF16,Flat\n", "IVF16,Flat ", "IVF1١,Flat", "PQ0", "HNSW",
        "IVF99999999999999999999,Flat", "HNSW0", "HNSW1", "PQ8x0", "PQ8x24", "RR0,Flat", "IDMap,Flat", "LSH0", None, 3,
    ],
)  # fmt: skip
def test_malformed_factories_are_refused_before_faiss_is_called(factory):
    with pytest.raises(ValueError, match="Unknown index .*choose 'Flat'") as error:
        IndexOptions(factory)
    assert repr(factory) in str(error.value)


@pytest.mark.parametrize("name", ["nprobe", "rerank"])
@pytest.mark.parametrize("value", [0, -1, 1.5, True, "4"])
def test_options_that_are_not_positive_integers_are_refused(name, value):
    with pytest.raises(ValueError, match=f"{name} must be an integer of at least 1, or None, got {value!r}"):
        IndexOptions("IVF16,Flat", **{name: value})


def test_factories_that_do_not_fit_the_dimension_are_refused():
    with pytest.raises(ValueError, match="nprobe=4 needs an IVF index, but 'HNSW32' has no lists"):
        IndexOptions("HNSW32", nprobe=4)
    with pytest.raises(
        ValueError, match="cannot make the index 'IVF16,PQ7' for keys of dimension 16.*must divide the dimension"
    ):
        fewest_rows("IVF16,PQ7", 16)
    with pytest.raises(ValueError, match="cannot build the index 'PCA32,Flat' on 1000 keys of dimension 16"):
        build_index(np.random.default_rng(0).standard_normal((1000, 16), dtype=np.float32), "PCA32,Flat")


@pytest.mark.parametrize(
    ("factory", "rows"),
    [
        ("IVF100,Flat", 3900),
        ("IVF16,PQ4", 39 * 256),
        ("PCA8,IVF64,PQ4x4", 39 * 64),
        ("HNSW16,PQ4", 39 * 256),
        ("SQ8", 1000),
    ],
)
def test_fewest_rows_of_an_index(factory, rows):
    assert fewest_rows(factory, 16) == rows


@pytest.mark.parametrize("factory", ["IVF30,Flat", "PQ4x4", "IVF16_HNSW8,PQ4x4fs"])
def test_training_on_the_fewest_rows_prints_no_warning_of_faiss(factory, capfd):
    build_index(np.random.default_rng(0).standard_normal((fewest_rows(factory, 16), 16), dtype=np.float32), factory)
    assert capfd.readouterr() == ("", "")


def test_building_an_index_is_deterministic():
    import faiss

    keys = np.random.default_rng(0).standard_normal((1000, 16), dtype=np.float32)
    first, second = (faiss.serialize_index(build_index(keys, "IVF16,PQ2x4")) for _ in range(2))
    assert np.array_equal(first, second)


@pytest.mark.parametrize("prefix", ["", "PCA8,"])
def test_more_lists_are_searched_if_too_few_rows_are_found(prefix):
    keys = np.random.default_rng(0).standard_normal((2000, 16), dtype=np.float32)
    index = build_index(keys, f"{prefix}IVF32,Flat")
    set_nprobe(index, 1)
    rows = approximate_search(index, keys[:5], 500)
    assert rows.min() >= 0
    assert all(len(set(row)) == 500 for row in rows.tolist())
    assert (rows[:, 0] == np.arange(5)).all()


def test_nprobe_is_set_below_a_transformation_and_bounded_by_the_lists():
    import faiss

    keys = np.random.default_rng(0).standard_normal((4000, 16), dtype=np.float32)
    for factory, nprobe, expected in (
        ("PCA8,IVF64,Flat", 5, 5),
        ("IVF100,Flat", None, 16),
        ("IVF256,Flat", None, 32),
        ("IVF4,Flat", None, 4),
    ):
        index = build_index(keys, factory)
        set_nprobe(index, nprobe)
        assert faiss.extract_index_ivf(index).nprobe == expected
