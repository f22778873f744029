import logging

import faiss
import numpy as np
import pytest

from docsplit_hf.arrays.index import build_index
from docsplit_hf.content_hash import cache_folder
from docsplit_hf.storage.snapshot_index import load_index, store_index

KEYS_SHA256 = "0" * 64
FACTORY = "IVF16,Flat"
SHAPE = (1000, 8)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture(scope="module")
def index():
    return build_index(np.random.default_rng(0).standard_normal(SHAPE, dtype=np.float32), FACTORY)


def test_a_cached_index_belongs_to_keys_factory_and_version_of_faiss(index, monkeypatch):
    for _ in range(2):
        store_index(index, KEYS_SHA256, FACTORY)
    assert len(list(cache_folder("indexes").iterdir())) == 1
    found = load_index(KEYS_SHA256, FACTORY, *SHAPE)
    assert np.array_equal(faiss.serialize_index(found), faiss.serialize_index(index))
    assert load_index("1" * 64, FACTORY, *SHAPE) is load_index(KEYS_SHA256, "IVF17,Flat", *SHAPE) is None
    monkeypatch.setattr("faiss.__version__", "99")
    assert load_index(KEYS_SHA256, FACTORY, *SHAPE) is None


@pytest.mark.parametrize("damage", ["bit", "shorter", "empty", "other rows"])
def test_a_damaged_index_is_deleted(index, damage, caplog, monkeypatch):
    store_index(index, KEYS_SHA256, FACTORY)
    (path,) = cache_folder("indexes").iterdir()
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes({"bit": bytes(content), "shorter": content[:-1], "empty": b""}.get(damage, path.read_bytes()))
    if damage != "other rows":
        monkeypatch.setattr("faiss.read_index", lambda path: pytest.fail("a damaged file was read"))
    with caplog.at_level(logging.WARNING):
        assert load_index(KEYS_SHA256, FACTORY, SHAPE[0] + (damage == "other rows"), SHAPE[1]) is None
    assert "is damaged, so it is deleted and built again" in caplog.text
    assert not path.exists()


def test_a_cache_that_cannot_be_written_is_a_warning(index, caplog, home):
    (home / "docsplit_hf").write_text("a file where the folder would be")
    store_index(index, KEYS_SHA256, FACTORY)
    assert "The index could not be cached in" in caplog.text
