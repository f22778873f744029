"""Access to one collection of Milvus by pymilvus, with errors that name the next step."""

from __future__ import annotations

import importlib.util
import logging
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...extras import check_extra

logger = logging.getLogger(__name__)

# Partitions.
EXAMPLES = "examples"
DOCUMENTS = "documents"
DESCRIPTION = "about"

VECTOR = "vector"  # field of the embedding
PK = "pk"  # field of the primary key
MAX_FIELD_BYTES = 65_535  # limit of a VARCHAR field
MAX_RESULTS = 16_384  # limit for one query of a search
MAX_PRIMARY_KEY = 64  # characters
REQUEST_BYTES = 16 * 2**20  # a server accepts 64 MB
ROW_OVERHEAD = 500  # bytes of field names and numbers in a request, an estimate
REQUEST_RESULTS = 2**18  # of all queries in a request
FOLDER_QUERIES = 8  # per request: milvus-lite holds the differences of each query from all rows, float32 (Q, N, D)
ALL_ROWS = "row >= 0"  # a filter is needed: without one, milvus-lite counts the rows of all partitions
REQUEST_ROWS = 1_000  # with texts of up to 64 KB each
# Milvus 2.3 has no defaults for these.
INDEX_PARAMETERS = {"HNSW": {"M": 16, "efConstruction": 200}, "IVF_FLAT": {"nlist": 1024}}
# With the default of Milvus, these indexes find two in three of the nearest rows.
HNSW_ROWS_PER_RESULT = 8  # rows that HNSW compares
MAX_HNSW_ROWS = 2**15
IVF_LISTS = 64  # lists that IVF searches
MAX_UNFLUSHED_ROWS = 1_000  # milvus-lite searches unflushed rows slowly
TEXT_FIELDS = tuple(f"text_{number}" for number in range(16))  # a text is divided among them
STRINGS = ("id", "content", "labels", *TEXT_FIELDS)
NUMBER = "row"  # field of the number by which rows are ordered
FIELDS = [PK, *STRINGS, NUMBER, VECTOR]


Row = dict[str, Any]  # values by the names of fields that were asked for; see ``rows.py``


class RemoteDatastoreError(OSError):
    """A Milvus server could not be reached, or refused a request."""


class Collection:
    """A collection of a server or of a milvus-lite folder; ``timeout``: seconds for a request including retries."""

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
        if not self._ask("has_collection", "checking whether it exists"):
            return None
        fields = {field["name"]: field for field in self._ask("describe_collection", "reading its schema")["fields"]}
        if set(fields) != set(FIELDS):
            raise ValueError(
                f"{self!r} is not a datastore of this docsplit_hf: it has the fields {', '.join(fields)}. Use another "
                "name."
            )
        self._ask("load_collection", "loading it")
        return int(fields[VECTOR]["params"]["dim"])

    def create(self, dimension: int, index: str) -> None:
        """Create the collection, with an index of the server over its vectors."""
        from pymilvus import DataType, MilvusClient

        schema = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field(PK, DataType.VARCHAR, is_primary=True, max_length=MAX_PRIMARY_KEY)
        for name in STRINGS:
            schema.add_field(name, DataType.VARCHAR, max_length=MAX_FIELD_BYTES)
        schema.add_field(NUMBER, DataType.INT64)
        schema.add_field(VECTOR, DataType.FLOAT_VECTOR, dim=dimension)
        indexes = MilvusClient.prepare_index_params()
        indexes.add_index(VECTOR, index_type=index, metric_type="L2", params=INDEX_PARAMETERS.get(index, {}))
        # Session: this client reads its own writes. Strong would make each search wait.
        self._ask("create_collection", "creating it", schema=schema, consistency_level="Session")
        self._ask("create_index", "creating it", index_params=indexes, sync=False)  # the collection is empty
        for partition in (EXAMPLES, DOCUMENTS, DESCRIPTION):
            self._ask("create_partition", "creating it", partition_name=partition)
        self._ask("load_collection", "loading it")

    def count(self, partition: str) -> int:
        """Count the rows of a partition."""
        counted = self._ask(
            "query", "counting its rows", filter=ALL_ROWS, output_fields=["count(*)"], partition_names=[partition]
        )
        return int(counted[0]["count(*)"])

    def get(self, pks: Sequence[str], fields: Sequence[str]) -> list[Row]:
        """Fetch the rows with these primary keys that exist."""
        size = REQUEST_ROWS if VECTOR in fields or TEXT_FIELDS[0] in fields else MAX_RESULTS
        found = []
        for start in range(0, len(pks), size):
            part = list(pks[start : start + size])
            for row in self._ask("query", "reading rows", ids=part, output_fields=list(fields)):
                if VECTOR in row:  # pymilvus has a Python object for each number, which takes eight times the memory
                    row = row | {VECTOR: np.array(row[VECTOR], np.float32)}
                found.append(row)
        return found

    def find(self, partition: str, field: str, values: Sequence[str], fields: Sequence[str]) -> list[Row]:
        """Fetch the rows with one of these values, hexadecimal hashes, in a field."""
        found = []
        for start in range(0, len(values), REQUEST_ROWS):
            listed = ", ".join(f'"{value}"' for value in values[start : start + REQUEST_ROWS])
            found += self._ask(
                "query",
                "finding texts",
                output_fields=list(fields),
                filter=f"{field} in [{listed}]",
                partition_names=[partition],
            )
        return found

    def rows(self, partition: str, fields: Sequence[str]) -> Iterator[Row]:
        """Fetch all rows of a partition, ordered by primary key."""
        for prefix in self._key_prefixes(partition):
            found = self._ask(
                "query",
                "reading its rows",
                filter=f'{ALL_ROWS} and {PK} like "{prefix}%"',
                partition_names=[partition],
                output_fields=[*fields],
            )
            yield from sorted(found, key=lambda row: row[PK])

    def _key_prefixes(self, partition: str) -> list[str]:
        """Prefixes of primary keys that divide a partition into requests; a primary key is a letter and a hash."""
        count = 0 if partition == DESCRIPTION else self.count(partition)
        digits = math.ceil(math.log(max(count / REQUEST_ROWS, 1), 16))
        if digits == 0:
            return [""]
        return [f"{partition[0]}{number:0{digits}x}" for number in range(16**digits)]

    def search(self, partition: str, vectors: np.ndarray, limit: int) -> Iterator[list[str]]:
        """Yield the primary keys of the nearest rows for each vector, float32 ``(Q, D)``, by squared L2 distance."""
        size = max(min(MAX_RESULTS, REQUEST_BYTES // vectors[:1].nbytes, REQUEST_RESULTS // limit), 1)
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
                search_params={"params": {"ef": min(HNSW_ROWS_PER_RESULT * limit, MAX_HNSW_ROWS), "nprobe": IVF_LISTS}},
            )
            for hits in found:
                yield [hit[PK] for hit in hits]

    def write(self, partition: str, rows: Sequence[Row]) -> None:
        """Write rows, replacing those with equal primary keys."""
        doing = f"writing {len(rows):,} rows to it (it is safe to repeat: no row is added twice)"
        for start, end in _requests(rows):
            self._ask("upsert", doing, data=list(rows[start:end]), partition_name=partition)
        self._flush_after(len(rows))

    def delete(self, pks: Sequence[str]) -> None:
        """Delete the rows with these primary keys."""
        for start in range(0, len(pks), MAX_RESULTS):
            self._ask("delete", "removing rows", ids=list(pks[start : start + MAX_RESULTS]))
        self._flush_after(len(pks))

    def _flush_after(self, rows: int) -> None:
        self._unflushed += rows
        if self._is_folder and self._unflushed >= MAX_UNFLUSHED_ROWS:  # a server flushes by itself
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
            message = _cause_and_remedy(error, self._timeout)
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


def _cause_and_remedy(error: BaseException, timeout: float) -> str:
    """Describe the cause of an error and the next step."""
    message = getattr(error, "message", "")
    if not message:
        message = error.details() if hasattr(error, "details") else error
    reason = str(message).strip().split(", debug=")[0]
    signs = " ".join([reason, *map(str, _causes(error))]).lower()
    if "unauthenticated" in signs or "auth check failure" in signs:
        return "the token was refused: pass a valid token."
    if "permission" in signs:
        return f"the user of this token lacks the permission: grant it, or use another token. ({reason})"
    if "open local milvus failed" in signs:
        return f"only one process at a time may open the folder: end the other one. ({reason})"
    if "not loaded" in signs:
        return f"the server is still loading the collection: try again. ({reason})"
    if any(sign in signs for sign in ("unavailable", "deadline", "timeout", "connect")):
        remedy = "check that the server runs, then try again or pass a longer timeout"
        return f"no answer within {timeout:g} s: {remedy}. ({reason})"
    return f"Milvus refused the request: {reason}"


def _causes(error: BaseException) -> list[BaseException]:
    """Return an error and its causes. Only a cause shows a refused token: pymilvus then reports a failed connection."""
    causes = [error]
    cause = error.__cause__
    while cause is not None and cause not in causes:  # pymilvus raises errors from themselves
        causes.append(cause)
        cause = cause.__cause__
    return causes


def _requests(rows: Sequence[Row]) -> Iterator[tuple[int, int]]:
    """Yield ranges of rows, one per request."""
    start = 0
    size = 0
    for place, row in enumerate(rows):
        if size > REQUEST_BYTES:
            yield start, place
            start = place
            size = 0
        size += row[VECTOR].nbytes + sum(len(row[name].encode()) for name in TEXT_FIELDS) + ROW_OVERHEAD
    if start < len(rows):
        yield start, len(rows)
