import sys

import pytest

from docsplit_hf import KNNDatastore


def test_without_the_extra_it_says_how_to_install_it(monkeypatch):
    """Not as a folder either, for which milvus-lite alone is not enough."""
    monkeypatch.setitem(sys.modules, "pymilvus", None)
    for address in ("http://host:19530", "folder.db"):
        with pytest.raises(ModuleNotFoundError, match=r"pip install 'docsplit_hf\[milvus\]'"):
            KNNDatastore.connect(address, "contracts")


def test_a_folder_without_milvus_lite_is_said_to_need_it(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "milvus_lite.server_manager", None)
    with pytest.raises(OSError, match="milvus-lite is required"):
        KNNDatastore.connect(tmp_path / "folder.db", "contracts")
