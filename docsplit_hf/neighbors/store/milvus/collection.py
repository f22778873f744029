"""Collection: one collection of a Milvus server, asked through pymilvus, with errors that say what to do."""

from __future__ import annotations

import importlib.util
import logging
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ....extras import check_extra

logger = logging.getLogger(__name__)

EXAMPLES, DOCUMENTS, REST, ABOUT = "examples", "documents", "rest", "about"  # the partitions
VECTOR, PK = "vector", "pk"
MOST_BYTES = 65_535  # of a VARCHAR
MOST_FOUND = 16_384  # of a search, for one query
REQUEST_BYTES = 16 * 2**20  # of 64 MB that a server takes
FOLDER_QUERIES = 8  # of a request: milvus-lite holds the differences of each from all rows, float32 (Q, N, D)
ANY = "row >= 0"  # milvus-lite counts all partitions where there is no filter
REQUEST_ROWS = 1_000  # of texts of up to 64 KB each
BUILDING = {"HNSW": {"M": 16, "efConstruction": 200}, "IVF_FLAT": {"nlist": 1024}}  # what servers of 2.3 ask for
WIDER, NPROBE = 8, 64  # rows that HNSW looks at for each that is found, and lists of IVF: theirs find two in three
UNFLUSHED_ROWS = 1_000  # what milvus-lite searches slowly
TEXTS = ("id", "content", "labels", "text")
NUMBERS = ("row", "passage", "passages", "start", "end", "rest")
FIELDS = [PK, *TEXTS, *NUMBERS, VECTOR]


class RemoteDatastoreError(OSError):
    """A Milvus server was not reached, or did not do what it was asked."""


class Collection:
    """One collection, of a server or a folder of milvus-lite; ``timeout``: seconds for a request with repetitions."""

    def __init__(self, address: str, name: str, token: str, timeout: float) -> None:
        self.address, self.name = address, name
        self._token, self._timeout, self._unflushed = token, timeout, 0
        self._client = self._try("connecting", lambda: _client(address, token, timeout))

    def __repr__(self) -> str:
        return f"the collection {self.name!r} at {self.address}"

    @property
    def _is_folder(self) -> bool:
        return "://" not in self.address

    def dimension(self) -> int | None:
        """D of the vectors; None if there is no such collection."""
        if not self._ask("has_collection", "looking for it"):
            return None
        fields = {field["name"]: field for field in self._ask("describe_collection", "looking at it")["fields"]}
        if set(fields) != set(FIELDS):
            raise ValueError(
                f"There is {self}, but it is no datastore of this docsplit_hf: it has the fields {', '.join(fields)}. "
                "Take another name."
            )
        self._ask("load_collection", "loading it")
        return int(fields[VECTOR]["params"]["dim"])

    def create(self, dimension: int, index: str) -> None:
        """Make it, with an index of the server's over its vectors."""
        from pymilvus import DataType, MilvusClient

        schema = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field(PK, DataType.VARCHAR, is_primary=True, max_length=64)
        for name in TEXTS:
            schema.add_field(name, DataType.VARCHAR, max_length=MOST_BYTES)
        for name in NUMBERS:
            schema.add_field(name, DataType.INT64)
        schema.add_field(VECTOR, DataType.FLOAT_VECTOR, dim=dimension)
        indexes = MilvusClient.prepare_index_params()
        indexes.add_index(VECTOR, index_type=index, metric_type="L2", params=BUILDING.get(index, {}))
        # Session: what this client wrote, it reads. Strong would make each search wait.
        self._ask("create_collection", "making it", schema=schema, consistency_level="Session")
        self._ask("create_index", "making it", index_params=indexes, sync=False)  # there is nothing to wait for
        for partition in (EXAMPLES, DOCUMENTS, REST, ABOUT):
            self._ask("create_partition", "making it", partition_name=partition)
        self._ask("load_collection", "loading it")

    def count(self, partition: str, only: str = ANY) -> int:
        """How many rows a partition has."""
        options = {"filter": only, "output_fields": ["count(*)"], "partition_names": [partition]}
        return int(self._ask("query", "counting its rows", **options)[0]["count(*)"])

    def get(self, pks: Sequence[str], fields: Sequence[str]) -> list[dict[str, Any]]:
        """The rows of these keys that are there."""
        found, size = [], REQUEST_ROWS if VECTOR in fields or "text" in fields else MOST_FOUND
        for start in range(0, len(pks), size):
            part = list(pks[start : start + size])
            rows = self._ask("query", "reading rows", ids=part, output_fields=list(fields))
            # pymilvus has a Python object for each number, eight times as much memory.
            found += [row | {VECTOR: np.array(row[VECTOR], np.float32)} if VECTOR in row else row for row in rows]
        return found

    def find(self, partition: str, field: str, values: Sequence[str], fields: Sequence[str]) -> list[dict[str, Any]]:
        """The rows in which a field has one of these values, which are hexadecimal numbers."""
        found = []
        for start in range(0, len(values), REQUEST_ROWS):
            listed = ", ".join(f'"{value}"' for value in values[start : start + REQUEST_ROWS])
            options = {"filter": f"{field} in [{listed}]", "partition_names": [partition]}
            found += self._ask("query", "looking for texts", output_fields=list(fields), **options)
        return found

    def rows(self, partition: str, fields: Sequence[str], only: str = ANY) -> Iterator[dict[str, Any]]:
        """All rows of a partition, by their keys."""
        options = {"partition_names": [partition], "output_fields": [*fields]}
        # Keys of documents are a letter and a hash: those that begin alike are one request.
        count = 0 if partition == ABOUT else self.count(partition, only)
        digits = math.ceil(math.log(max(count / REQUEST_ROWS, 1), 16))
        letters = DOCUMENTS[0] + EXAMPLES[0] if partition == REST else partition[0]
        beginnings = [f"{letter}{number:0{digits}x}" for letter in letters for number in range(16**digits)]
        for beginning in beginnings if digits else [""]:
            alike = f'{only} and {PK} like "{beginning}%"'
            yield from sorted(self._ask("query", "reading its rows", filter=alike, **options), key=lambda row: row[PK])

    def search(self, partition: str, vectors: np.ndarray, limit: int) -> Iterator[list[str]]:
        """The keys of the rows that are nearest to each vector, float32 ``(Q, D)``, by squared L2."""
        size = max(min(MOST_FOUND, REQUEST_BYTES // vectors[:1].nbytes, 2**18 // limit), 1)
        size = min(size, FOLDER_QUERIES) if self._is_folder else size
        for start in range(0, len(vectors), size):
            options = {"limit": limit, "partition_names": [partition], "output_fields": [PK], "anns_field": VECTOR}
            options["search_params"] = {"params": {"ef": min(WIDER * limit, 2**15), "nprobe": NPROBE}}
            found = self._ask("search", "searching", data=list(vectors[start : start + size]), **options)
            yield from ([hit[PK] for hit in hits] for hits in found)

    def write(self, partition: str, rows: Sequence[dict[str, Any]], documents: int = 0) -> None:
        """Write rows, in place of those of the same keys, in requests that keep the rows of a document together."""
        for start, end in _requests(rows):
            doing = f"adding {documents:,} rows to it (repeat that: none is doubled)" if documents else "writing to it"
            self._ask("upsert", doing, data=list(rows[start:end]), partition_name=partition)
        self._written(len(rows))

    def delete(self, pks: Sequence[str]) -> None:
        """Delete the rows of these keys."""
        for start in range(0, len(pks), MOST_FOUND):
            self._ask("delete", "removing rows", ids=list(pks[start : start + MOST_FOUND]))
        self._written(len(pks))

    def _written(self, rows: int) -> None:
        self._unflushed += rows
        if self._is_folder and self._unflushed >= UNFLUSHED_ROWS:  # a server flushes when it is time
            self._ask("flush", "writing to it")
            self._unflushed = 0

    def _ask(self, method: str, doing: str, **options: Any) -> Any:
        call = getattr(self._client, method)
        return self._try(doing, lambda: call(collection_name=self.name, timeout=self._timeout, **options))

    def _try(self, doing: str, call: Any) -> Any:
        import grpc
        from pymilvus.exceptions import MilvusException

        try:
            return call()
        except (MilvusException, grpc.RpcError) as error:
            message = _explained(error, self._timeout)
            if self._token:
                message = message.replace(self._token, "***")
            # Not "from error": what pymilvus says of the connection may hold the token.
            raise RemoteDatastoreError(f"{self!r}, while {doing}: {message}") from None


def _client(address: str, token: str, timeout: float) -> Any:
    from pymilvus import MilvusClient

    # pymilvus pings every 10 seconds; milvus-lite ends the connection of who does so, and the next request fails.
    quiet = {} if "://" in address else {"grpc_options": {"grpc.keepalive_time_ms": 2**31 - 1}}
    return MilvusClient(uri=address, token=token, timeout=timeout, **quiet)


def check_installed(address: str) -> None:
    """Refuse to go on without pymilvus, and, for a folder, without milvus-lite."""
    check_extra("milvus", address)
    if "://" not in address and importlib.util.find_spec("milvus_lite") is None:
        raise ModuleNotFoundError(f"{address} needs milvus_lite, which is not installed: pip install milvus-lite")


def _explained(error: BaseException, timeout: float) -> str:
    """What happened, and what to do."""
    said = str(getattr(error, "message", "") or getattr(error, "details", lambda: error)())
    said = said.strip().split(", debug=")[0]
    # pymilvus says no more of a refused token than that it cannot connect; and it raises errors from themselves.
    causes = [error]
    while (cause := causes[-1].__cause__) is not None and cause not in causes:
        causes.append(cause)
    signs = " ".join([said, *map(str, causes)]).lower()
    if "unauthenticated" in signs or "auth check failure" in signs:
        return "the token was refused: pass the right one as token, or name its environment variable as token_variable."
    if "permission" in signs:
        return f"the user of this token may not do that: give the user the rights, or take another token. ({said})"
    if "open local milvus failed" in signs:
        return f"the folder cannot be opened: one process at a time may use it. End the other one. ({said})"
    if "not loaded" in signs:
        return f"the server has just started, and has not read it yet: try again. ({said})"
    if any(sign in signs for sign in ("unavailable", "deadline", "timeout", "connect")):
        return f"no answer within {timeout:g} s: is the server there? Try again, or pass a longer timeout. ({said})"
    return f"it was refused: {said}"


def _requests(rows: Sequence[dict[str, Any]]) -> Iterator[tuple[int, int]]:
    """Ranges of rows for one request each, which end where a document does, unless it is too large by itself."""
    start = size = 0
    for place, row in enumerate(rows):
        begins = row[PK].partition("p")[0] != rows[place - 1][PK].partition("p")[0]
        if place > start and size > (REQUEST_BYTES if begins else 3 * REQUEST_BYTES):
            yield start, place
            start, size = place, 0
        size += 4 * len(row[VECTOR]) + len(row["text"].encode()) + 500  # of names and numbers
    if start < len(rows):
        yield start, len(rows)
