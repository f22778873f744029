"""FirstBytes: the beginning of an HTTP answer, so that an endless one does not fill the memory."""

from collections.abc import Iterator

from httpx2 import SyncByteStream


class FirstBytes(SyncByteStream):
    """A stream that ends after a number of bytes."""

    def __init__(self, stream: SyncByteStream, most: int) -> None:
        self._stream = stream
        self._most = most

    def __iter__(self) -> Iterator[bytes]:
        """The parts of the stream."""
        left = self._most
        for part in self._stream:
            yield part[:left]
            left -= len(part)
            if left <= 0:
                return

    def close(self) -> None:
        """Close the connection, whatever is still to come."""
        self._stream.close()
