import sys

import pytest
from transformers import pipeline

from docsplit_hf import connect_datastore


def test_without_the_extra_it_says_how_to_install_it(monkeypatch):
    """Not as a folder either, for which milvus-lite alone is not enough."""
    monkeypatch.setitem(sys.modules, "pymilvus", None)
    for address in ("http://host:19530", "folder.db"):
        with pytest.raises(ModuleNotFoundError, match=r"pip install 'docsplit_hf\[milvus\]'"):
            connect_datastore(address, "contracts")


def test_a_folder_without_milvus_lite_is_said_to_need_it(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "milvus_lite", None)
    with pytest.raises(ModuleNotFoundError, match=r"folder.db needs milvus_lite.* pip install milvus-lite"):
        connect_datastore(tmp_path / "folder.db", "contracts")


def test_what_is_not_there_is_said(tmp_path):
    with pytest.raises(ValueError, match="no folder .*missing.* for .*: make it, or correct the address"):
        connect_datastore(tmp_path / "missing" / "folder.db", "contracts")
    with pytest.raises(ValueError, match="the collection 'contracts' at .* is not there. To make it, pass dimension"):
        connect_datastore(tmp_path / "folder.db", "contracts")
    with pytest.raises(ValueError, match="Which collection of .* write milvus://HOST:19530/COLLECTION"):
        pipeline("docsplit-knn", datastore="http://host:19530")
