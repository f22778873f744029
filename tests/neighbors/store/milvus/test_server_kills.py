"""kill -9 of a Milvus server in the middle of an add, last of all that it is asked: nothing is lost or doubled."""

import threading
import time

from docsplit_hf.neighbors.store.milvus.collection import RemoteDatastoreError

from .test_client_kills import add, check, make_reference, strike


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


def test_a_server_is_killed_while_it_adds(standalone, process):
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
    check(datastore, make_reference())
