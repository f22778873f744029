"""A datastore on the disk answers as one in memory, and damaged files are named."""

import copy
import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from docsplit_hf import KNNDatastore
from docsplit_hf.content_hash import cache_folder
from docsplit_hf.storage import tables
from docsplit_hf.storage.manifest import DatastoreError
from docsplit_hf.storage.shards import shard_file

from .datastores import NAMES, answers, everything, make_queries
from .shards import rewrite, write_shards

IVF = {"index": "IVF16,PQ4x4", "nprobe": 4, "rerank": 8}
ROWS = 2000


@pytest.fixture(autouse=True)
def home(tmp_path_factory, monkeypatch):
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setattr("huggingface_hub.constants.HF_HOME", str(home))
    return home


@pytest.fixture
def keys():
    return np.random.default_rng(0).standard_normal((ROWS, 8)).astype(np.float16)


@pytest.fixture
def labels():
    return [NAMES[number] for number in np.random.default_rng(1).integers(0, 3, ROWS)]


def in_memory(keys, labels, **options):
    texts = [f"Text {row}" for row in range(len(keys))]
    return KNNDatastore(keys, labels, NAMES, texts, dtype=keys.dtype.name, **options)


def contents(datastore):
    return [np.asarray(datastore.keys).tobytes(), datastore.labels.tolist(), datastore.ids, datastore.texts]


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("options", [{}, IVF])
def test_mapped_shards_answer_exactly_as_rows_in_memory(tmp_path, keys, labels, options, dtype):
    keys = keys.astype(dtype)
    expected = in_memory(keys, labels, **options)
    found = KNNDatastore.from_shards(write_shards(tmp_path, keys, (1, 0, 3, 2), labels), **options)
    assert answers(found) == answers(expected) and contents(found) == contents(expected)
    assert found.snapshot.keys.added.size == 0 and np.array_equal(list(found.keys), expected.keys)
    more = np.random.default_rng(2).standard_normal((300, 8))
    for datastore in (expected, found):
        assert datastore.add(more, [0] * 300, [f"More {row}" for row in range(300)])[0] == "2000"
        datastore.remove([str(row) for row in range(100, 2200, 5)])
        datastore.add(more[:5] + 1, ["new"] * 5)
        datastore.relabel({"7": "mineral"})
        datastore.add_documents(more[:3])
    assert answers(found) == answers(expected) and contents(found) == contents(expected)
    assert found.snapshot.keys.mapped == 1620
    for datastore in (pickle.loads(pickle.dumps(found)), copy.deepcopy(found)):
        assert answers(datastore) == answers(expected) and contents(datastore) == contents(expected)
    expected.save_pretrained(tmp_path / "expected")
    found.save_pretrained(tmp_path / "found")
    names = ({p.name for p in Path(tmp_path, name, "datastore").glob("*-*")} for name in ("expected", "found"))
    assert next(names) == next(names)  # they are named by their bytes
    for memory_map in (False, True, True):
        opened = KNNDatastore.from_pretrained(tmp_path / "found", memory_map=memory_map)
        again = KNNDatastore.from_pretrained(tmp_path / "expected")
        assert answers(opened) == answers(again) and contents(opened) == contents(again)


def test_several_labels_and_documents_are_mapped_too(tmp_path):
    from .datastores import fill, make_datastore

    fill(make_datastore(multi_label=True)).save_pretrained(tmp_path)
    opened = KNNDatastore.from_pretrained(tmp_path, memory_map=True)
    expected = KNNDatastore.from_pretrained(tmp_path)
    assert answers(opened) == answers(expected) and contents(opened) == contents(expected)
    assert everything(opened.documents) == everything(expected.documents)


def test_shards_without_labels(tmp_path, keys):
    found = KNNDatastore.from_shards(write_shards(tmp_path, keys))
    assert found.label_names == () and found.labels.shape == (ROWS, 0)
    assert found.search(keys[:1], 1).example(0, 0)["text"] == "Text 0"


def test_added_rows_are_found_and_merged_into_the_same_index(tmp_path, keys, labels, caplog, monkeypatch):
    monkeypatch.setattr("docsplit_hf.storage.snapshot_index.MAX_CHANGES", 100)
    datastore = KNNDatastore.from_shards(write_shards(tmp_path, keys, labels=labels), **IVF)
    first = datastore.snapshot.index
    more = make_queries(datastore, 400)
    datastore.add(more, [0] * 400)
    datastore.remove(["3", "2003"])
    assert "400 rows changed since the index was built: call reindex" in caplog.text
    assert datastore.snapshot.index is first
    before = datastore.search(more[10:20], 1).ids
    datastore.reindex(**IVF)
    merged = datastore.snapshot
    assert merged.index.ntotal == 2399 and merged.indexed == len(datastore) == 2398 and first.ntotal == ROWS
    assert datastore.search(more[10:20], 1).ids == before == [[str(row)] for row in range(2010, 2020)]
    centers = [index.quantizer.reconstruct_n(0, 16).tolist() for index in (first, merged.index)]
    assert centers[0] == centers[1]
    datastore.remove([str(row) for row in range(4, 1300)])  # most of it: it is trained again
    datastore.reindex(**IVF)
    assert datastore.snapshot.index.ntotal == len(datastore) == 1102


def test_a_changed_shard_is_read_again_and_checked(tmp_path, keys, labels):
    folder = write_shards(tmp_path, keys, labels=labels)
    first = KNNDatastore.from_shards(folder, **IVF)
    cached = cache_folder("rows") / f"{first.snapshot.keys.sha256}.arrow"
    written_at = cached.stat().st_mtime_ns
    KNNDatastore.from_shards(folder, **IVF)
    assert cached.stat().st_mtime_ns == written_at and len(list(cache_folder("rows").glob("*.arrow"))) == 1
    cached.with_suffix(".safetensors").unlink()
    assert answers(KNNDatastore.from_shards(folder, **IVF)) == answers(first)
    path = shard_file(folder, 1)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(
        DatastoreError,
        match=r"00001.parquet is not a Parquet file: (?s:.*)verif(?s:.*)Delete it, and run the task again",
    ):
        KNNDatastore.from_shards(folder)
    path.write_bytes(content[:-1])
    with pytest.raises(DatastoreError, match=r"00001.parquet is damaged.*Delete it, and run the task again"):
        KNNDatastore.from_shards(folder)
    assert len(list(cache_folder("rows").glob("*.arrow"))) == 1 and not list(cache_folder("rows").glob("*.tmp"))


def test_a_process_that_waited_for_another_reads_nothing_again(tmp_path, keys, labels, monkeypatch):
    folder = write_shards(tmp_path, keys, labels=labels)
    locked = tables.locked
    written = []

    def locked_after_another(path):
        monkeypatch.setattr(tables, "locked", locked)
        KNNDatastore.from_shards(folder)
        written.extend((file, file.stat().st_mtime_ns) for file in cache_folder("rows").iterdir())
        return locked(path)

    monkeypatch.setattr(tables, "locked", locked_after_another)
    assert len(KNNDatastore.from_shards(folder)) == ROWS
    assert {file.suffix for file, _ in written} == {".arrow", ".lock", ".safetensors"}
    assert written == [(file, file.stat().st_mtime_ns) for file, _ in written]


def test_damaged_keys_in_the_cache_are_named(tmp_path, keys):
    folder = write_shards(tmp_path, keys)
    KNNDatastore.from_shards(folder)
    [cached] = cache_folder("rows").glob("*.safetensors")
    cached.write_bytes(cached.read_bytes()[:-1])
    with pytest.raises(ValueError, match=f"{cached.name}, in the cache of this machine, is damaged .*: delete it"):
        KNNDatastore.from_shards(folder)
    cached.unlink()
    assert len(KNNDatastore.from_shards(folder)) == ROWS


def test_a_saved_datastore_is_checked_at_its_first_mapping(tmp_path, keys, labels):
    in_memory(keys, labels).save_pretrained(tmp_path)
    (path,) = Path(tmp_path, "datastore").glob("keys-*")
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(DatastoreError, match="does not match its checksum"):
        KNNDatastore.from_pretrained(tmp_path, memory_map=True)
    assert not list(cache_folder("rows").glob("*.arrow"))


def set_column(name, values):
    def change(table):
        column = pa.array(values(table), table.schema.field(name).type)
        return table.set_column(table.schema.get_field_index(name), name, column)

    return lambda folder: rewrite(folder, 0, change)


def embeddings(values):
    return set_column("embedding", lambda table: [values, *table["embedding"].to_pylist()[1:]])


def forge(**settings):
    return lambda folder: rewrite(folder, 0, **settings)


def empty(task):
    return lambda folder: shard_file(folder, task).write_bytes(b"")


DAMAGES = {
    "row 0 holds NaN.* Delete it, and run the task again": embeddings([float("nan")] * 8),
    "an embedding has not 8 numbers": embeddings([0.0] * 7),
    "an embedding has not 8 numbers. Delete": embeddings(None),
    "an embedding has not 8 numbers. Delete it": embeddings([None] * 8),
    "has other columns than a datastore": lambda folder: rewrite(folder, 0, lambda table: table.drop_columns("id")),
    "1 of 2 shards are not finished, the first is 00001": lambda folder: shard_file(folder, 1).unlink(),
    "1 of 2 shards are not finished, the first is 00000": lambda folder: shard_file(folder, 0).unlink(),
    "00000.parquet is damaged": empty(0),
    "00001.parquet is damaged": empty(1),
    "There is no shard in": lambda folder: [shard_file(folder, task).unlink() for task in (0, 1)],
    "00000.parquet is no shard of this version": forge(version=1),
    "tasks is '2'": forge(tasks="2"),
    "dtype is 'int8'": forge(dtype="int8"),
    "dimension is 0": forge(dimension=0),
    "the probe must be numbers of shape": forge(probe=[[1.0]]),
    r"the probe must be numbers of shape \(N, 8\)": forge(probe=["a"]),
    "encoder name is 'b' there and 'made up' now": forge(encoder={"name": "b"}),
}


@pytest.mark.parametrize("words", DAMAGES)
def test_damaged_and_forged_files_are_named(tmp_path, keys, words):
    folder = write_shards(tmp_path, keys, labels=["fruit", "mineral"] * (ROWS // 2))
    DAMAGES[words](folder)
    with pytest.raises((DatastoreError, FileNotFoundError), match=words):
        KNNDatastore.from_shards(folder)
    assert not cache_folder("rows").exists() or not list(cache_folder("rows").glob("*.arrow"))


def test_missing_labels_and_repeated_ids_are_refused(tmp_path, keys, labels):
    with pytest.raises(DatastoreError, match="1999 of 2000 documents have a label"):
        KNNDatastore.from_shards(write_shards(tmp_path, keys, labels=[*labels[:-1], None]))
    assert {file.suffix for file in cache_folder("rows").iterdir()} == {".lock"}
    folder = write_shards(tmp_path / "twice", keys[:1000], (1,), labels, tasks=2)
    shard_file(folder, 1).write_bytes(shard_file(folder, 0).read_bytes())
    with pytest.raises(DatastoreError, match="the id '0' occurs twice. Give each document its own id"):
        KNNDatastore.from_shards(folder)
