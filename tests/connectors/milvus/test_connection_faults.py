"""A server that goes away, does not answer, or refuses: a clear error, and no row is lost or doubled.

The connections are those of a proxy to a server of milvus-lite in a process of its own.
"""

import socket
import time

import numpy as np
import pytest

from docsplit_hf import KNNDatastore, connect_datastore
from docsplit_hf.connectors.milvus import collection as collection_module
from docsplit_hf.connectors.milvus.collection import RemoteDatastoreError

from .proxy import Proxy

PATIENT = 60.0  # seconds


@pytest.fixture
def proxy(lite):
    proxy = Proxy(lite)
    yield proxy
    proxy.close()


def connect(proxy, collection, timeout=1.0):
    """Connect with a short timeout where a fault is expected; a busy machine needs PATIENT where none is."""
    return connect_datastore(f"http://127.0.0.1:{proxy.port}", collection, dimension=8, index="FLAT", timeout=timeout)


def until_it_works(call):
    """Repeat a call, as its error advises, until the connection is restored; return its result."""
    for _ in range(19):
        try:
            return call()
        except RemoteDatastoreError:
            time.sleep(0.2)
    return call()


@pytest.mark.parametrize("share, doing", [
    pytest.param(0.5, "while writing 300 rows", marks=pytest.mark.slow),
    (0.9, "writing"),
])  # fmt: skip
def test_an_interrupted_add_is_repeated(proxy, lite, monkeypatch, share, doing):
    """Documents with ids made of their contents, in twenty requests or so."""
    monkeypatch.setattr(collection_module, "REQUEST_BYTES", 8_000)
    datastore = connect(proxy, f"cut_{int(100 * share)}")
    keys = np.random.default_rng(0).standard_normal((300, 8)).astype(np.float32)
    labels = ["fruit"] * 300
    texts = [f"Text {i}" for i in range(300)]

    def add(datastore):
        return datastore.add(keys, labels, texts)

    before = proxy.passed
    add(connect(proxy, "whole", PATIENT))
    proxy.drop_after(share * (proxy.passed - before))
    with pytest.raises(
        RemoteDatastoreError, match=rf"{doing}.*: no answer within 1 s: check that the server runs, then try again"
    ):
        add(datastore)
    direct = connect_datastore(f"http://127.0.0.1:{lite}", datastore.collection)
    assert 0 < len(direct) < 300
    proxy.resume()
    ids = until_it_works(lambda: add(datastore))
    assert len({*ids}) == len(datastore) == 300
    reference = KNNDatastore(keys, labels, ["fruit"], texts=texts, ids=ids)
    np.testing.assert_array_equal(datastore.snapshot.keys, reference.keys)
    assert datastore.snapshot.rows["text"].to_pylist() == texts
    queries = np.random.default_rng(1).standard_normal((3, 8)).astype(np.float32)
    assert datastore.search(queries, 9).ids == reference.search(queries, 9).ids


def test_an_interrupted_search_is_repeated(proxy):
    keys = np.random.default_rng(0).standard_normal((200, 8))
    patient = connect(proxy, "search", PATIENT)
    patient.add(keys, ["fruit"] * 200)
    wanted = patient.search(keys, 5).ids
    datastore = connect(proxy, "search")
    proxy.drop_after(1_000)  # the queries alone have 6,400
    with pytest.raises(RemoteDatastoreError, match="while searching: no answer within 1 s: check that the server runs"):
        datastore.search(keys, 5)
    proxy.resume()
    assert until_it_works(lambda: datastore.search(keys, 5).ids) == wanted
    assert len(datastore) == 200


def test_a_request_to_an_unresponsive_server_times_out(proxy):
    connect(proxy, "silent", PATIENT)
    datastore = connect(proxy, "silent", timeout=1.0)
    proxy.hang()
    start = time.monotonic()
    with pytest.raises(RemoteDatastoreError, match="while counting its rows: no answer within 1 s"):
        len(datastore)
    assert time.monotonic() - start < PATIENT / 2


def test_a_missing_server_is_an_error():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(RemoteDatastoreError, match=f"127.0.0.1:{port}, while connecting: no answer .* check that"):
        connect_datastore(f"http://127.0.0.1:{port}", "any", timeout=1.0)
