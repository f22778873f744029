"""kill -9 of a client in the middle of a request, and an answer that is lost: no row is lost or doubled."""

import itertools
import multiprocessing
import os
import signal

import numpy as np
import pytest

from docsplit_hf import KNNDatastore, connect_datastore
from docsplit_hf.connectors.milvus import collection as collection_module
from docsplit_hf.connectors.milvus.collection import RemoteDatastoreError

from .conftest import NAMES

KEYS = np.random.default_rng(0).standard_normal((300, 8)).astype(np.float32)


def make_reference():
    datastore = KNNDatastore.empty(8, NAMES)
    add(datastore)
    return datastore


def add(datastore):
    """300 documents, in twenty requests or so."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(collection_module, "REQUEST_BYTES", 8_000)
        datastore.add(
            KEYS,
            ["fruit"] * 300,
            texts=[f"Text {i}" for i in range(300)],
            ids=[str(i) for i in range(300)],
        )


def strike(datastore, method, number, kill):
    """Kill once the request of this number was answered, before the client reads the answer."""
    client = datastore._collection._client
    call = getattr(client, method)
    numbers = itertools.count(1)

    def asked(*arguments, **options):
        answer = call(*arguments, **options)
        if next(numbers) == number:
            kill()
            raise RemoteDatastoreError("killed")
        return answer

    setattr(client, method, asked)


def check(found, wanted):
    """The same documents, each once, and no other rows."""
    assert sorted(found.snapshot.rows["id"].to_pylist()) == sorted(wanted.ids) and len(found) == len(wanted)
    assert found.search(KEYS[:9], 20).ids == wanted.search(KEYS[:9], 20).ids


def test_a_removal_with_a_lost_response_removes_all_rows(folder):
    datastore = folder.make()
    reference = make_reference()
    gone = [str(i) for i in range(0, 300, 3)]
    add(datastore)
    strike(datastore, "delete", 1, lambda: None)
    with pytest.raises(RemoteDatastoreError, match="killed"):
        datastore.remove(gone)
    reference.remove(gone)
    check(datastore, reference)
    with pytest.raises(ValueError, match="A removal may have succeeded although its answer was lost"):
        datastore.remove(gone)


def add_and_die(address, collection):
    datastore = connect_datastore(address, collection)
    strike(datastore, "upsert", 12, lambda: os.kill(os.getpid(), signal.SIGKILL))
    add(datastore)


@pytest.mark.slow
def test_an_add_is_repeated_after_its_client_was_killed(server, lite):
    address = f"http://127.0.0.1:{lite}"
    reference = make_reference()
    datastore = connect_datastore(address, "killed", dimension=8, label_names=NAMES, index="FLAT")
    client = multiprocessing.get_context("forkserver").Process(target=add_and_die, args=(address, "killed"))
    client.start()
    client.join()
    assert client.exitcode == -signal.SIGKILL
    assert 0 < len(datastore) < 300
    add(datastore)
    check(datastore, reference)
