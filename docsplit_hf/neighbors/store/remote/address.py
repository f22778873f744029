"""Addresses of remote datastores: a server or a folder, and the collection on it."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import urlsplit

SCHEME = "milvus://"
_SERVER = ("http://", "https://", "tcp://")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")


def is_remote(name: object) -> bool:
    """Whether a datastore is named by an address, not by a folder or repository of its own."""
    return isinstance(name, str) and name.startswith((SCHEME, *_SERVER))


def parse_address(address: str | Path, collection: str | None = None) -> tuple[str, str]:
    """What pymilvus opens, an address or a folder, and the name of the collection.

    ``milvus://HOST:PORT/COLLECTION``, or ``milvus://FOLDER.db/COLLECTION``, names both.
    """
    address = os.fspath(address)
    if "@" in urlsplit(address).netloc:  # not shown: it holds a password
        raise ValueError("The address names a user or a token before the '@': leave them out, and pass token.")
    if address.startswith(SCHEME):
        rest = address.removeprefix(SCHEME).rstrip("/")
        place, _, named = rest.rpartition("/")
        if not place or collection not in (None, named):
            raise ValueError(f"{address!r} is no address of a datastore: write milvus://HOST:19530/COLLECTION.")
        address, collection = (place if place.endswith(".db") else f"http://{place}"), named
    if collection is None:
        raise ValueError(f"Which collection of {address!r}? Pass its name, or write {SCHEME}HOST:19530/COLLECTION.")
    if not isinstance(collection, str) or not _NAME.fullmatch(collection):
        raise ValueError(f"{collection!r} is no name of a collection: take letters, digits and '_', no digit first.")
    if not address.startswith(_SERVER) and not address.endswith(".db"):
        raise ValueError(
            f"{address!r} is neither an address (http://HOST:19530) nor a folder of milvus-lite, which ends in .db."
        )
    if address.startswith(_SERVER) and urlsplit(address).path.strip("/"):
        raise ValueError(
            f"{address!r} has a path: leave it out, and pass the collection by its name, or write "
            f"{SCHEME}{urlsplit(address).netloc}{urlsplit(address).path}."
        )
    return address, collection


def find_token(token: str | None, token_variable: str | None) -> str:
    """The token that was given, or that of a named environment variable; empty if there is none."""
    if token_variable is None:
        return token or ""
    if token is not None:
        raise ValueError("Pass token or token_variable, not both.")
    if not os.environ.get(token_variable):
        raise ValueError(f"The environment variable {token_variable!r}, named by token_variable, is not set.")
    return os.environ[token_variable]
