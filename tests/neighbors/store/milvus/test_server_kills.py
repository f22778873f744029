"""kill -9, of a client and, last of all, of the server, in the middle of what they do: nothing is lost or doubled."""

import multiprocessing
import os
import signal
import threading
import time

import numpy as np
import pytest

from docsplit_hf import KNNDatastore, connect_datastore
from docsplit_hf.neighbors.store.milvus import collection as collection_module
from docsplit_hf.neighbors.store.milvus.collection import RemoteDatastoreError

from ..datastores import make_passages
from .conftest import NAMES

KEYS = np.random.default_rng(0).standard_normal((300, 8)).astype(np.float32)


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


def test_a_removal_whose_answer_is_lost_has_removed_all(folder, reference):
    datastore, gone = folder.make(), [str(i) for i in range(0, 300, 3)]
    add(datastore)
    strike(datastore, "delete", 1, lambda: None)
    with pytest.raises(RemoteDatastoreError, match="killed"):
        datastore.remove(gone)
    reference.remove(gone)
    check(datastore, reference)
    with pytest.raises(ValueError, match="What a removal whose answer was lost has removed is gone"):
        datastore.remove(gone)


def written_by_another(datastore):
    if not datastore._collection.count("examples"):
        raise RemoteDatastoreError("the server's clock has not ticked yet")


def add_and_die(address, collection, token):
    datastore = connect_datastore(address, collection, token=token)
    strike(datastore, "upsert", 12, lambda: os.kill(os.getpid(), signal.SIGKILL))
    add(datastore)


def test_a_client_is_killed_while_it_adds(server, standalone, reference):
    datastore = standalone.make()
    arguments = standalone.address, datastore.collection, standalone.token
    client = multiprocessing.get_context("forkserver").Process(target=add_and_die, args=arguments)
    client.start()
    client.join()
    assert client.exitcode == -signal.SIGKILL
    until_it_works(lambda: written_by_another(datastore))
    assert 0 < datastore._collection.count("examples") < reference.snapshot.counts.sum()
    add(datastore)
    check(datastore, reference)


def test_a_server_is_killed_while_it_adds(standalone, process, reference):
    made, starting = standalone.make(), threading.Thread(target=process.start)
    datastore = standalone.connect(made, timeout=2.0)

    def kill():
        process.server_proc.kill()
        process.server_proc.wait()
        starting.start()

    strike(datastore, "upsert", 12, kill)
    said, _ = until_it_works(lambda: add(datastore))
    starting.join()
    assert said[0] == "killed"
    assert all("is the server there? Try again" in text or "just started" in text for text in said[1:])
    check(datastore, reference)
