"""Shards on the disk: whole or not there, and the same bytes each time."""

import hashlib
import json

import numpy as np
import pyarrow.parquet
import pytest
from safetensors.numpy import load_file

from docsplit_hf.storage.shards import (
    ShardsError,
    ShardWriter,
    begin_corpus,
    is_finished,
    read_shards,
)

SHARED = {
    "tasks": 3, "dimension": 2, "dtype": "float16", "encoder": {"name": "a", "fingerprint": "1"}, "source": None,
    "probe": [[0.1, 0.2]], "label_names": None,
}  # fmt: skip
KEYS = np.array([[1, 0], [0.6, 0.8], [0, 1]], np.float32)


def write(folder, task=1):
    with ShardWriter(folder, task, 2, "float16") as shard:
        shard.add(["a", "b"], ["Eins.", None], ["x", None], KEYS[:2])
        shard.add(["c"], ["Drei, 三."], ["y"], KEYS[2:])


def test_a_shard_matches_its_manifest_and_is_reproducible(tmp_path):
    for name in ("one", "two"):
        begin_corpus(tmp_path / name, SHARED)
        left = tmp_path / name / ".00001-left"
        left.mkdir()
        (left / "rows").write_text("7")
        write(tmp_path / name)
    contents = [{file.name: file.read_bytes() for file in (tmp_path / name).iterdir()} for name in ("one", "two")]
    assert contents[0] == contents[1]
    assert sorted(contents[0]) == ["00001.json", "00001.parquet", "00001.safetensors", "corpus.json"]
    folder = tmp_path / "one"
    assert is_finished(folder, 1) and not is_finished(folder, 0)
    manifest = json.loads(contents[0]["00001.json"])
    assert (manifest["rows"], manifest["passages"]) == (3, 3)
    assert manifest["sha256"] == {
        name: hashlib.sha256(contents[0][name]).hexdigest() for name in ("00001.parquet", "00001.safetensors")
    }
    table = pyarrow.parquet.read_table(folder / "00001.parquet")
    assert table.to_pydict() == {
        "id": ["a", "b", "c"], "text": ["Eins.", None, "Drei, 三."], "label": ["x", None, "y"], "passages": [1, 1, 1],
    }  # fmt: skip
    keys = load_file(folder / "00001.safetensors")["keys"]
    assert keys.dtype == np.float16 and np.array_equal(keys, KEYS.astype(np.float16))


def test_an_error_leaves_no_shard_and_an_empty_task_an_empty_one(tmp_path):
    with pytest.raises(ZeroDivisionError), ShardWriter(tmp_path, 0, 2, "float32") as shard:
        shard.add(["a"], ["Eins."], [None], KEYS[:1])
        _ = 1 / 0
    assert list(tmp_path.iterdir()) == []
    with ShardWriter(tmp_path, 0, 2, "float32"):
        pass
    assert load_file(tmp_path / "00000.safetensors")["keys"].shape == (0, 2)


@pytest.mark.parametrize("change, message", [
    ({"encoder": {"name": "a", "fingerprint": "2"}}, "encoder fingerprint is '1' there and '2' now"),
    ({"tasks": 4}, "tasks is 3 there and 4 now"),
    ({"source": {"files": 2}}, "source is None there"),
])  # fmt: skip
def test_a_folder_with_other_settings_is_refused(tmp_path, change, message):
    begin_corpus(tmp_path, SHARED)
    begin_corpus(tmp_path, SHARED | {"probe": [[0.1, 0.2000001]]})
    with pytest.raises(ValueError, match=f"was begun with other settings: {message}.*or a new folder"):
        begin_corpus(tmp_path, SHARED | change)
    assert json.loads((tmp_path / "corpus.json").read_text())["probe"] == SHARED["probe"]


@pytest.mark.parametrize("change, message", [
    ({"rows": 4}, "there are 3 passages of 4 rows"),
    ({"rows": -1}, "there are 3 passages of -1 rows"),
    ({"passages": "3"}, "passages is '3', not int"),
    ({"sha256": {"a": "b"}}, r"files are \['a'\]"),
])  # fmt: skip
def test_a_manifest_that_contradicts_itself_is_refused(tmp_path, change, message):
    begin_corpus(tmp_path, SHARED | {"tasks": 1})
    write(tmp_path, task=0)
    assert [(shard.rows, shard.passages) for shard in read_shards(tmp_path).shards] == [(3, 3)]
    path = tmp_path / "00000.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ShardsError, match=f"00000.json: {message}"):
        read_shards(tmp_path)
