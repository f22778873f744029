"""A saved datastore gives the same answers elsewhere, and its index is built once."""

import json
import shutil

import numpy as np
import pytest

from docsplit_hf import KNNDatastore
from docsplit_hf.arrays.index import build_index
from docsplit_hf.content_hash import cache_folder

from .datastores import NAMES, answers, everything, fill, make_datastore, with_passages


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HOME", str(tmp_path / "home"))


SCRIPT = """
import json, sys
from docsplit_hf.classifier.knn_datastore import KNNDatastore
from tests.classifier.datastore.datastores import answers, everything
datastores = [KNNDatastore.from_pretrained(folder) for folder in sys.argv[1:]]
print(json.dumps([[answers(datastore), everything(datastore)] for datastore in datastores]))
"""


@pytest.mark.slow
def test_a_moved_folder_is_loaded_in_another_interpreter(tmp_path, run_script):
    pairs = [f"Pair {i}" for i in range(50)]
    datastores = [make_datastore(), make_datastore(dtype="float16", multi_label=True, text_pairs=pairs)]
    datastores += [fill(make_datastore()), fill(make_datastore(dtype="float16", multi_label=True))]
    datastores += [fill(with_passages(), passages=True), with_passages(dtype="float16", multi_label=True)]
    for number, datastore in enumerate(datastores):
        datastore.remove(["7"])
        datastore.save_pretrained(tmp_path / "saved" / str(number))
    shutil.move(tmp_path / "saved", tmp_path / "moved")
    (tmp_path / "script.py").write_text(SCRIPT)
    printed = run_script(tmp_path / "script.py", *sorted((tmp_path / "moved").iterdir()))
    assert json.loads(printed) == [[answers(each), everything(each)] for each in datastores]


def test_a_loaded_datastore_continues_its_ids(tmp_path):
    datastore = make_datastore(index="IVF2,Flat")
    datastore.remove(["49"])
    datastore.save_pretrained(tmp_path)
    again = KNNDatastore.from_pretrained(tmp_path)
    assert again.add([[1] * 8], ["metal"]) == ["50"]  # an id that was removed is not given again
    fill(again)
    again.save_pretrained(tmp_path)
    again = KNNDatastore.from_pretrained(tmp_path)
    again.remove_documents(["d19"])
    assert again.add_documents([[1] * 8]) == ["d20"]
    again.remove_documents(again.documents.ids)
    again.save_pretrained(tmp_path)
    again = KNNDatastore.from_pretrained(tmp_path)
    assert again.documents is None and again.add_documents([[1] * 8]) == ["d21"]
    assert KNNDatastore.from_pretrained(str(tmp_path)).label_names == (*NAMES, "metal")


def test_a_folder_without_a_datastore_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="no datastore in .*: save one with KNNDatastore.save_pretrained"):
        KNNDatastore.from_pretrained(tmp_path)
    with pytest.raises(FileNotFoundError, match="There is no file or folder"):
        KNNDatastore.from_pretrained("./no/such/folder")


def test_an_index_is_built_once_and_then_loaded_from_the_cache(tmp_path, monkeypatch):
    built = []

    def build(keys, factory):
        built.append(factory)
        return build_index(keys, factory)

    monkeypatch.setattr("docsplit_hf.storage.snapshot_index.build_index", build)
    datastore = make_datastore(rows=1500, index="IVF16,PQ4x4", nprobe=3, rerank=2)
    datastore.save_pretrained(tmp_path)
    assert not list(tmp_path.glob("datastore/*index*")) and len(list(cache_folder("indexes").iterdir())) == 1
    again = KNNDatastore.from_pretrained(tmp_path)
    assert built == ["IVF16,PQ4x4"]
    assert answers(again) == answers(datastore)
    assert again.snapshot.index.nprobe == 3
    shutil.rmtree(cache_folder("indexes"))
    for _ in range(2):
        assert answers(KNNDatastore.from_pretrained(tmp_path)) == answers(datastore)
    assert built == ["IVF16,PQ4x4"] * 2


def test_an_index_of_passages_is_cached_by_their_keys(tmp_path):
    plain, datastore = (make(rows=1100, index="SQ8") for make in (make_datastore, with_passages))
    assert np.array_equal(plain.keys, datastore.keys)
    for _ in range(2):
        for each in (plain, datastore):
            each.save_pretrained(tmp_path)
            again = KNNDatastore.from_pretrained(tmp_path)
            assert answers(again) == answers(each) and again.snapshot.index.ntotal == len(again.snapshot.searched)
        assert len(list(cache_folder("indexes").iterdir())) == 2


def test_an_incomplete_index_is_not_cached(tmp_path):
    datastore = make_datastore(rows=1500, index="IVF16,Flat")
    datastore.add(np.ones((3, 8)), [0, 0, 0])
    datastore.save_pretrained(tmp_path)
    assert not cache_folder("indexes").exists()
    again = KNNDatastore.from_pretrained(tmp_path)
    assert (again.snapshot.indexed, again.snapshot.outside_index) == (1503, 0)
    assert len(list(cache_folder("indexes").iterdir())) == 1
