"""Behavior of a datastore in a collection alone: repeated adds, other writers, long texts, places of its parts.

Both a server and a folder of milvus-lite are tested where they may differ.
"""

import base64
import copy
import logging
import pickle
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from transformers import BertModel, pipeline

from docsplit_hf import KNNDatastore, connect_datastore
from docsplit_hf.connectors.milvus import collection as collection_module
from docsplit_hf.connectors.milvus import remote_datastore as remote_datastore_module
from docsplit_hf.connectors.milvus.collection import RemoteDatastoreError
from docsplit_hf.connectors.milvus.rows import TEXT

from ...classifier.datastore.datastores import fill, make_datastore, make_passages, with_passages
from ...classifier.datastore.shards import write_shards
from .conftest import NAMES


def test_a_repeated_add_adds_no_row_twice(folder):
    """With ids that were given, and with those that were made. Equal rows of one call stay apart."""
    datastore = folder.make()
    keys = np.eye(8)
    labels = ["fruit", "fruit", "mineral", "fruit"]
    texts = ["same", "same", "same", None]
    for ids in (None, ["a", "b", "c", "d"]):
        before = len(datastore)
        first = datastore.add(keys[:4], labels, texts, ids=ids)
        assert datastore.add(keys[:4], labels, texts, ids=ids) == first
        assert len(datastore) == before + 4 and len({*first}) == 4
    with pytest.raises(ValueError, match="'a' is there already"):
        datastore.add(keys[:1], ["mineral"], ["same"], ids=["a"])


def test_texts_of_several_embeddings_are_refused(folder):
    datastore = folder.make()
    keys = np.eye(8, dtype=np.float32)
    passages = make_passages(keys)
    other = with_passages()
    other.add(keys, ["fruit"] * 8, ["x" * 9] * 8, passages=passages)
    for call in (
        lambda: datastore.add(keys, ["fruit"] * 8, ["x" * 9] * 8, passages=passages),
        lambda: datastore.add_documents(keys, ["x" * 9] * 8, passages=passages),
        lambda: datastore.search(keys, 3, passages),
        lambda: datastore.merge(other),
    ):
        with pytest.raises(ValueError, match="use another long_documents, or a KNNDatastore"):
            call()
    assert len(datastore) == 0


def test_long_texts_are_stored_completely(milvus):
    """A field holds 65,535 bytes: longer texts have characters of several bytes across the cuts."""
    datastore = milvus.make()
    keys = np.eye(8, dtype=np.float32)
    texts = ["ü北a" * 30_000, None, "", "short", "é" * 65_535]
    pairs = [None, "b" * 200_000, "p", "", None]
    datastore.add(keys[:5], ["fruit"] * 5, texts, pairs, ids=list("abcde"))
    found = datastore.search(keys[:1], 5)
    assert sorted(found.ids[0]) == list("abcde")
    for row_id, text, pair in zip(found.ids[0], found.texts[0], found.text_pairs[0], strict=True):
        number = "abcde".index(row_id)
        assert text == texts[number]
        assert pair == pairs[number]
    with pytest.raises(ValueError, match="'f' has more bytes than a row of Milvus, 1,048,560: shorten it"):
        datastore.add(keys[5:6], ["fruit"], ["f" * 2**20], ids=["f"])


def test_two_connections_find_rows_of_each_other(milvus):
    """Rows and new labels at once, and a copy of all rows at its next use."""
    one = milvus.make(names=["fruit"])
    other = milvus.connect(one)
    one.add(np.eye(8)[:2], ["fruit", "fruit"], ids=["a", "b"])
    assert len(other) == 2 and len(other.snapshot.keys) == 2
    one.add(np.eye(8)[2:4], ["mineral", "gravel"], ids=["c", "d"])
    assert other.search(np.eye(8)[3:4], 1).example(0, 0)["label"] == "gravel"
    other.add(np.eye(8)[4:5], ["sand"], ids=["e"])
    assert one.snapshot.rows["id"].to_pylist() == list("abcde") == other.snapshot.rows["id"].to_pylist()
    assert one.label_names == other.label_names == ("fruit", "mineral", "gravel", "sand")
    other.relabel({"a": "sand"})
    other.add(np.eye(8)[5:6], ["sand"], ids=["f"], replacing=["b"])
    names = [other.snapshot.label_names[i] for i in other.snapshot.labels]
    assert names == ["sand", "mineral", "gravel", "sand", "sand"]
    assert one.snapshot.rows["id"].to_pylist() == list("acdef")


def comparable(example):
    """The example without its id, and with its labels in their order."""
    return example | {"id": 0, "labels": sorted(example.get("labels", []))}


@pytest.mark.parametrize(
    "place, multi_label",
    [("folder", False), pytest.param("standalone", True, marks=pytest.mark.slow)],
)
def test_merging_a_datastore_twice_adds_it_once(place, request, monkeypatch, multi_label):
    milvus = request.getfixturevalue(place)
    monkeypatch.setattr(remote_datastore_module, "BLOCK_ROWS", 13)
    local = fill(make_datastore(multi_label=multi_label, probe=np.ones((3, 8))))
    local.add(np.ones((1, 8)), [["gravel"]] if multi_label else ["gravel"], ids=["kept"])
    remote = milvus.make(names=["mineral"])
    for _ in range(2):
        remote.merge(local)
        assert (len(remote), len(remote.documents)) == (len(local), len(local.documents))
    remote = milvus.reopened(remote)
    np.testing.assert_array_equal(remote.probe, np.ones((3, 8)))
    found = remote.search(np.eye(8)[:3], 6)
    wanted = local.search(np.eye(8)[:3], 6)
    np.testing.assert_allclose(found.distances, wanted.distances, rtol=1e-5)
    for query, rank in np.ndindex(3, 6):
        own = comparable(found.example(query, rank))
        other = comparable(wanted.example(query, rank))
        other["distance"] = pytest.approx(other["distance"])
        assert own == other
    assert remote.view().get(ids=["kept"]).rows["id"].to_pylist() == ["kept"]
    np.testing.assert_allclose(
        remote.documents.search(np.eye(8)[:3], 4).distances,
        local.documents.search(np.eye(8)[:3], 4).distances,
        rtol=1e-5,
    )
    with pytest.raises(ValueError, match="differ from the datastore's"):
        remote.merge(make_datastore(multi_label=multi_label, probe=-np.ones((3, 8))))
    with pytest.raises(ValueError, match="several labels"):
        remote.merge(make_datastore(multi_label=not multi_label, probe=np.ones((3, 8))))


def test_shards_are_merged_and_equal_rows_of_two_blocks_stay_two(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(remote_datastore_module, "BLOCK_ROWS", 7)
    keys = np.random.default_rng(0).standard_normal((40, 8)).astype(np.float16)
    shards = write_shards(tmp_path / "shards", keys, labels=[NAMES[i % 3] for i in range(40)])
    remote = folder.make()
    for _ in range(2):
        remote.merge(KNNDatastore.from_shards(shards))
        assert len(remote) == 40
    assert [found[0] for found in remote.search(keys, 1).ids] == [str(i) for i in range(40)]
    twins = make_datastore()
    twins.add(np.ones((20, 8)), ["fruit"] * 20, ["the same"] * 20)
    for _ in range(2):
        remote.merge(twins)
        assert len(remote) == 40 + len(twins)


def test_many_rows_are_fetched_in_parts(milvus, monkeypatch):
    keys = np.random.default_rng(0).standard_normal((50, 8)).astype(np.float32)
    names = [f"l{i}" for i in range(30)]
    datastore = milvus.make(names=names)
    ids = datastore.add(keys, names[:25] * 2, texts=["x" * 9] * 50)
    monkeypatch.setattr(collection_module, "REQUEST_ROWS", 20)
    np.testing.assert_array_equal(datastore.snapshot.keys, keys)
    assert milvus.connect(datastore).label_names == tuple(names)
    sampled = datastore.sample(20, 10).rows["id"].to_pylist()
    assert len(sampled) == 20 and {*sampled} < {*ids} and sampled == datastore.sample(20, 10).rows["id"].to_pylist()


def test_fetching_too_many_rows_is_refused(folder, monkeypatch):
    datastore = folder.make()
    datastore.add(np.eye(8), ["fruit"] * 8)
    monkeypatch.setattr(remote_datastore_module, "MAX_COPIED_BYTES", 8 * 8 * 4 - 1)
    with pytest.raises(ValueError, match="needs all rows, and the keys of the collection .* have 0.0 GiB, more than"):
        datastore.snapshot  # noqa: B018
    assert datastore.search(np.eye(8)[:1], 2).rows.shape == (1, 2)


def test_a_connection_is_neither_copied_nor_saved(folder, tmp_path, caplog):
    datastore = folder.make()
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="connect again"):
            attempt(datastore)
    with caplog.at_level(logging.WARNING):
        datastore.save_pretrained(tmp_path)
    assert "give it to the pipeline as datastore again" in caplog.text and not list(tmp_path.iterdir())


def test_a_saved_pipeline_continues_with_its_collection(folder, tiny_config, tokenizer, texts, tmp_path):
    """The folder has no rows and no address; another encoder is refused."""
    address = folder.new_address()
    model = BertModel(tiny_config)
    plain = partial(pipeline, "docsplit-knn", tokenizer=tokenizer, device="cpu")
    probe = plain(model=model).embedder.probe()

    def connected(model):
        return plain(model=model, datastore=connect_datastore(address, token=folder.token, probe=probe))

    pipe = connected(model)
    pipe.add_examples(texts[:6], ["river", "engine"] * 3)
    pipe.save_pretrained(tmp_path)
    card = (tmp_path / "README.md").read_text()
    assert "The 6 examples are in a separate datastore" in card
    assert not any(folder.address in path.read_text() for path in tmp_path.glob("*.[jm]*"))
    assert not (tmp_path / "datastore").exists()
    again = connected(model=str(tmp_path))
    assert again(texts[:8]) == pipe(texts[:8])
    other = BertModel(tiny_config)
    for parameter in other.parameters():
        parameter.data.neg_()
    with pytest.raises(ValueError, match="built by another encoder"):
        connected(model=other)
    narrow = copy.deepcopy(tiny_config)
    narrow.hidden_size = tiny_config.hidden_size // 2
    with pytest.raises(ValueError, match="keys of dimension 32, not 16|embeddings have shape"):
        connected(model=BertModel(narrow))


def test_a_collection_of_another_kind_is_refused(folder):
    datastore = folder.make()
    client = datastore._collection._client
    client.create_collection("photographs", dimension=4)
    with pytest.raises(ValueError, match="not a datastore of this docsplit_hf: it has the fields"):
        connect_datastore(folder.address, "photographs", token=folder.token)
    with pytest.raises(ValueError, match="pass dimension"):
        connect_datastore(folder.address, "missing", token=folder.token)
    with pytest.raises(ValueError, match="dimension 8, not 9"):
        folder.connect(datastore, dimension=9)
    datastore.add(np.eye(8)[:1], ["fruit"])
    with pytest.raises(ValueError, match="have one label each"):
        folder.connect(datastore, multi_label=True)
    datastore._about = replace(datastore._about, multi_label=True)
    rows = [row | {TEXT: row[TEXT].replace('"version": 2', '"version": 3')} for row in about_rows(datastore)]
    datastore._collection.write("about", rows)
    with pytest.raises(ValueError, match="version 3, but this docsplit_hf reads .* version 2: upgrade"):
        folder.connect(datastore)


def about_rows(datastore):
    return datastore._collection.get(["about"], collection_module.FIELDS)


def test_an_interrupted_creation_is_finished(folder):
    datastore = folder.make()
    datastore._collection.delete(["about"])  # this row is written last
    assert folder.connect(datastore, dimension=8, label_names=NAMES, multi_label=True).multi_label


@pytest.mark.slow
def test_a_wrong_token_is_refused_and_no_token_is_shown(standalone, monkeypatch, caplog, capfd):
    """No token is in errors, in logs of any level, or in what is printed of the datastore."""
    name = standalone.make().collection
    with caplog.at_level(logging.DEBUG):
        datastore = connect_datastore(standalone.address, name, token=standalone.token)
        datastore.add(np.eye(8), ["fruit"] * 8)
        assert len(datastore) == 8
        for wrong in ("another-secret", None):
            with pytest.raises(RemoteDatastoreError, match="the token was refused: pass a valid token") as refused:
                connect_datastore(standalone.address, name, token=wrong)
            assert "secret" not in str(refused.value) and refused.value.__cause__ is None
    captured = capfd.readouterr()
    shown = [caplog.text, captured.out, captured.err, repr(datastore), str(vars(datastore))]
    for token in (standalone.token, "another-secret"):
        encoded = base64.b64encode(token.encode()).decode()
        for text in shown:
            assert token not in text
            assert encoded not in text
