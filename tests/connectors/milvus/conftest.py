"""Three engines: a datastore in the process, one in a folder of milvus-lite, and one on a Milvus server."""

import itertools
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from milvus_lite.server_manager import server_manager_instance

from docsplit_hf import KNNDatastore, connect_datastore
from docsplit_hf.connectors.milvus.collection import Collection

NAMES = ["fruit", "mineral", "vegetable"]
MOST = 16  # collections that the tests use of a server, or nearly
STANDALONE = pytest.param("standalone", marks=pytest.mark.slow)  # it takes long to start


class Local:
    """Datastores in the process; opened again by saving and loading."""

    def __init__(self, new_folder):
        self.new_folder = new_folder

    def make(self, dimension=8, names=NAMES, **options):
        return KNNDatastore.empty(dimension, names, **options)

    def reopened(self, datastore):
        folder = self.new_folder("saved")
        datastore.save_pretrained(folder)
        return KNNDatastore.from_pretrained(folder)


class Milvus:
    """Collections of a folder or a server; opened again by another server of the folder, or another connection."""

    def __init__(self, address, token=None):
        self.address = address
        self.token = token
        self.numbers = itertools.count()

    def new_address(self):
        """The address of a new collection, as a pipeline takes it."""
        return f"milvus://{self.address.removeprefix('http://')}/pipeline_collection_{next(self.numbers)}"

    def make(self, dimension=8, names=NAMES, **options):
        return connect_datastore(
            self.address,
            f"collection_{next(self.numbers)}",
            dimension=dimension,
            label_names=names,
            index="FLAT",
            token=self.token,
            **options,
        )

    def connect(self, datastore, **options):
        return connect_datastore(self.address, datastore.collection, token=self.token, **options)

    def reopened(self, datastore):
        if self.address.endswith(".db"):
            server_manager_instance.release_server(self.address)
        return self.connect(datastore)


@pytest.fixture(scope="session")
def local(tmp_path_factory):
    return Local(tmp_path_factory.mktemp)


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    engine = Milvus(str(tmp_path_factory.mktemp("milvus") / "milvus.db"))
    yield engine
    server_manager_instance.release_server(engine.address)


@pytest.fixture(scope="package")
def lite(tmp_path_factory):
    """The port of a server of milvus-lite, in a process of its own."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    folder = tmp_path_factory.mktemp("server") / "data"
    code = f"from milvus_lite.adapter.grpc.server import run_server; run_server({str(folder)!r}, '127.0.0.1', {port})"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            break
        except OSError:
            time.sleep(0.05)
    yield port
    process.kill()
    process.wait()


@pytest.fixture(scope="package")
def process(tmp_path_factory):
    """A server of the package milvus, one for all tests of this process."""
    milvus = pytest.importorskip("milvus", reason="the server is the package milvus, which is not installed")
    config = milvus.MilvusServerConfig(data_dir=str(tmp_path_factory.mktemp("server")))
    # With 200 ms others see writes that much later, and with 10 ms an idle server is busy.
    config.set("proxy.timeTickInterval", 20)
    config.set("common.session.ttl", 3)  # a server that was killed counts as alive for so many seconds, 30 by default
    config.set("common.security.authorizationEnabled", "true")
    server = milvus.MilvusServer(config)
    server.start()
    config.resolve = lambda: None  # when it starts again, it takes the same ports
    yield server
    server.stop()


@pytest.fixture(scope="package")
def standalone(process):
    engine = Milvus(f"http://127.0.0.1:{process.listen_port}", token="root:Milvus")  # its first user

    def create(number):
        """Make a collection without its description: a server takes two seconds for each, in which it only waits."""
        Collection(engine.address, f"collection_{number}", engine.token, timeout=60).create(8, "FLAT")

    with ThreadPoolExecutor(MOST) as pool:
        list(pool.map(create, range(MOST)))
    return engine


@pytest.fixture(scope="module", params=["folder", STANDALONE])
def milvus(request):
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module", params=["local", "folder", STANDALONE])
def engine(request):
    return request.getfixturevalue(request.param)
