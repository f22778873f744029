"""Stores behind an address: which connector opens ``milvus://HOST/COLLECTION``."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any

from ..arrays.store import Store

# The module of each scheme, with ``connect_datastore``; the others are Milvus' own addresses.
_MILVUS = "docsplit_hf.connectors.milvus.connect"
CONNECTORS = {"milvus": _MILVUS, "http": _MILVUS, "https": _MILVUS, "tcp": _MILVUS}


def is_address(name: object) -> bool:
    """Whether a datastore's name is an address, not a folder or repository."""
    return isinstance(name, str) and "://" in name and name.partition("://")[0] in CONNECTORS


def open_address(address: str, **options: Any) -> Store:
    """Open the store behind an address, by ``connect_datastore`` of its connector."""
    return _connector(address).connect_datastore(address, **options)


def _connector(address: str) -> ModuleType:
    return import_module(CONNECTORS[address.partition("://")[0]])
