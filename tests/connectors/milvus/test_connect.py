import sys

import pytest
from transformers import pipeline

from docsplit_hf import connect_datastore
from docsplit_hf.connectors.milvus.connect import parse_address


def test_without_the_extra_the_error_names_its_installation(monkeypatch):
    """For a folder too, for which milvus-lite alone is not enough."""
    monkeypatch.setitem(sys.modules, "pymilvus", None)
    for address in ("http://host:19530", "folder.db"):
        with pytest.raises(
            ModuleNotFoundError, match=r"pymilvus, which is not installed: pip install -e \"\.\[milvus\]"
        ):
            connect_datastore(address, "contracts")


def test_a_folder_needs_milvus_lite(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "milvus_lite", None)
    with pytest.raises(ModuleNotFoundError, match=r"folder.db needs milvus_lite.* pip install milvus-lite"):
        connect_datastore(tmp_path / "folder.db", "contracts")


def test_a_missing_folder_or_collection_is_named(tmp_path):
    with pytest.raises(ValueError, match="no folder .*missing.* for .*: create it, or correct the address"):
        connect_datastore(tmp_path / "missing" / "folder.db", "contracts")
    with pytest.raises(
        ValueError, match="the collection 'contracts' at .* does not exist. To create it, pass dimension"
    ):
        connect_datastore(tmp_path / "folder.db", "contracts")
    with pytest.raises(ValueError, match="has no collection: .* write milvus://HOST:19530/COLLECTION"):
        pipeline("docsplit-knn", datastore="http://host:19530")


@pytest.mark.parametrize(
    "address, collection, expected",
    [
        ("http://host:19530", "contracts", ("http://host:19530", "contracts")),
        ("https://host", "_c1", ("https://host", "_c1")),
        ("milvus://host:19530/contracts", None, ("http://host:19530", "contracts")),
        ("milvus://host:19530/contracts/", "contracts", ("http://host:19530", "contracts")),
        ("milvus:///data/x.db/contracts", None, ("/data/x.db", "contracts")),
        ("milvus://x.db/contracts", None, ("x.db", "contracts")),
        ("data/x.db", "contracts", ("data/x.db", "contracts")),
    ],
)
def test_an_address_is_that_of_a_server_or_a_folder(address, collection, expected):
    assert parse_address(address, collection) == expected


@pytest.mark.parametrize(
    "address, collection, message",
    [
        ("http://host:19530", None, "pass its name, or write milvus://HOST:19530/COLLECTION"),
        ("http://host:19530", "a b", "not a valid name of a collection"),
        ("milvus://host:19530", None, "write milvus://HOST:19530/COLLECTION"),
        ("milvus://host/one", "another", "write milvus://HOST:19530/COLLECTION"),
        ("host:19530", "contracts", "neither an address"),
        ("data", "contracts", "ends in .db"),
        ("http://host:19530/contracts", "contracts", "without the collection"),
        ("http://root:hush@host:19530", "contracts", "pass token"),
    ],
)
def test_wrong_addresses_are_refused_without_showing_a_password(address, collection, message):
    with pytest.raises(ValueError, match=message) as refused:
        parse_address(address, collection)
    assert "hush" not in str(refused.value)
