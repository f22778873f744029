import json
import logging
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from docsplit_hf.neighbors.store.datastore import KNNDatastore
from docsplit_hf.neighbors.store.datastore_files import DatastoreError
from docsplit_hf.neighbors.store.index_cache import index_folder

NAMES = ["fruit", "mineral", "vegetable"]


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HOME", str(tmp_path / "home"))


def make_datastore(rows=50, seed=0, **options):
    rng = np.random.default_rng(seed)
    labels = [rng.permutation(3)[: i % 4].tolist() for i in range(rows)] if options.get("multi_label") else None
    return KNNDatastore(
        rng.standard_normal((rows, 8)),
        rng.integers(0, 3, rows) if labels is None else labels,
        NAMES,
        texts=[f"Text {i}" if i % 3 else None for i in range(rows)],
        **options,
    )


def answers(datastore, k=5):
    neighbors = datastore.search(np.random.default_rng(9).standard_normal((4, datastore.dimension)), k)
    return {
        "distances": neighbors.distances.tolist(),
        "labels": neighbors.labels.tolist(),
        "ids": neighbors.ids,
        "texts": neighbors.texts,
        "label_names": list(neighbors.label_names),
    }


FRESH = """
import json, sys
from docsplit_hf.neighbors.store.datastore import KNNDatastore
heavy = sorted({"faiss", "pyarrow", "datasets"} & set(sys.modules))
sys.path.insert(0, sys.argv[1])
from test_sharing import answers
datastores = [KNNDatastore.from_pretrained(folder) for folder in sys.argv[2:]]
print(json.dumps([heavy, [answers(datastore) for datastore in datastores]]))
"""


def test_saved_is_loaded_in_a_fresh_interpreter_with_nothing_but_the_folder(tmp_path):
    pairs = [f"Pair {i}" for i in range(50)]
    datastores = [make_datastore(), make_datastore(dtype="float16", multi_label=True, text_pairs=pairs)]
    for number, datastore in enumerate(datastores):
        datastore.remove(["7"])
        datastore.save_pretrained(tmp_path / "saved" / str(number))
    shutil.move(tmp_path / "saved", tmp_path / "moved")
    finished = subprocess.run(
        [sys.executable, "-c", FRESH, Path(__file__).parent, *sorted((tmp_path / "moved").iterdir())],
        capture_output=True,
        text=True,
    )
    assert finished.returncode == 0, finished.stderr
    assert json.loads(finished.stdout) == [[], [answers(datastore) for datastore in datastores]]


def test_ids_that_were_removed_are_not_given_again_after_loading(tmp_path):
    datastore = make_datastore()
    datastore.remove(["49"])
    datastore.save_pretrained(tmp_path)
    assert KNNDatastore.from_pretrained(tmp_path).add([[0.0] * 8], [0]) == ["50"]


def test_everything_is_as_it_was(tmp_path):
    probe = np.arange(16).reshape(2, 8)
    datastore = make_datastore(index="IVF2,Flat", nprobe=1, rerank=3, probe=probe, text_pairs=["pair"] * 50)
    datastore.save_pretrained(tmp_path)
    again = KNNDatastore.from_pretrained(tmp_path)
    for name in ("ids", "texts", "text_pairs", "label_names", "multi_label", "dtype", "dimension", "index"):
        assert getattr(again, name) == getattr(datastore, name)
    assert np.array_equal(again.keys, datastore.keys) and np.array_equal(again.labels, datastore.labels)
    again.check_encoder(probe)
    assert again._state.options == datastore._state.options
    again.add([[1] * 8], ["metal"])
    again.save_pretrained(tmp_path)
    assert KNNDatastore.from_pretrained(str(tmp_path)).label_names == (*NAMES, "metal")


def test_an_empty_datastore_is_saved_too(tmp_path):
    KNNDatastore.empty(8, multi_label=True).save_pretrained(tmp_path)
    again = KNNDatastore.from_pretrained(tmp_path)
    assert (len(again), again.dimension, again.multi_label, again.label_names) == (0, 8, True, ())
    assert again.add([[1] * 8], [["a", "b"]]) == ["0"]


def test_a_folder_without_a_datastore_says_so(tmp_path):
    with pytest.raises(FileNotFoundError, match="no datastore in .*: save one with"):
        KNNDatastore.from_pretrained(tmp_path)
    with pytest.raises(FileNotFoundError, match="There is no file or folder"):
        KNNDatastore.from_pretrained("./no/such/folder")


def test_a_damaged_datastore_is_refused(tmp_path):
    make_datastore().save_pretrained(tmp_path)
    path = next((tmp_path / "datastore").glob("rows*"))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DatastoreError, match=path.name):
        KNNDatastore.from_pretrained(tmp_path)


class Repository:
    """A folder in place of a repository on the Hub, with what ``HfApi`` does to it."""

    def __init__(self, folder, monkeypatch):
        self.folder, self.calls = folder, []
        monkeypatch.setattr("huggingface_hub.HfApi.create_repo", self.create)
        monkeypatch.setattr("huggingface_hub.HfApi.upload_folder", self.upload)
        monkeypatch.setattr("huggingface_hub.snapshot_download", self.download)

    def create(self, repo_id, **options):
        self.calls.append(("create", repo_id, options))
        self.folder.mkdir(exist_ok=True)
        return SimpleNamespace(repo_id=f"me/{repo_id}")

    def upload(self, repo_id, folder_path, delete_patterns, **options):
        self.calls.append(("upload", repo_id, options))
        assert delete_patterns == "datastore/*"
        assert [path.name for path in Path(folder_path).iterdir()] == ["datastore"]
        shutil.rmtree(self.folder / "datastore", ignore_errors=True)
        shutil.copytree(folder_path, self.folder, dirs_exist_ok=True)
        return "the commit"

    def download(self, repo_id, **options):
        self.calls.append(("download", repo_id, options))
        return str(self.folder)


def test_what_is_pushed_is_loaded(tmp_path, monkeypatch):
    repository = Repository(tmp_path / "repository", monkeypatch)
    make_datastore(rows=20).push_to_hub("things")
    (repository.folder / "config.json").write_text("the model's")
    datastore = make_datastore(seed=1)
    assert datastore.push_to_hub("things", private=True, revision="main") == "the commit"
    assert sorted(path.name for path in repository.folder.iterdir()) == ["config.json", "datastore"]
    assert len(list((repository.folder / "datastore").iterdir())) == 3
    assert answers(KNNDatastore.from_pretrained("me/things", revision="abc", token="secret")) == answers(datastore)
    assert repository.calls[2:] == [
        ("create", "things", {"private": True, "exist_ok": True}),
        ("upload", "me/things", {"commit_message": "Upload a datastore", "revision": "main"}),
        ("download", "me/things", {"revision": "abc", "token": "secret", "allow_patterns": "datastore/*"}),
    ]


def test_a_repository_without_a_datastore_says_so(tmp_path, monkeypatch):
    Repository(tmp_path, monkeypatch)
    with pytest.raises(FileNotFoundError, match="no datastore in"):
        KNNDatastore.from_pretrained("me/a-model-alone")


@pytest.fixture
def built(monkeypatch):
    """The factories of the indexes that were built."""
    from docsplit_hf.neighbors.store.index import build_index

    factories = []

    def build(keys, factory):
        factories.append(factory)
        return build_index(keys, factory)

    monkeypatch.setattr("docsplit_hf.neighbors.store.snapshot.build_index", build)
    return factories


def test_an_index_is_built_once_and_then_taken_from_the_cache(tmp_path, built):
    datastore = make_datastore(rows=1500, index="IVF16,PQ4x4", nprobe=3, rerank=2)
    datastore.save_pretrained(tmp_path)
    assert not list(tmp_path.glob("datastore/*index*")) and len(list(index_folder().iterdir())) == 1
    again = KNNDatastore.from_pretrained(tmp_path)
    assert built == ["IVF16,PQ4x4"]
    assert answers(again) == answers(datastore)
    assert again._state.index.nprobe == 3
    shutil.rmtree(index_folder())
    assert answers(KNNDatastore.from_pretrained(tmp_path)) == answers(datastore)
    KNNDatastore.from_pretrained(tmp_path)
    assert built == ["IVF16,PQ4x4"] * 2


def test_an_index_that_lacks_rows_is_not_cached(tmp_path, built):
    datastore = make_datastore(rows=1500, index="IVF16,Flat")
    datastore.add(np.ones((3, 8)), [0, 0, 0])
    datastore.save_pretrained(tmp_path)
    assert not index_folder().exists()
    again = KNNDatastore.from_pretrained(tmp_path)
    assert (again._state.indexed, again._state.outside_index) == (1503, 0)
    assert len(list(index_folder().iterdir())) == 1


def test_a_damaged_cache_is_noticed_and_the_index_built_again(tmp_path, built, caplog):
    datastore = make_datastore(rows=1500, index="IVF16,Flat")
    datastore.save_pretrained(tmp_path)
    (path,) = index_folder().iterdir()
    content = bytearray(path.read_bytes())
    content[1000] ^= 4
    path.write_bytes(content)
    with caplog.at_level(logging.WARNING):
        assert answers(KNNDatastore.from_pretrained(tmp_path)) == answers(datastore)
    assert "is damaged: it is deleted and built again" in caplog.text
    assert len(built) == 2
    KNNDatastore.from_pretrained(tmp_path)
    assert len(built) == 2


def test_other_keys_do_not_find_the_index(tmp_path, built):
    make_datastore(rows=1500, index="IVF16,Flat").save_pretrained(tmp_path)
    make_datastore(rows=1500, seed=1).save_pretrained(tmp_path / "exact")
    make_datastore(rows=1500, seed=1, index="IVF16,Flat").save_pretrained(tmp_path)
    again = KNNDatastore.from_pretrained(tmp_path)
    exact = KNNDatastore.from_pretrained(tmp_path / "exact")
    again.reindex("IVF16,Flat", nprobe=16)
    assert answers(again) == answers(exact)
    assert len(built) == 2
