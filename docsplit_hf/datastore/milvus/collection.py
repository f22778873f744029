"""Access to one collection of Milvus by pymilvus, with errors that name the next step."""

from __future__ import annotations

import importlib.util
import logging
import math
from collections.abc import Iterator, Sequence
from typing import Any, TypedDict

import numpy as np

from ...extras import check_extra

logger = logging.getLogger(__name__)

# Partitions.
EXAMPLES = "examples"
DOCUMENTS = "documents"
REST = "rest"
ABOUT = "about"

VECTOR = "vector"  # field of the key
PK = "pk"  # field of the primary key
MOST_BYTES = 65_535  # of a VARCHAR
MOST_FOUND = 16_384  # results of a search, for one query
REQUEST_BYTES = 16 * 2**20  # a server takes 64 MB
FOLDER_QUERIES = 8  # per request: milvus-lite holds the differences of each query from all rows, float32 (Q, N, D)
ANY = "row >= 0"  # without a filter milvus-lite counts all partitions
REQUEST_ROWS = 1_000  # with texts of up to 64 KB each
INDEX_PARAMETERS = {"HNSW": {"M": 16, "efConstruction": 200}, "IVF_FLAT": {"nlist": 1024}}  # Milvus 2.3 needs them
HNSW_ROWS = 8  # rows that HNSW compares for each result; with its default it finds two in three
IVF_LISTS = 64  # lists that IVF searches; with its default it finds two in three
UNFLUSHED_ROWS = 1_000  # milvus-lite searches unflushed rows slowly
TEXTS = ("id", "content", "labels", "text")
NUMBERS = ("row", "passage", "passages", "start", "end", "rest")
FIELDS = [PK, *TEXTS, *NUMBERS, VECTOR]


class Row(TypedDict, total=False):
    """A row of a collection, with the fields that were asked for; see ``rows.py``."""

    pk: str
    id: str
    content: str
    labels: str
    text: str
    row: int
    passage: int
    passages: int
    start: int
    end: int
    rest: int
    vector: np.ndarray


class RemoteDatastoreError(OSError):
    """A Milvus server could not be reached, or refused a request."""


class Collection:
    """One collection of a server or a folder of milvus-lite; ``timeout``: seconds for a request with repetitions."""

    def __init__(self, address: str, name: str, token: str, timeout: float) -> None:
        self.address = address
        self.name = name
        self._token = token
        self._timeout = timeout
        self._unflushed = 0  # rows
        self._client = self._try("connecting", lambda: _client(address, token, timeout))

    def __repr__(self) -> str:
        return f"the collection {self.name!r} at {self.address}"

    @property
    def _is_folder(self) -> bool:
        return "://" not in self.address

    def dimension(self) -> int | None:
        """D of the vectors; None if the collection does not exist."""
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
        """Create the collection, with an index of the server over its vectors."""
        from pymilvus import DataType, MilvusClient

        schema = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field(PK, DataType.VARCHAR, is_primary=True, max_length=64)
        for name in TEXTS:
            schema.add_field(name, DataType.VARCHAR, max_length=MOST_BYTES)
        for name in NUMBERS:
            schema.add_field(name, DataType.INT64)
        schema.add_field(VECTOR, DataType.FLOAT_VECTOR, dim=dimension)
        indexes = MilvusClient.prepare_index_params()
        indexes.add_index(VECTOR, index_type=index, metric_type="L2", params=INDEX_PARAMETERS.get(index, {}))
        # Session: this client reads its own writes. Strong would make each search wait.
        self._ask("create_collection", "making it", schema=schema, consistency_level="Session")
        self._ask("create_index", "making it", index_params=indexes, sync=False)  # the collection is empty
        for partition in (EXAMPLES, DOCUMENTS, REST, ABOUT):
            self._ask("create_partition", "making it", partition_name=partition)
        self._ask("load_collection", "loading it")

    def count(self, partition: str, only: str = ANY) -> int:
        """The number of rows of a partition."""
        counted = self._ask(
            "query", "counting its rows", filter=only, output_fields=["count(*)"], partition_names=[partition]
        )
        return int(counted[0]["count(*)"])

    def get(self, pks: Sequence[str], fields: Sequence[str]) -> list[Row]:
        """The existing rows of these keys."""
        size = REQUEST_ROWS if VECTOR in fields or "text" in fields else MOST_FOUND
        found = []
        for start in range(0, len(pks), size):
            part = list(pks[start : start + size])
            for row in self._ask("query", "reading rows", ids=part, output_fields=list(fields)):
                if VECTOR in row:  # pymilvus has a Python object for each number, eight times as much memory
                    row = row | {VECTOR: np.array(row[VECTOR], np.float32)}
                found.append(row)
        return found

    def find(self, partition: str, field: str, values: Sequence[str], fields: Sequence[str]) -> list[Row]:
        """The rows with one of these values, hexadecimal numbers, in a field."""
        found = []
        for start in range(0, len(values), REQUEST_ROWS):
            listed = ", ".join(f'"{value}"' for value in values[start : start + REQUEST_ROWS])
            found += self._ask(
                "query",
                "looking for texts",
                output_fields=list(fields),
                filter=f"{field} in [{listed}]",
                partition_names=[partition],
            )
        return found

    def rows(self, partition: str, fields: Sequence[str], only: str = ANY) -> Iterator[Row]:
        """All rows of a partition, in the order of their keys."""
        for prefix in self._key_prefixes(partition, only):
            found = self._ask(
                "query",
                "reading its rows",
                filter=f'{only} and {PK} like "{prefix}%"',
                partition_names=[partition],
                output_fields=[*fields],
            )
            yield from sorted(found, key=lambda row: row[PK])

    def _key_prefixes(self, partition: str, only: str) -> list[str]:
        """Prefixes of keys that divide the rows of a partition into requests; keys are a letter and a hash."""
        count = 0 if partition == ABOUT else self.count(partition, only)
        digits = math.ceil(math.log(max(count / REQUEST_ROWS, 1), 16))
        if digits == 0:
            return [""]
        letters = DOCUMENTS[0] + EXAMPLES[0] if partition == REST else partition[0]
        return [f"{letter}{number:0{digits}x}" for letter in letters for number in range(16**digits)]

    def search(self, partition: str, vectors: np.ndarray, limit: int) -> Iterator[list[str]]:
        """The keys of the nearest rows of each vector, float32 ``(Q, D)``, by squared L2."""
        size = max(min(MOST_FOUND, REQUEST_BYTES // vectors[:1].nbytes, 2**18 // limit), 1)
        if self._is_folder:
            size = min(size, FOLDER_QUERIES)
        for start in range(0, len(vectors), size):
            found = self._ask(
                "search",
                "searching",
                data=list(vectors[start : start + size]),
                limit=limit,
                partition_names=[partition],
                output_fields=[PK],
                anns_field=VECTOR,
                search_params={"params": {"ef": min(HNSW_ROWS * limit, 2**15), "nprobe": IVF_LISTS}},
            )
            for hits in found:
                yield [hit[PK] for hit in hits]

    def write(self, partition: str, rows: Sequence[Row], documents: int = 0) -> None:
        """Write rows, replacing rows of the same keys, in requests that keep the rows of a document together."""
        doing = "writing to it"
        if documents:
            doing = f"adding {documents:,} rows to it (repeat that: none is doubled)"
        for start, end in _requests(rows):
            self._ask("upsert", doing, data=list(rows[start:end]), partition_name=partition)
        self._written(len(rows))

    def delete(self, pks: Sequence[str]) -> None:
        """Delete the rows of these keys."""
        for start in range(0, len(pks), MOST_FOUND):
            self._ask("delete", "removing rows", ids=list(pks[start : start + MOST_FOUND]))
        self._written(len(pks))

    def _written(self, rows: int) -> None:
        self._unflushed += rows
        if self._is_folder and self._unflushed >= UNFLUSHED_ROWS:  # a server flushes by itself
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
            # Not "from error": pymilvus's description of the connection may hold the token.
            raise RemoteDatastoreError(f"{self!r}, while {doing}: {message}") from None


def _client(address: str, token: str, timeout: float) -> Any:
    from pymilvus import MilvusClient

    if "://" in address:
        return MilvusClient(uri=address, token=token, timeout=timeout)
    # pymilvus pings every 10 seconds; milvus-lite then ends the connection, and the next request fails.
    without_pings = {"grpc.keepalive_time_ms": 2**31 - 1}
    return MilvusClient(uri=address, token=token, timeout=timeout, grpc_options=without_pings)


def check_installed(address: str) -> None:
    """Raise if pymilvus is missing, or, for a folder, milvus-lite."""
    check_extra("milvus", address)
    if "://" not in address and importlib.util.find_spec("milvus_lite") is None:
        raise ModuleNotFoundError(f"{address} needs milvus_lite, which is not installed: pip install milvus-lite")


def _explained(error: BaseException, timeout: float) -> str:
    """The cause of an error, and the next step."""
    message = getattr(error, "message", "")
    if not message:
        message = error.details() if hasattr(error, "details") else error
    reason = str(message).strip().split(", debug=")[0]
    signs = " ".join([reason, *map(str, _causes(error))]).lower()
    if "unauthenticated" in signs or "auth check failure" in signs:
        return "the token was refused: pass the right one as token, or name its environment variable as token_variable."
    if "permission" in signs:
        return f"the user of this token may not do that: give the user the rights, or take another token. ({reason})"
    if "open local milvus failed" in signs:
        return f"the folder cannot be opened: one process at a time may use it. End the other one. ({reason})"
    if "not loaded" in signs:
        return f"the server has just started, and has not read it yet: try again. ({reason})"
    if any(sign in signs for sign in ("unavailable", "deadline", "timeout", "connect")):
        return f"no answer within {timeout:g} s: is the server there? Try again, or pass a longer timeout. ({reason})"
    return f"it was refused: {reason}"


def _causes(error: BaseException) -> list[BaseException]:
    """An error and its causes: of a refused token, pymilvus's own message tells only that it cannot connect."""
    causes = [error]
    cause = error.__cause__
    while cause is not None and cause not in causes:  # pymilvus raises errors from themselves
        causes.append(cause)
        cause = cause.__cause__
    return causes


def _requests(rows: Sequence[Row]) -> Iterator[tuple[int, int]]:
    """Ranges of rows for one request each; they end with a document, unless it is too large by itself."""
    start = 0
    size = 0
    for place, row in enumerate(rows):
        begins_document = row[PK].partition("p")[0] != rows[place - 1][PK].partition("p")[0]
        if place > start and size > (REQUEST_BYTES if begins_document else 3 * REQUEST_BYTES):
            yield start, place
            start = place
            size = 0
        size += 4 * len(row[VECTOR]) + len(row["text"].encode()) + 500  # of names and numbers
    if start < len(rows):
        yield start, len(rows)
