"""A datastore on the disk answers as one in memory, and damaged files are named."""

import copy
import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from docsplit_hf import KNNDatastore
from docsplit_hf.storage.manifest import DatastoreError
from docsplit_hf.storage.shards import ShardsError
from docsplit_hf.storage.tables import row_folder

from .datastores import NAMES, answers, everything, make_queries
from .shards import seal, write_shards

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
    found = KNNDatastore.from_shards(write_shards(tmp_path, keys, names=None))
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


def test_opening_again_does_not_read_keys_and_texts_without_verify(tmp_path, keys, labels):
    folder = write_shards(tmp_path, keys, labels=labels)
    KNNDatastore.from_shards(folder, **IVF)
    path = folder / "00001.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    KNNDatastore.from_shards(folder, **IVF)
    with pytest.raises(ShardsError, match=r"00001.safetensors is damaged: it does not match its checksum"):
        KNNDatastore.from_shards(folder, verify=True)
    path.write_bytes(content[:-1])
    with pytest.raises(ShardsError, match="has no matrix"):
        KNNDatastore.from_shards(folder)
    assert len(list(row_folder().glob("*.arrow"))) == 1 and not list(row_folder().glob("*.tmp"))


def test_a_saved_datastore_is_checked_at_its_first_mapping(tmp_path, keys, labels):
    in_memory(keys, labels).save_pretrained(tmp_path)
    (path,) = Path(tmp_path, "datastore").glob("keys-*")
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(DatastoreError, match="does not match its checksum"):
        KNNDatastore.from_pretrained(tmp_path, memory_map=True)
    assert not list(row_folder().glob("*.arrow"))


def change(path, **changes):
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def hostile_rows(folder):
    seal(folder, 1, 3, passages=3)


def other_dtype(folder):
    save_file({"keys": np.zeros((667, 8), np.float32)}, folder / "00000.safetensors")
    seal(folder, 0, 666)


def not_finite(folder):
    save_file({"keys": np.full((666, 8), np.nan, np.float16)}, folder / "00000.safetensors")
    seal(folder, 0, 666)


def outside(folder):
    sha256 = {"../secret.parquet": "0" * 64, "00000.safetensors": "0" * 64}
    change(folder / "00000.json", sha256=sha256)


def huge_header(folder):
    (folder / "00000.safetensors").write_bytes(b"\xff" * 100)


def false_offsets(folder):
    path = folder / "00000.safetensors"
    path.write_bytes(path.read_bytes().replace(b"[666,8]", b"[999,8]"))


DAMAGES = {
    "it has no matrix 'keys' of float32 or float16": huge_header,
    "has no matrix 'keys'": false_offsets,
    r"holds keys float16 \(1334, 8\), expected \('float16', \(3, 8\)\)": hostile_rows,
    r"holds keys float32": other_dtype,
    "row 0 holds NaN": not_finite,
    r"files are \['../secret.parquet', '00000.safetensors'\]": outside,
    "1 of 2 shards are not finished, the first is 00001": lambda folder: (folder / "00001.json").unlink(),
    "00000.safetensors is missing": lambda folder: (folder / "00000.safetensors").unlink(),
    "dtype is 'int8'": lambda folder: change(folder / "corpus.json", dtype="int8"),
    "tasks is '2', not int": lambda folder: change(folder / "corpus.json", tasks="2"),
    "version 9: upgrade": lambda folder: change(folder / "corpus.json", version=9),
    "the probe has shape": lambda folder: change(folder / "corpus.json", probe=[[1.0]]),
    "the label 'mineral' is not one of the 1": lambda folder: change(folder / "corpus.json", label_names=["fruit"]),
    "00000.json is damaged, it is not JSON": lambda folder: (folder / "00000.json").write_text("{"),
    "There is no corpus.json": lambda folder: (folder / "corpus.json").unlink(),
}


@pytest.mark.parametrize("words", DAMAGES)
def test_damaged_and_forged_files_are_named(tmp_path, keys, words):
    folder = write_shards(tmp_path, keys, labels=["fruit", "mineral"] * (ROWS // 2))
    DAMAGES[words](folder)
    with pytest.raises((ShardsError, FileNotFoundError), match=words):
        KNNDatastore.from_shards(folder)
    assert not row_folder().exists() or not list(row_folder().glob("*.arrow"))


def test_missing_labels_and_repeated_ids_are_refused(tmp_path, keys, labels):
    with pytest.raises(ShardsError, match="1999 of 2000 documents have a label"):
        KNNDatastore.from_shards(write_shards(tmp_path, keys, labels=[*labels[:-1], None]))
    folder = write_shards(tmp_path / "twice", keys[:1000], (1,), labels)
    for suffix in ("parquet", "safetensors"):
        (folder / f"00001.{suffix}").write_bytes((folder / f"00000.{suffix}").read_bytes())
    seal(folder, 1, 1000)
    change(folder / "corpus.json", tasks=2)
    with pytest.raises(ShardsError, match="the id '0' occurs twice"):
        KNNDatastore.from_shards(folder)
