"""kill -9, of a Milvus server and of a client, in the middle of what they do: nothing is lost, and nothing doubled."""

import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from docsplit_hf import KNNDatastore
from docsplit_hf.neighbors.store.milvus import collection as collection_module
from docsplit_hf.neighbors.store.milvus.collection import RemoteDatastoreError

from ..datastores import make_passages
from .conftest import NAMES

KEYS = np.random.default_rng(0).standard_normal((300, 8)).astype(np.float32)
CLIENT = """
import os, signal, sys
from docsplit_hf import connect_datastore
from tests.neighbors.store.milvus import test_kills
datastore = connect_datastore(sys.argv[1], sys.argv[2], token=sys.argv[3])
test_kills.strike(datastore, "upsert", 12, lambda: os.kill(os.getpid(), signal.SIGKILL))
test_kills.add(datastore)
"""


@pytest.fixture
def reference():
    datastore = KNNDatastore.empty(8, NAMES)
    add(datastore)
    return datastore


def add(datastore):
    """300 documents of several passages, in twenty requests or so."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(collection_module, "REQUEST_BYTES", 20_000)
        texts, passages = [f"Text {i}" for i in range(300)], make_passages(KEYS)
        datastore.add(KEYS, ["fruit"] * 300, texts, ids=[str(i) for i in range(300)], passages=passages)


def strike(datastore, method, number, kill):
    """Kill once a request of this number was answered, before anybody reads the answer."""
    client, calls = datastore._collection._client, []
    call = getattr(client, method)

    def asked(*arguments, **options):
        answer = call(*arguments, **options)
        calls.append(method)
        if len(calls) == number:
            kill()
            raise RemoteDatastoreError("killed")
        return answer

    setattr(client, method, asked)


def until_it_works(call):
    """What was said, and the result, of a call that is repeated while the server starts."""
    said, end = [], time.monotonic() + 90
    while time.monotonic() < end:
        try:
            return said, call()
        except RemoteDatastoreError as error:
            said.append(str(error))
            time.sleep(0.2)
    raise TimeoutError(said[-1])


def check(found, wanted):
    """The same documents, each once, with no rows beside theirs."""
    assert sorted(found.snapshot.rows["id"].to_pylist()) == sorted(wanted.ids) and len(found) == len(wanted)
    assert found._collection.count("examples") == wanted.snapshot.counts.sum()
    assert found._collection.count("rest") == (wanted.snapshot.counts > 1).sum()
    assert found.search(KEYS[:9], 20).ids == wanted.search(KEYS[:9], 20).ids


def test_a_server_is_killed_while_it_adds_and_while_it_removes(server, process, reference):
    made, gone = server.make(), [str(i) for i in range(0, 300, 3)]
    operations = [
        ("upsert", 12, add),
        ("delete", 1, lambda datastore: datastore.remove(left) if (left := still_there(datastore, gone)) else None),
    ]
    for method, number, operate in operations:
        datastore = server.connect(made, timeout=2.0)
        starting = threading.Thread(target=process.start)

        def kill(starting=starting):
            process.server_proc.kill()
            process.server_proc.wait()
            starting.start()

        strike(datastore, method, number, kill)
        said, _ = until_it_works(lambda operate=operate, datastore=datastore: operate(datastore))
        starting.join()
        assert said[0] == "killed"
        assert all("is the server there? Try again" in text or "just started" in text for text in said[1:])
        if method == "delete":
            reference.remove(gone)
        check(server.connect(made), reference)


def still_there(datastore, ids):
    return [row_id for row_id in datastore.find(ids=ids).rows["id"].to_pylist() if row_id in ids]


def test_a_client_is_killed_while_it_adds(server, reference):
    datastore = server.make()
    command = [sys.executable, "-c", CLIENT, server.address, datastore.collection, server.token]
    client = subprocess.run(command, capture_output=True, text=True)
    assert client.returncode == -signal.SIGKILL, client.stderr
    assert 0 < datastore._collection.count("examples") < reference.snapshot.counts.sum()
    add(datastore)
    check(datastore, reference)
