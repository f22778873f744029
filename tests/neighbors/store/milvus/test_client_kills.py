"""kill -9 of a client in the middle of what it does, and an answer that is lost: nothing is lost or doubled."""

import multiprocessing
import os
import signal

import numpy as np
import pytest

from docsplit_hf import KNNDatastore, connect_datastore
from docsplit_hf.neighbors.store.milvus import collection as collection_module
from docsplit_hf.neighbors.store.milvus.collection import RemoteDatastoreError

from ..datastores import make_passages
from .conftest import NAMES

KEYS = np.random.default_rng(0).standard_normal((300, 8)).astype(np.float32)


def make_reference():
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


def check(found, wanted):
    """The same documents, each once, with no rows beside theirs."""
    assert sorted(found.snapshot.rows["id"].to_pylist()) == sorted(wanted.ids) and len(found) == len(wanted)
    assert found._collection.count("examples") == wanted.snapshot.counts.sum()
    assert found._collection.count("rest") == (wanted.snapshot.counts > 1).sum()
    assert found.search(KEYS[:9], 20).ids == wanted.search(KEYS[:9], 20).ids


def test_a_removal_whose_answer_is_lost_has_removed_all(folder):
    datastore, gone, reference = folder.make(), [str(i) for i in range(0, 300, 3)], make_reference()
    add(datastore)
    strike(datastore, "delete", 1, lambda: None)
    with pytest.raises(RemoteDatastoreError, match="killed"):
        datastore.remove(gone)
    reference.remove(gone)
    check(datastore, reference)
    with pytest.raises(ValueError, match="What a removal whose answer was lost has removed is gone"):
        datastore.remove(gone)


def add_and_die(address, collection):
    datastore = connect_datastore(address, collection)
    strike(datastore, "upsert", 12, lambda: os.kill(os.getpid(), signal.SIGKILL))
    add(datastore)


def test_a_client_is_killed_while_it_adds(server, lite):
    arguments, reference = (f"http://127.0.0.1:{lite}", "killed"), make_reference()
    datastore = connect_datastore(*arguments, dimension=8, label_names=NAMES, index="FLAT")
    client = multiprocessing.get_context("forkserver").Process(target=add_and_die, args=arguments)
    client.start()
    client.join()
    assert client.exitcode == -signal.SIGKILL
    assert 0 < datastore._collection.count("examples") < reference.snapshot.counts.sum()
    add(datastore)
    check(datastore, reference)
