"""Two engines: a datastore in the process, and one in a folder of milvus-lite, which a module's tests share."""

import itertools

import pytest
from milvus_lite.server_manager import server_manager_instance

from docsplit_hf import KNNDatastore, connect_datastore

NAMES = ["fruit", "mineral", "vegetable"]


class Local:
    """Datastores in the process; opened again by saving and loading."""

    def __init__(self, folder):
        self.folder = folder

    def make(self, dimension=8, names=NAMES, **options):
        return KNNDatastore.empty(dimension, names, **options)

    def reopened(self, datastore):
        datastore.save_pretrained(self.folder)
        return KNNDatastore.from_pretrained(self.folder)


class Milvus:
    """Collections in a folder; opened again by another server."""

    def __init__(self, folder):
        self.address, self.names = str(folder / "milvus.db"), (f"collection_{i}" for i in itertools.count())

    def make(self, dimension=8, names=NAMES, **options):
        options |= {"dimension": dimension, "label_names": names, "index": "FLAT"}
        return connect_datastore(self.address, next(self.names), **options)

    def connect(self, datastore, **options):
        return connect_datastore(self.address, datastore.collection, **options)

    def reopened(self, datastore):
        server_manager_instance.release_server(self.address)
        return self.connect(datastore)


@pytest.fixture(scope="module")
def milvus(tmp_path_factory):
    engine = Milvus(tmp_path_factory.mktemp("milvus"))
    yield engine
    server_manager_instance.release_server(engine.address)


@pytest.fixture(params=["local", "milvus"])
def engine(request, tmp_path):
    return Local(tmp_path) if request.param == "local" else request.getfixturevalue("milvus")
