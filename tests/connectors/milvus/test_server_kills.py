"""kill -9 of a Milvus server in the middle of an add, as the last test of the server: no row is lost or doubled."""

import threading
import time

import pytest

from docsplit_hf.connectors.milvus.collection import RemoteDatastoreError

from .test_client_kills import add, check, make_reference, strike


def until_it_works(call):
    """Repeat a call while the server starts, and return the messages of its errors."""
    messages = []
    end = time.monotonic() + 90
    while time.monotonic() < end:
        try:
            call()
            return messages
        except RemoteDatastoreError as error:
            messages.append(str(error))
            time.sleep(0.2)
    raise TimeoutError(messages[-1])


@pytest.mark.slow
def test_an_add_is_repeated_after_the_server_was_killed(standalone, process):
    starting = threading.Thread(target=process.start)
    datastore = standalone.connect(standalone.make(), timeout=2.0)

    def kill():
        process.server_proc.kill()
        process.server_proc.wait()
        starting.start()

    strike(datastore, "upsert", 12, kill)
    first, *later = until_it_works(lambda: add(datastore))
    starting.join()
    assert first == "killed"
    for message in later:
        assert "check that the server runs" in message or "still loading" in message
    check(datastore, make_reference())
