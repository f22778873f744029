"""Shards on the disk: whole or not there, and the same bytes each time."""

import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import load_dataset

from docsplit_hf.storage.shards import check_settings, read_shards, shard_file, shard_table, writing_shard

SETTINGS = {
    "tasks": 3, "dimension": 2, "dtype": "float16", "encoder": {"name": "a", "fingerprint": "1"}, "source": None,
    "probe": [[0.1, 0.2]],
}  # fmt: skip
KEYS = np.array([[1, 0], [0.6, 0.8], [0, 1]], np.float16)
ROWS = {"id": ["a", "b", "c"], "text": ["Eins.", None, "Drei, 三."], "label": ["x", None, "y"]}


def write(folder, task=1, **changes):
    with writing_shard(folder, task, SETTINGS | changes) as shard:
        for rows in (slice(0, 2), slice(2, 3)):
            shard.write_table(shard_table(*(ROWS[name][rows] for name in ROWS), KEYS[rows]))


def test_a_shard_is_reproducible_and_read_by_datasets(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / ".00001-left").write_text("7")
        write(tmp_path / name)
    contents = [{file.name: file.read_bytes() for file in (tmp_path / name).iterdir()} for name in ("one", "two")]
    assert contents[0] == contents[1] and list(contents[0]) == ["00001.parquet"]
    table = pq.read_table(tmp_path / "one" / "00001.parquet")
    assert table.schema.field("embedding").type == pa.list_(pa.float16())
    rows = load_dataset("parquet", data_dir=str(tmp_path / "one"), split="train", cache_dir=str(tmp_path / "cache"))
    for found in (table.to_pydict(), rows.to_dict()):
        np.testing.assert_array_equal(found.pop("embedding"), KEYS)
        assert found == ROWS


def test_a_shard_is_on_the_disk_before_it_gets_its_name(tmp_path, monkeypatch):
    replace = os.replace
    flushed = []

    def note_replace(source, target):
        assert source.stat().st_ino in flushed, "after a power cut, its name may be that of an incomplete file"
        replace(source, target)

    monkeypatch.setattr(os, "fsync", lambda descriptor: flushed.append(os.fstat(descriptor).st_ino))
    monkeypatch.setattr(os, "replace", note_replace)
    write(tmp_path)
    assert shard_file(tmp_path, 1).is_file() and len(flushed) == 1


def test_an_error_leaves_no_shard_and_an_empty_task_an_empty_one(tmp_path):
    with pytest.raises(ZeroDivisionError), writing_shard(tmp_path, 0, SETTINGS) as shard:
        shard.write_table(shard_table(["a"], ["Eins."], [None], KEYS[:1]))
        _ = 1 / 0
    assert list(tmp_path.iterdir()) == []
    with writing_shard(tmp_path, 0, SETTINGS | {"tasks": 1}):
        pass
    assert read_shards(tmp_path).files == {shard_file(tmp_path, 0): 0}


@pytest.mark.parametrize("change, message", [
    ({"encoder": {"name": "a", "fingerprint": "2"}}, "encoder fingerprint is '1' there and '2' now"),
    ({"tasks": 4}, "tasks is 3 there and 4 now"),
    ({"source": {"files": 2}}, "source is None there"),
])  # fmt: skip
def test_a_folder_with_other_settings_is_refused(tmp_path, change, message):
    check_settings(tmp_path, SETTINGS | change)  # nothing is there
    write(tmp_path)
    check_settings(tmp_path, SETTINGS | {"probe": [[0.1, 0.2000001]]})
    with pytest.raises(ValueError, match=f"was begun with other settings: {message}.*or a new folder"):
        check_settings(tmp_path, SETTINGS | change)


def test_the_shards_of_a_folder_are_of_one_corpus(tmp_path):
    for task in range(3):
        write(tmp_path, task)
    found = read_shards(tmp_path)
    assert list(found.files.values()) == [3, 3, 3] and (found.dimension, found.dtype) == (2, "float16")
    np.testing.assert_array_equal(found.probe, np.float32([[0.1, 0.2]]))
    write(tmp_path, 2, source={"files": 2})
    with pytest.raises(ValueError, match="00002.parquet is not of the same corpus as 00000.parquet: source is None"):
        read_shards(tmp_path)
