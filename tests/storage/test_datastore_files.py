import hashlib
import json
import multiprocessing
import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import load_file, save_file

from docsplit_hf.arrays.changes import add_document_rows, no_documents
from docsplit_hf.arrays.fitted_state import FittedState
from docsplit_hf.arrays.index import IndexOptions
from docsplit_hf.arrays.passages import check_passages
from docsplit_hf.arrays.row_table import make_rows
from docsplit_hf.arrays.snapshot import Snapshot
from docsplit_hf.storage.datastore_files import read_datastore, write_datastore
from docsplit_hf.storage.manifest import FILE_NAMES, DatastoreError, file_name, read_manifest, render_manifest

from ..classifier.datastore.datastores import contents_of, make_fitted, make_passages


def make_snapshot(seed=0, rows=6, multi_label=False, dtype="float32", probe=True, whole=False, **changes):
    """``whole``: with documents and a fitted state, and passages of both."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, (rows, 3)).astype(bool) if multi_label else rng.integers(0, 3, rows)
    snapshot = Snapshot(
        keys=rng.standard_normal((rows, 4)).astype(dtype),
        labels=labels,
        rows=make_rows(rows, [f"{seed}-{i}" for i in range(rows)], [f"Text {i} ü 好" for i in range(rows)]),
        label_names=("fruit", "mineral", "ünïcode \ud800"),
        next_id=seed,
        options=IndexOptions("IVF16,PQ2", nprobe=4, rerank=2),
        probe=rng.standard_normal((3, 4)).astype(np.float32) if probe else None,
    )
    if whole:
        keys = rng.standard_normal((rows + 1, 4))
        texts = [f"Document {i} ü 好" for i in range(rows + 1)]
        passages = make_passages(keys, seed)
        snapshot = add_document_rows(snapshot, keys, texts, passages=passages)
        passages = check_passages(make_passages(snapshot.keys, seed), snapshot.keys)
        if passages is not None:
            passages = passages._replace(embeddings=passages.embeddings.astype(dtype))
        snapshot = replace(snapshot, fitted=make_fitted(seed), passages=passages)
    return replace(snapshot, **changes)


def contents(snapshot):
    """The contents of a snapshot, to be compared."""
    probe = None if snapshot.probe is None else snapshot.probe.tolist()
    arrays = [(array.dtype, array.shape, array.tolist()) for array in (snapshot.keys, snapshot.labels)]
    if snapshot.passages is not None:
        arrays += [(array.dtype, array.tolist()) for array in snapshot.passages]
    rows = [arrays, snapshot.rows.to_pylist(), snapshot.label_names, snapshot.next_id, snapshot.options, probe]
    documents = snapshot.documents
    fitted = snapshot.fitted
    return [*rows, documents and contents(documents), fitted and contents_of(fitted)]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"multi_label": True},
        {"dtype": "float16", "probe": False},
        {"rows": 0},
        {"rows": 0, "multi_label": True, "label_names": (), "labels": np.zeros((0, 0), dtype=bool)},
        {"labels": np.zeros((6, 3), dtype=bool)},
        {"rows": 2, "text": [None, "x"], "text_pair": ["y", None]},
        {"whole": True},
        {"whole": True, "multi_label": True, "dtype": "float16", "probe": False},
        {"whole": True, "rows": 0},
        {"documents": no_documents(make_snapshot()), "fitted": FittedState({}, {}, ())},
        {"whole": True, "passages": None},
        {"passages": check_passages(make_passages(np.eye(6, 4, dtype=np.float32)), np.eye(6, 4))},
        {"fitted": FittedState({"a": 1}, {"no values": np.zeros((3, 0), dtype=bool)}, ("", ""))},
    ],
)
def test_written_datastores_are_read_unchanged(changes, tmp_path):
    texts = [changes.pop(name, None) for name in ("text", "text_pair")]
    snapshot = make_snapshot(**changes)
    if any(texts):
        snapshot = replace(snapshot, rows=make_rows(2, ["a", "b"], *texts))
    manifest = write_datastore(tmp_path, snapshot)
    again, manifest_again = read_datastore(tmp_path)
    assert contents(again) == contents(snapshot)
    assert {**manifest_again, "sha256": None} == {**manifest, "sha256": None}
    assert again.rows.schema == snapshot.rows.schema


def test_the_folder_holds_plain_data_in_three_files(tmp_path):
    write_datastore(tmp_path, make_snapshot())
    assert sorted(path.name.split("-")[0] for path in tmp_path.iterdir()) == ["keys", "manifest.json", "rows"]
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert {name: manifest[name] for name in ("rows", "dimension", "dtype", "metric", "multi_label", "next_id")} == {
        "rows": 6, "dimension": 4, "dtype": "float32", "metric": "squared_l2", "multi_label": False, "next_id": 0,
    }  # fmt: skip
    assert list(manifest)[-1] == "sha256"
    for entry in manifest["files"].values():
        content = (tmp_path / entry["name"]).read_bytes()
        assert entry["sha256"] == hashlib.sha256(content).hexdigest()
        assert entry["bytes"] == len(content)
    table = pq.read_table(tmp_path / manifest["files"]["rows"]["name"])
    assert table.column_names == ["id", "label", "text"]
    assert table.schema.metadata is None


def test_saving_replaces_the_datastore_and_keeps_other_files(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "keys-mine.safetensors").write_text("mine")
    (tmp_path / ".saving").mkdir()
    (tmp_path / ".saving" / ".tmpO6hDDo").write_text("of safetensors, killed while it wrote")
    for seed in range(3):
        write_datastore(tmp_path, make_snapshot(seed, whole=seed == 1))
    assert contents(read_datastore(tmp_path)[0]) == contents(make_snapshot(2))
    assert len(list(tmp_path.iterdir())) == 3 + 2  # nothing is left of earlier rows


def test_each_of_200_flipped_bits_is_an_error_that_names_the_file(tmp_path):
    write_datastore(tmp_path, make_snapshot(multi_label=True, whole=True))
    rng = np.random.default_rng(0)
    files = sorted(tmp_path.iterdir())
    assert len(files) == 9
    for flip in range(200):
        path = files[flip % len(files)]
        content = path.read_bytes()
        damaged = bytearray(content)
        damaged[rng.integers(len(content))] ^= 1 << rng.integers(8)
        path.write_bytes(damaged)
        with pytest.raises(DatastoreError, match=path.name):
            read_datastore(tmp_path)
        path.write_bytes(content)
    assert contents(read_datastore(tmp_path)[0]) == contents(make_snapshot(multi_label=True, whole=True))


@pytest.mark.parametrize("role", ["manifest", *FILE_NAMES])
def test_a_truncated_or_missing_file_is_named(role, tmp_path):
    write_datastore(tmp_path, make_snapshot(whole=True))
    (path,) = tmp_path.glob(f"{role}*")
    content = path.read_bytes()
    for kept in (0, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:kept])
        with pytest.raises(DatastoreError, match=f"{path.name} is damaged.*or build it again"):
            read_datastore(tmp_path)
    path.unlink()
    with pytest.raises((DatastoreError, FileNotFoundError), match=f"missing: .*{path.name}|no datastore in"):
        read_datastore(tmp_path)


def sign(folder, change):
    """Change a manifest as a careful attacker would, with a checksum that fits."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_bytes(render_manifest(manifest))


def exchange(folder, role, write):
    """Put another file in place of one, with a manifest that fits."""
    path = folder / "new"
    write(path)
    content = path.read_bytes()
    sha256 = hashlib.sha256(content).hexdigest()
    name = file_name(role, sha256)
    path.rename(folder / name)
    entry = {"name": name, "bytes": len(content), "sha256": sha256}
    sign(folder, lambda manifest: manifest["files"].update({role: entry}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda m: m.update(rows=7),
            r"keys-.*only a tensor 'keys' of float32 \(7, 4\).*found 'keys' of float32 \(6, 4\)",
        ),
        (lambda m: m.update(rows=-1), "manifest.json: rows is -1"),
        (lambda m: m.update(rows=True), "manifest.json: rows is True, not int"),
        (lambda m: m.update(dimension=0), "manifest.json: dimension is 0"),
        (lambda m: m.update(dtype="float16"), r"'keys' of float16.*found 'keys' of float32"),
        (lambda m: m.update(dtype="object"), "manifest.json: dtype is 'object'"),
        (lambda m: m.update(metric="cosine"), "manifest.json: the metric is 'cosine', not 'squared_l2'"),
        (lambda m: m.update(multi_label=True), "rows-.* has other columns than a datastore"),
        (lambda m: m.update(label_names=["fruit"]), "rows-.*: label [12], but there are 1 label names"),
        (lambda m: m.update(label_names=["a", "b", "a"]), "manifest.json: a label name occurs twice"),
        (lambda m: m.update(label_names=["a", "b", 3]), "manifest.json: a label name is not a string"),
        (lambda m: m.update(next_id=-1), "manifest.json: next_id is -1"),
        (lambda m: m.pop("next_id"), "manifest.json: next_id is None, not int"),
        (lambda m: m.update(version=6), "has format 6, but this docsplit_hf reads 4 and 5: upgrade docsplit_hf"),
        (lambda m: m.update(version=3), "has format 3, but this docsplit_hf reads 4 and 5: build the datastore again"),
        (lambda m: m.update(version="4"), "manifest.json: version is '4', not int"),
        (lambda m: m.update(format="another"), "manifest.json is not the manifest of a datastore"),
        (lambda m: m["index"].update(factory="HNSW0"), "manifest.json: Unknown index 'HNSW0'"),
        (lambda m: m["index"].update(nprobe=-1), "manifest.json: nprobe must be"),
        (lambda m: m["index"].pop("rerank"), "manifest.json: index is"),
        (lambda m: m["files"].pop("rows"), r"manifest.json: files are \['keys'\]"),
        (lambda m: m["files"].update(index={}), "manifest.json: files are .*'index'"),
        (lambda m: m["files"].update(keys=[]), "manifest.json: the entry of keys is"),
        (lambda m: m["files"]["keys"].update(bytes="1"), "manifest.json: the entry of keys is"),
        (lambda m: m["files"]["keys"].update(name="../../secret"), "named '../../secret', not by its role"),
        (lambda m: m["files"]["keys"].update(name="../" + m["files"]["keys"]["name"]), "named '../keys-.* not by"),
        (lambda m: m["files"]["keys"].update(name=m["files"]["keys"]["name"] + "\n"), "not by its role"),
        (lambda m: m["files"]["keys"].update(m["files"]["rows"]), "the file of keys is named 'rows-"),
        (lambda m: m["files"]["keys"].update(sha256="0" * 64), "not by its role and checksum"),
    ],
)
def test_an_inconsistent_manifest_with_a_valid_checksum_is_refused(change, message, tmp_path):
    write_datastore(tmp_path, make_snapshot())
    sign(tmp_path, change)
    with pytest.raises(DatastoreError, match=message):
        read_datastore(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m["documents"].update(rows=8), r"document_keys-.*\(8, 4\).*found 'keys' of float32 \(7, 4\)"),
        (lambda m: m["documents"].update(rows=-1), "manifest.json: documents is {'rows': -1"),
        (lambda m: m["documents"].update(next_id=True), "manifest.json: documents is"),
        (lambda m: m["documents"].update(more=1), "manifest.json: documents is"),
        (lambda m: m["documents"].pop("next_id"), "manifest.json: documents is"),
        (lambda m: m.update(documents=7), "manifest.json: documents is 7"),
        (
            lambda m: m.update(documents=None, document_passages=None),
            "manifest.json: files are .*'document_keys'.*, not",
        ),
        (lambda m: m.pop("documents"), "manifest.json: documents is"),
        (lambda m: m.update(fitted=[]), r"manifest.json: fitted is \[\]"),
        (lambda m: m.update(fitted=None), "manifest.json: files are .*'vocabulary'.*, not"),
        (lambda m: m.pop("fitted"), "manifest.json: fitted is"),
        (lambda m: m["fitted"].update(weight=float("nan")), "manifest.json is damaged.*it contains NaN"),
        (lambda m: m["files"].pop("vocabulary"), "manifest.json: files are"),
        (lambda m: m["files"].update(document_keys=m["files"]["keys"]), "the file of document_keys is named 'keys-"),
        (lambda m: m["files"]["vocabulary"].update(name="../" + m["files"]["vocabulary"]["name"]), "not by its role"),
        (lambda m: m["files"]["fitted"].update(bytes=0), "fitted-.* is damaged: it has .* bytes instead of 0"),
        (lambda m: m.update(passages=None), "manifest.json: files are .*'passage_keys'.*, not"),
        (lambda m: m.update(document_passages=None), "manifest.json: files are .*'document_passage_keys'.*, not"),
        (lambda m: m.update(passages=6), "manifest.json: passages is 6, of 6 rows"),
        (lambda m: m.update(document_passages=True), "manifest.json: document_passages is True, of 7 rows"),
        (lambda m: m.update(documents=None), "manifest.json: document_passages is [0-9]+, of None rows"),
        (lambda m: m.pop("passages"), "manifest.json: passages is Ellipsis"),
        (lambda m: m.update(passages=99), r"/passage_keys-.* holds .*'keys': \('float32', \(99, 4\)"),
        (lambda m: m.update(document_passages=99), r"document_passage_keys-.* holds .*\(99, 4\)"),
    ],
)
def test_inconsistent_documents_or_fitted_state_are_refused(change, message, tmp_path):
    write_datastore(tmp_path, make_snapshot(whole=True))
    sign(tmp_path, change)
    with pytest.raises(DatastoreError, match=message):
        read_datastore(tmp_path)


NESTED = b'{"format": "docsplit_hf datastore", "fitted": ' + b"[" * 800 + b"]" * 800 + b"}"


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"null", b"[" * 100_000, b"\xff", b'{"format": NaN}', b"9" * 5000, NESTED]
)
def test_other_contents_than_a_manifest_are_refused(content, tmp_path):
    (tmp_path / "manifest.json").write_bytes(content)
    with pytest.raises(DatastoreError, match="manifest.json is"):
        read_datastore(tmp_path)


def test_a_manifest_in_another_form_is_refused(tmp_path):
    write_datastore(tmp_path, make_snapshot())
    path = tmp_path / "manifest.json"
    manifest = json.loads(path.read_bytes())
    for content in (json.dumps(manifest), path.read_text() + "\n", path.read_text().replace("{", '{"rows": 1,', 1)):
        path.write_text(content)
        with pytest.raises(DatastoreError, match="does not match its checksum"):
            read_manifest(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t["keys"].__setitem__((4, 1), np.nan), "keys: row 4 holds NaN"),
        (lambda t: t["probe"].__setitem__((0, 0), np.inf), "probe: row 0 holds NaN"),
        (lambda t: t.update(keys=t["keys"][:5]), r"found 'keys' of float32 \(5, 4\)"),
        (lambda t: t.update(keys=t["keys"].ravel()), r"found 'keys' of float32 \(24,\)"),
        (lambda t: t.update(keys=t["keys"].astype(np.float64)), "found 'keys' of float64"),
        (lambda t: t.update(probe=t["probe"][:, :2].copy()), r"the probe is float32 \(3, 2\)"),
        (lambda t: t.update(probe=t["probe"].astype(np.int64)), "the probe is int64"),
        (lambda t: t.update(more=t["probe"]), r"found 'keys' of .* and \['more'\]"),
        (lambda t: t.pop("keys"), "found no 'keys'"),
    ],
)
def test_inconsistent_keys_are_refused(change, message, tmp_path):
    write_datastore(tmp_path, make_snapshot())
    tensors = {name: tensor.copy() for name, tensor in load_file(next(tmp_path.glob("keys*"))).items()}
    change(tensors)
    exchange(tmp_path, "keys", lambda path: save_file(tensors, path))
    with pytest.raises(DatastoreError, match=f"keys-.*safetensors.*{message}"):
        read_datastore(tmp_path)


def bfloat16_file(path):
    """NumPy reads it only where ml_dtypes is installed."""
    header = b'{"keys":{"dtype":"BF16","shape":[6,4],"data_offsets":[0,48]}}'
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(48))


def huge_file(path):
    header = b'{"keys":{"dtype":"F32","shape":[9223372036854775807,0],"data_offsets":[0,0]}}'
    path.write_bytes(len(header).to_bytes(8, "little") + header)


@pytest.mark.parametrize("role", FILE_NAMES)
@pytest.mark.parametrize("write", [lambda path: path.write_bytes(b"nonsense"), bfloat16_file, huge_file])
def test_a_file_of_another_format_is_refused(role, write, tmp_path):
    write_datastore(tmp_path, make_snapshot(whole=True))
    exchange(tmp_path, role, write)
    with pytest.raises(
        DatastoreError, match=f"{role}-.* (is no|holds (keys|.'keys':)|found 'keys' of bfloat16|is bfloat16)"
    ):
        read_datastore(tmp_path)


def not_utf8(rows):
    return pa.Array.from_buffers(pa.string(), rows, pa.array([b"\xff"] * rows).buffers())


ROWS = {"id": list("abcdef"), "label": [0, 1, 2, 0, 1, 2], "text": list("uvwxyz")}
TABLE = pa.table(ROWS)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (ROWS | {"label": [0, 1, 2, 0, 3, 2]}, "label 3, but there are 3 label names"),
        (ROWS | {"label": [0, 1, 2, 0, -1, 2]}, "label -1, but there are 3 label names"),
        (ROWS | {"label": [0, 1, 2, 0, None, 2]}, "a row has no label"),
        (ROWS | {"label": list("uvwxyz")}, "has other columns"),
        (ROWS | {"id": list("abcdea")}, "the id 'a' occurs twice"),
        (ROWS | {"id": [*"abcde", None]}, "a row has no id"),
        (ROWS | {"id": list(range(6))}, "has other columns"),
        (ROWS | {"id": not_utf8(6)}, "Invalid UTF8"),
        (ROWS | {"more": list("uvwxyz")}, "has other columns"),
        (TABLE.append_column("id", TABLE["text"]), "has other columns"),
        (TABLE.select(["id", "label"]), "has other columns"),
        (TABLE[:5], "has 5 rows instead of the 6 in manifest.json"),
        (ROWS | {"label": [[0], [3], [], [], [], []]}, "label 3, but there are 3 label names"),
        (ROWS | {"label": [[0], None, [], [], [], []]}, "a row has no label"),
    ],
)
def test_inconsistent_rows_are_refused(columns, message, tmp_path):
    table = pa.table(columns) if isinstance(columns, dict) else columns
    write_datastore(tmp_path, make_snapshot(multi_label=pa.types.is_list(table["label"].type)))
    exchange(tmp_path, "rows", lambda path: pq.write_table(table, path))
    with pytest.raises(DatastoreError, match=f"rows-.*parquet.*{message}"):
        read_datastore(tmp_path)


DOCUMENTS = {"id": [f"d{i}" for i in range(7)], "text": list("tuvwxyz")}


@pytest.mark.parametrize(
    ("role", "columns", "message"),
    [
        ("document_rows", DOCUMENTS | {"label": [0] * 7}, "has other columns"),
        ("document_rows", DOCUMENTS | {"id": list("abcdefa")}, "the id 'a' occurs twice"),
        ("document_rows", DOCUMENTS | {"id": [*"abcdef", None]}, "a row has no id"),
        ("document_rows", DOCUMENTS | {"id": [*"abcdef", "0-3"]}, "the id '0-3' is that of an example too"),
        ("document_rows", {"id": ["d0"], "text": [None]}, "has 1 rows instead of the 7 in manifest.json"),
        ("document_rows", DOCUMENTS | {"text": not_utf8(7)}, "Invalid UTF8"),
        ("vocabulary", {"term": not_utf8(2)}, "Invalid UTF8"),
        ("vocabulary", {"term": ["a", None]}, "a term is missing"),
        ("vocabulary", {"term": [1, 2]}, "has other columns"),
        ("vocabulary", {"word": ["a"]}, "has other columns"),
        ("vocabulary", {"term": ["long" * 2**20] * 20}, "unpacks to 8[0-9],.* bytes"),
    ],
)
def test_inconsistent_documents_and_terms_are_refused(role, columns, message, tmp_path):
    write_datastore(tmp_path, make_snapshot(whole=True))
    exchange(tmp_path, role, lambda path: pq.write_table(pa.table(columns), path, compression="zstd"))
    with pytest.raises(DatastoreError, match=f"{role}-.*parquet.*{message}"):
        read_datastore(tmp_path)


KEYS = np.zeros((7, 4), dtype=np.float32)


@pytest.mark.parametrize(
    ("role", "tensors", "message"),
    [
        ("document_keys", {"keys": KEYS + np.nan}, "keys: row 0 holds NaN"),
        ("document_keys", {"keys": KEYS[:, :3].copy()}, r"found 'keys' of float32 \(7, 3\)"),
        ("document_keys", {"keys": KEYS.astype(np.float16)}, "found 'keys' of float16"),
        ("document_keys", {"keys": KEYS, "probe": KEYS}, "holds a probe, which belongs to the examples"),
        ("fitted", {"a": KEYS + np.inf}, "The array 'a' of a fitted state holds NaN or infinity"),
        ("fitted", {"a": KEYS.astype(np.float16)}, "The array 'a' of a fitted state is float16, not one of"),
        ("fitted", {"a": KEYS.astype(np.uint8)}, "The array 'a' of a fitted state is uint8, not one of"),
    ],
)
def test_inconsistent_tensors_of_documents_and_fitted_state_are_refused(role, tensors, message, tmp_path):
    write_datastore(tmp_path, make_snapshot(whole=True))
    exchange(tmp_path, role, lambda path: save_file(tensors, path))
    with pytest.raises(DatastoreError, match=f"{role}-.*safetensors.*{message}"):
        read_datastore(tmp_path)


@pytest.mark.parametrize("role", ["passage_keys", "document_passage_keys"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t["keys"].__setitem__((4, 1), np.inf), "keys: row 4 holds NaN"),
        (lambda t: t.update(keys=t["keys"][:-1].copy()), "holds .* needs "),
        (lambda t: t.update(keys=t["keys"].astype(np.float16)), "holds .*float16.* needs "),
        (lambda t: t.update(spans=t["spans"].astype(np.int32)), "holds .*int32.* needs "),
        (lambda t: t.update(spans=t["spans"][:, :1].copy()), "holds .* needs "),
        (lambda t: t["spans"].__setitem__(2, (7, 6)), "Passage 2 has the span 7 to 6"),
        (lambda t: t["spans"].__setitem__(0, (-1, 6)), "Passage 0 has the span -1 to 6"),
        (lambda t: t.update(counts=t["counts"][1:].copy()), "holds .* needs "),
        (lambda t: t["counts"].__setitem__(1, 0), "counts of passages must be at least 1 each"),
        (lambda t: t["counts"].__setitem__(1, 9), "counts of passages must be at least 1 each, and sum to"),
        (lambda t: t["counts"].__setitem__(slice(2), 2**62), "counts of passages must be at least 1 each"),
        (lambda t: t.pop("counts"), "holds .* needs "),
        (lambda t: t.update(more=t["keys"]), "holds .*'more'.* needs "),
    ],
)
def test_inconsistent_passages_are_refused(role, change, message, tmp_path):
    write_datastore(tmp_path, make_snapshot(whole=True))
    tensors = {name: tensor.copy() for name, tensor in load_file(next(tmp_path.glob(f"{role}*"))).items()}
    change(tensors)
    exchange(tmp_path, role, lambda path: save_file(tensors, path))
    with pytest.raises(DatastoreError, match=f"/{role}-.*safetensors.*{message}"):
        read_datastore(tmp_path)


def test_reading_during_saves_gives_one_whole_datastore(tmp_path):
    write_datastore(tmp_path, make_snapshot(0))
    expected = [contents(make_snapshot(seed, whole=seed == 1)) for seed in range(2)]
    end = time.monotonic() + 0.5

    def save(seed):
        while time.monotonic() < end:
            write_datastore(tmp_path, make_snapshot(seed, whole=seed == 1))

    with ThreadPoolExecutor(2) as pool:
        writers = [pool.submit(save, seed) for seed in range(2)]
        while time.monotonic() < end:
            assert contents(read_datastore(tmp_path)[0]) in expected
    for writer in writers:
        writer.result()
    write_datastore(tmp_path, read_datastore(tmp_path)[0])
    assert len(list(tmp_path.iterdir())) == 1 + len(read_manifest(tmp_path)["files"])


def save_until_killed(folder, connection):
    """For each message that comes, fork a process that saves without an end, and kill it after a moment."""
    snapshots = [make_snapshot(seed, rows=500, whole=True) for seed in range(2)]
    rng = np.random.default_rng(0)
    while connection.recv():
        child = os.fork()
        if child == 0:
            for number in range(1000):
                write_datastore(folder, snapshots[number % 2])
            os._exit(1)
        time.sleep(0.02 + 0.08 * rng.random())
        os.kill(child, signal.SIGKILL)
        connection.send(os.waitpid(child, 0)[1] == signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_a_killed_save_leaves_the_old_or_the_new_datastore(server, tmp_path):
    # The processes that are killed are forked from one that has imported all it needs, and reads nothing itself.
    expected = [contents(make_snapshot(seed, rows=500, whole=True)) for seed in range(2)]
    write_datastore(tmp_path, make_snapshot(0, rows=500, whole=True))
    ours, theirs = multiprocessing.Pipe()
    saver = multiprocessing.get_context("forkserver").Process(target=save_until_killed, args=(tmp_path, theirs))
    saver.start()
    kills = 0
    was_interrupted = False
    while kills < 10 or (kills < 200 and not was_interrupted):  # until one was killed in the middle
        ours.send(True)
        assert ours.poll(100) and ours.recv()
        kills += 1
        was_interrupted |= (tmp_path / ".saving").exists()
        assert contents(read_datastore(tmp_path)[0]) in expected
        assert len(list(tmp_path.iterdir())) <= 1 + 8 + 8 + 1
    ours.send(False)
    saver.join()
    assert was_interrupted
    for _ in range(2):
        write_datastore(tmp_path, make_snapshot(1, rows=500, whole=True))
    assert contents(read_datastore(tmp_path)[0]) == expected[1]
    assert len(list(tmp_path.iterdir())) == 9


@pytest.fixture(scope="module")
def repetitive():
    """A snapshot of one text many times: 78 MB, of 5 kB packed."""
    rows = make_rows(120, [str(i) for i in range(120)], ["A long text. " * 50_000] * 120)
    return replace(make_snapshot(rows=120, labels=np.zeros(120, dtype=np.int64)), rows=rows)


def test_repeated_texts_are_saved_and_read(tmp_path, repetitive):
    write_datastore(tmp_path, repetitive)
    assert read_datastore(tmp_path)[0].rows.equals(repetitive.rows)


@pytest.mark.parametrize("options", [{}, {"use_dictionary": False}])
def test_rows_that_unpack_to_much_more_than_their_file_are_refused(options, tmp_path, repetitive):
    write_datastore(tmp_path, make_snapshot(rows=120, labels=repetitive.labels))
    table = repetitive.rows.add_column(1, "label", pa.array(repetitive.labels)).drop_columns("text_pair")
    exchange(tmp_path, "rows", lambda path: pq.write_table(table, path, compression="zstd", **options))
    before = pa.total_allocated_bytes()
    with pytest.raises(DatastoreError, match="unpacks to 7[0-9],.* bytes, but at most"):
        read_datastore(tmp_path)
    deadline = time.monotonic() + 10  # Arrow's threads give back what they read with when they come to it
    while pa.total_allocated_bytes() - before >= 2**20 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert pa.total_allocated_bytes() - before < 2**20
